"""Records the statements that read the database for an answer, and a digest of their rows.

An answer depends on these rows and on data outside the database. If the same statements return the same rows again, the
answer is still valid. The check needs no model instances, and works whichever process wrote to the database.
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
        """Approximate memory in bytes."""
        return sum(len(sql) + len(repr(parameters)) for sql, parameters in self.statements)

    def are_the_same(self) -> bool:
        """Run the statements again, and return whether they return the same rows."""
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
    """Records the statements of one response, and digests of their rows."""

    statements: list[tuple[str, Any]] = field(default_factory=list)
    rows: list[Any] = field(default_factory=list)
    only_reads: bool = True

    @property
    def reads(self) -> Reads | None:
        """The recorded reads; None when other statements were run as well."""
        if not self.only_reads:
            return None
        return Reads(tuple(self.statements), _whole([each.digest() for each in self.rows]))

    def begin(self, sql: str, parameters: Any) -> Any:
        """Record a statement; return the digest object to which the caller adds the statement's rows."""
        if not sql.startswith("SELECT ") or " FOR UPDATE" in sql or " FOR NO KEY UPDATE" in sql:
            self.only_reads = False
        self.statements.append((sql, parameters))
        self.rows.append(hashlib.blake2b(digest_size=_SIZE))
        return self.rows[-1]


@contextmanager
def recorded() -> Iterator[Recording]:
    """Record the reads of this thread."""
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
    """Cursor wrapper that records every statement and its rows."""

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
