"""What an answer was made of: the statements that read the database for it, and a digest of the rows they gave.

An answer is made of such rows, and of what its maker knows without the database.  When the same statements give the
same rows again, it would be the same again: that is found out without making records of them, and is true whatever
wrote to the database, in whichever order.
"""

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from django.db import DEFAULT_DB_ALIAS, connections

_SIZE = 16


@dataclass(frozen=True, slots=True)
class Reads:
    """Statements with their parameters, and the digest of all their rows."""

    statements: tuple[tuple[str, Any], ...]
    digest: bytes

    @property
    def weight(self) -> int:
        """About how many bytes it takes to remember them."""
        return sum(len(sql) + len(repr(parameters)) for sql, parameters in self.statements)

    def are_the_same(self) -> bool:
        """Send the statements again, and say whether they give the same rows."""
        digests = []
        with connections[DEFAULT_DB_ALIAS].cursor() as cursor:
            for sql, parameters in self.statements:
                cursor.execute(sql, parameters)
                rows = hashlib.blake2b(digest_size=_SIZE)
                _add(rows, cursor.fetchall())
                digests.append(rows.digest())
        return _whole(digests) == self.digest


@dataclass
class Recording:
    """Reads while they are recorded."""

    statements: list[tuple[str, Any]] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)
    only_reads: bool = True

    @property
    def reads(self) -> Reads | None:
        """What was read; None when something else was done, too."""
        if not self.only_reads:
            return None
        return Reads(tuple(self.statements), _whole([each.digest() for each in self.rows]))

    def begin(self, sql: str, parameters: Any) -> Any:
        """Take a statement; returns what takes its rows."""
        if not sql.startswith("SELECT ") or " FOR UPDATE" in sql or " FOR NO KEY UPDATE" in sql:
            self.only_reads = False
        self.statements.append((sql, parameters))
        self.rows.append(hashlib.blake2b(digest_size=_SIZE))
        return self.rows[-1]


@contextmanager
def recorded() -> Iterator[Recording]:
    """Record what this thread reads of the database."""
    connection: Any = connections[DEFAULT_DB_ALIAS]
    recording = Recording()
    plain, debugging = connection.make_cursor, connection.make_debug_cursor
    connection.make_cursor = lambda cursor: _Cursor(plain(cursor), recording)
    connection.make_debug_cursor = lambda cursor: _Cursor(debugging(cursor), recording)
    try:
        yield recording
    finally:
        del connection.make_cursor, connection.make_debug_cursor


class _Cursor:
    """Django's cursor; what passes is taken down."""

    def __init__(self, cursor: Any, recording: Recording) -> None:
        self._cursor, self._recording = cursor, recording
        self._rows: Any = None

    def __getattr__(self, name: str) -> Any:
        return getattr(self._cursor, name)

    def __enter__(self) -> "_Cursor":
        self._cursor.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        self._cursor.__exit__(*error)

    def __iter__(self) -> Iterator[Any]:
        for row in self._cursor:
            _add(self._rows, [row])
            yield row

    def execute(self, sql: str, parameters: Any = None) -> Any:
        self._rows = self._recording.begin(sql, parameters)
        return self._cursor.execute(sql, parameters)

    def executemany(self, sql: str, parameters: Any) -> Any:
        self._recording.only_reads = False
        return self._cursor.executemany(sql, parameters)

    def callproc(self, *arguments: Any) -> Any:
        self._recording.only_reads = False
        return self._cursor.callproc(*arguments)

    def fetchone(self) -> Any:
        row = self._cursor.fetchone()
        if row is not None:
            _add(self._rows, [row])
        return row

    def fetchmany(self, *size: int) -> Any:
        rows = self._cursor.fetchmany(*size)
        _add(self._rows, rows)
        return rows

    def fetchall(self) -> Any:
        rows = self._cursor.fetchall()
        _add(self._rows, rows)
        return rows


def _add(digest: Any, rows: Sequence[Any]) -> None:
    digest.update("".join(map(repr, rows)).encode(errors="surrogatepass"))


def _whole(digests: Sequence[bytes]) -> bytes:
    return hashlib.blake2b(b"".join(digests), digest_size=_SIZE).digest()
