"""A Django cache in a file that is shared by all processes of a machine and survives restarts.

Django's file cache lists its whole folder at every write, and its memory cache is local to a process. Values must be
JSON; a tuple is returned as a list.
"""

import contextlib
import fcntl
import json
import logging
import os
import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from django.core.cache.backends.base import DEFAULT_TIMEOUT, BaseCache

PATIENCE = 10.0
"""Seconds to wait for another process to release the file."""
SWEEP_EVERY = 500
"""Number of writes after which expired or excess entries are removed."""

logger = logging.getLogger(__name__)


class _File:
    """The connection of this process, for all threads."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.lock = threading.RLock()
        self._pid = 0
        self._connection: sqlite3.Connection | None = None
        self.writes = 0

    def connection(self) -> sqlite3.Connection:
        """Return the open file, which is reopened after a fork. The caller holds the lock."""
        if self._connection is None or self._pid != os.getpid():
            self._connection, self._pid = self._open(), os.getpid()
        return self._connection

    def _open(self) -> sqlite3.Connection:
        """Open the file, one process at a time; a damaged file, possibly after a power failure, is replaced by an empty
        file.
        """
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with open(os.open(f"{self._path}.lock", os.O_RDWR | os.O_CREAT, 0o600), "rb") as turn:  # noqa: PTH123
            fcntl.flock(turn, fcntl.LOCK_EX)
            try:
                return _opened(self._path)
            except sqlite3.OperationalError:
                raise
            except sqlite3.DatabaseError:
                logger.exception("%s is damaged and is replaced by an empty file.", self._path)
                for end in ("", "-wal", "-shm"):
                    Path(f"{self._path}{end}").unlink(missing_ok=True)
                return _opened(self._path)


def _opened(path: Path) -> sqlite3.Connection:
    os.close(os.open(path, os.O_RDWR | os.O_CREAT, 0o600))
    opened = sqlite3.connect(path, timeout=PATIENCE, isolation_level=None, check_same_thread=False)
    try:
        opened.execute("PRAGMA journal_mode = WAL")
        opened.execute("PRAGMA synchronous = OFF")
        if opened.execute("PRAGMA quick_check(1)").fetchone() != ("ok",):
            raise sqlite3.DatabaseError("The file is damaged.")  # noqa: TRY301 - as SQLite itself does
        opened.execute(
            "CREATE TABLE IF NOT EXISTS entries (key TEXT PRIMARY KEY, value TEXT, ends_at REAL) WITHOUT ROWID"
        )
        opened.execute("CREATE INDEX IF NOT EXISTS entries_end ON entries (ends_at)")
    except BaseException:
        opened.close()
        raise
    return opened


_files: dict[Path, _File] = {}
_opening = threading.Lock()


class MachineCache(BaseCache):
    """``LOCATION`` is the file. When it is full, the entries that would expire first are removed."""

    def __init__(self, location: str, params: dict[str, Any]) -> None:
        super().__init__(params)
        with _opening:
            self._file = _files.setdefault(Path(location), _File(Path(location)))

    @contextlib.contextmanager
    def exclusive(self) -> Iterator[None]:
        """Block all other threads and processes from the cache within the context."""
        with self._file.lock:
            connection = self._file.connection()
            if connection.in_transaction:
                yield
                return
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield
            finally:
                connection.execute("COMMIT")

    def get(self, key: str, default: Any = None, version: int | None = None) -> Any:
        made = self.make_and_validate_key(key, version=version)
        with self._file.lock:
            statement = "SELECT value FROM entries WHERE key = ? AND ends_at > ?"
            row = self._file.connection().execute(statement, (made, time.time())).fetchone()
        return default if row is None else json.loads(row[0])

    def set(
        self,
        key: str,
        value: Any,
        timeout: float | None = DEFAULT_TIMEOUT,
        version: int | None = None,
    ) -> None:
        made = self.make_and_validate_key(key, version=version)
        end = self.get_backend_timeout(timeout)
        row = (made, json.dumps(value), float("inf") if end is None else end)
        with self.exclusive():
            self._file.connection().execute("INSERT OR REPLACE INTO entries VALUES (?, ?, ?)", row)
            self._file.writes += 1
            if self._file.writes % SWEEP_EVERY == 0:
                self._sweep()

    def add(
        self,
        key: str,
        value: Any,
        timeout: float | None = DEFAULT_TIMEOUT,
        version: int | None = None,
    ) -> bool:
        with self.exclusive():
            if self.get(key, self, version) is not self:
                return False
            self.set(key, value, timeout, version)
            return True

    def touch(self, key: str, timeout: float | None = DEFAULT_TIMEOUT, version: int | None = None) -> bool:
        with self.exclusive():
            value = self.get(key, self, version)
            if value is self:
                return False
            self.set(key, value, timeout, version)
            return True

    def incr(self, key: str, delta: int = 1, version: int | None = None) -> int:
        """Add to a number and keep its expiry. Raises ValueError when the key does not exist."""
        made = self.make_and_validate_key(key, version=version)
        with self.exclusive():
            value: int | None = self.get(key, None, version)
            if value is None:
                raise ValueError(f"Key {key!r} not found.")
            change = "UPDATE entries SET value = ? WHERE key = ?"
            self._file.connection().execute(change, (json.dumps(value + delta), made))
            return value + delta

    def delete(self, key: str, version: int | None = None) -> bool:
        made = self.make_and_validate_key(key, version=version)
        with self.exclusive():
            return self._file.connection().execute("DELETE FROM entries WHERE key = ?", (made,)).rowcount > 0

    def clear(self) -> None:
        with self.exclusive():
            self._file.connection().execute("DELETE FROM entries")

    def _sweep(self) -> None:
        connection = self._file.connection()
        connection.execute("DELETE FROM entries WHERE ends_at <= ?", (time.time(),))
        (count,) = connection.execute("SELECT count(*) FROM entries").fetchone()
        if count > self._max_entries:
            oldest = "SELECT key FROM entries ORDER BY ends_at LIMIT ?"
            connection.execute(f"DELETE FROM entries WHERE key IN ({oldest})", (count - self._max_entries // 2,))  # noqa: S608
