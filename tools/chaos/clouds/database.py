"""The databases of a chaos run: a SQLite file, or a separate PostgreSQL server."""

from __future__ import annotations

import contextlib
import shutil
import signal
import socket
import sqlite3
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
from psycopg.rows import dict_row

from tools.chaos.clouds.commands import CommandError, finished
from tools.postgresql import START_WITHIN, Server, programs

Row = dict[str, Any]
IMPATIENT = 1.0
"""Seconds that a change waits for other transactions: their processes may have been stopped."""
CHANNELS = ("queue", "events")
STANDBY = "standby"
"""The name of a standby's folder within the folder of its primary."""


class Database(ABC):
    """The cloud's database, with the faults that can be simulated in it."""

    name: str
    url = ""
    """The value of NOVELLA_DATABASE_URL, empty for the file in the data folder."""
    errors: tuple[type[Exception], ...] = ()
    """The exceptions of the database's driver."""

    @abstractmethod
    def start(self) -> None:
        """Start the database."""

    @abstractmethod
    def run_in(self, in_main: Callable[[Callable[[], None]], None]) -> None:
        """Start later processes with ``in_main``, a function that calls its argument in the main thread."""

    @abstractmethod
    def stop(self, *, keep: bool) -> None:
        """Stop the database; with ``keep`` its files are not removed."""

    def moment(self, when: datetime) -> object:
        """Return a time in the form in which Django writes it into this database."""
        return when

    @abstractmethod
    def read(self, statement: str) -> list[Row]:
        """Run one query.  Raises the driver's errors."""

    def silence(self, host: str) -> float:
        """Return the seconds since a host's last heartbeat; 0 if they are unknown."""
        try:
            rows = self.read("SELECT name, last_seen_at FROM hosts_host WHERE last_seen_at IS NOT NULL")
        except self.errors:
            return 0.0
        seen = {row["name"]: datetime.fromisoformat(str(row["last_seen_at"])) for row in rows}
        now = datetime.now(UTC)
        return (now - seen.get(host, now).replace(tzinfo=UTC)).total_seconds()

    @abstractmethod
    def change(self, work: Callable[[Callable[..., list[Row]]], None]) -> None:
        """Run statements in one transaction: ``work`` gets a function that takes a statement and its parameters
        (``?``).

        Raises an exception of the driver if another transaction blocks it for longer than ``IMPATIENT`` seconds.
        """

    @abstractmethod
    def lock(self, seconds: float) -> None:
        """Block writes to servers for ``seconds``."""

    @abstractmethod
    def away(self, seconds: float, pick: int) -> str:
        """Disconnect the database for ``seconds``, with one of several methods. Returns a description of the method."""

    @abstractmethod
    def lose_wakes(self, seconds: float) -> None:
        """Prevent that wake-ups reach their listeners, for ``seconds``."""

    @abstractmethod
    def wake(self, times: int) -> None:
        """Wake all listeners although there is no work."""

    @abstractmethod
    def copy(self, path: Path) -> None:
        """Back up the database to a file as described in the operator's guide, while the cloud is running.

        Raises exceptions of the driver, CommandError.
        """

    @abstractmethod
    def put_back(self, path: Path) -> None:
        """Restore a copy as described in the operator's guide. No other process may use the database. Raises
        CommandError.
        """


class Sqlite(Database):
    """The SQLite file of a one-machine cloud."""

    name = "sqlite"
    errors = (sqlite3.Error,)

    def __init__(self, data: Path) -> None:
        self._path = data / "portal/db.sqlite3"
        self._wake = data / "run" / "wake"

    def start(self) -> None:
        """Do nothing: the first process that opens the file creates it."""

    def run_in(self, in_main: Callable[[Callable[[], None]], None]) -> None:
        """Do nothing: there is no process."""

    def stop(self, *, keep: bool) -> None:
        """Do nothing: the file is removed with its folder."""

    def moment(self, when: datetime) -> object:
        return str(when.astimezone(UTC).replace(tzinfo=None))

    def _connect(self, patience: float = 30) -> sqlite3.Connection:
        connection = sqlite3.connect(self._path, timeout=patience, isolation_level=None)
        connection.row_factory = sqlite3.Row
        return connection

    def read(self, statement: str) -> list[Row]:
        with closing(self._connect()) as connection:
            return [dict(row) for row in connection.execute(statement)]

    def change(self, work: Callable[[Callable[..., list[Row]]], None]) -> None:
        with self._writing(IMPATIENT) as connection:
            work(lambda statement, *values: [dict(row) for row in connection.execute(statement, values)])

    @contextlib.contextmanager
    def _writing(self, patience: float = 30) -> Iterator[sqlite3.Connection]:
        with closing(self._connect(patience)) as connection:
            connection.execute("BEGIN EXCLUSIVE")
            yield connection
            connection.execute("COMMIT")

    def lock(self, seconds: float) -> None:
        with self._writing():
            time.sleep(seconds)

    def away(self, seconds: float, pick: int) -> str:
        self.lock(seconds)
        return "its file was locked for longer than anybody waits"

    def lose_wakes(self, seconds: float) -> None:
        """Rename the sockets, so that listeners have to look for work without a wake-up."""
        hidden = [(path, path.with_suffix(".hidden")) for path in self._sockets()]
        for path, aside in hidden:
            with contextlib.suppress(FileNotFoundError):
                path.rename(aside)
        time.sleep(seconds)
        for path, aside in hidden:
            with contextlib.suppress(FileNotFoundError):
                aside.rename(path)

    def wake(self, times: int) -> None:
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
            sender.setblocking(False)  # noqa: FBT003 - its one argument
            for path in self._sockets() * times:
                with contextlib.suppress(OSError):
                    sender.sendto(b"1", str(path))

    def copy(self, path: Path) -> None:
        """Copy the database with the same function of SQLite as ``sqlite3 db.sqlite3 ".backup ..."``."""
        with closing(self._connect()) as connection, closing(sqlite3.connect(path)) as there:
            connection.backup(there)

    def put_back(self, path: Path) -> None:
        for suffix in ("", "-wal", "-shm"):
            self._path.with_name(self._path.name + suffix).unlink(missing_ok=True)
        shutil.copyfile(path, self._path)

    def _sockets(self) -> list[Path]:
        return sorted(path for path in self._wake.glob("*") if path.suffix.removeprefix(".") in CHANNELS)


class Postgresql(Database):
    """A separate PostgreSQL server that ends with the run, optionally with an asynchronous standby."""

    name = "postgresql"
    errors = (psycopg.Error, CommandError)

    def __init__(self, folder: Path, *, standby: bool = False) -> None:
        """Use ``folder`` for the server's files; the user that the server runs as must have access to it."""
        self._server = Server(folder, durable=False)
        self._standby = Server(folder / STANDBY, durable=False) if standby else None
        self._all = [*filter(None, (self._standby, self._server))]
        self.url = self._server.url
        if standby:
            self.url += f",{folder / STANDBY}&target_session_attrs=read-write"

    def start(self) -> None:
        self._server.start()
        if self._standby is not None:
            self._standby.start_as_standby(self._server)

    def stop(self, *, keep: bool) -> None:
        for server in self._all:
            server.stop(keep=keep)

    def run_in(self, in_main: Callable[[Callable[[], None]], None]) -> None:
        for server in self._all:
            server.in_main = in_main

    @property
    def _address(self) -> str:
        return _libpq(self.url)

    def _connect(self) -> psycopg.Connection[Row]:
        return psycopg.connect(self._address, row_factory=dict_row, connect_timeout=20)

    def read(self, statement: str) -> list[Row]:
        with self._connect() as connection:
            return connection.execute(statement.encode()).fetchall()

    def change(self, work: Callable[[Callable[..., list[Row]]], None]) -> None:
        with self._connect() as connection:
            connection.execute(f"SET lock_timeout = {IMPATIENT * 1000:.0f}".encode())

            def run(statement: str, *values: object) -> list[Row]:
                cursor = connection.execute(statement.replace("?", "%s").encode(), values)
                return cursor.fetchall() if cursor.description is not None else []

            work(run)

    def lock(self, seconds: float) -> None:
        with self._connect() as connection:
            connection.execute("LOCK TABLE compute_instance IN ACCESS EXCLUSIVE MODE")
            time.sleep(seconds)

    def away(self, seconds: float, pick: int) -> str:
        """Stop all processes of the server for a while, or shut it down immediately and start it again later."""
        if pick % 2:
            self._server.signal(signal.SIGSTOP)
            time.sleep(seconds)
            self._server.signal(signal.SIGCONT)
            return "its processes were stopped"
        self._server.crash()
        time.sleep(seconds)
        self._server.run()
        return "it was shut down immediately and recovered"

    def lose_wakes(self, seconds: float) -> None:
        """End the connections of listeners every half second."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(psycopg.Error):
                self.read("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
            time.sleep(0.5)

    def wake(self, times: int) -> None:
        for _ in range(times):
            for channel in CHANNELS:
                self.read(f"SELECT pg_notify('novella_{channel}', '')")

    def copy(self, path: Path) -> None:
        finished([str(programs() / "pg_dump"), "--format=custom", f"--file={path}", f"--dbname={self._address}"])

    def put_back(self, path: Path) -> None:
        command = [str(programs() / "pg_restore"), "--clean", "--if-exists", "--exit-on-error"]
        finished([*command, f"--dbname={self._address}", str(path)])

    # ----- the standby ----------------------------------------------------------------------------------------------

    def fall_behind(self) -> None:
        """Disconnect the standby from the primary, which continues to work."""
        if self._standby is None:
            raise LookupError("there is no standby")
        with psycopg.connect(_libpq(self._standby.url), autocommit=True) as connection:
            connection.execute("ALTER SYSTEM SET primary_conninfo = ''")
            connection.execute("SELECT pg_reload_conf()")
            deadline = time.monotonic() + START_WITHIN
            while connection.execute("SELECT 1 FROM pg_stat_wal_receiver").fetchone() is not None:
                if time.monotonic() > deadline:
                    raise LookupError("the standby keeps following the primary")
                time.sleep(0.05)

    def lose_primary(self) -> None:
        """Kill all processes of the primary. Data that the standby has not received is lost."""
        self._server.kill()

    def promote(self) -> None:
        """Promote the standby to the primary."""
        if self._standby is None:
            raise LookupError("there is no standby")
        with psycopg.connect(_libpq(self._standby.url), autocommit=True) as connection:
            connection.execute("SELECT pg_promote(true, 60)")
        self._server, self._standby = self._standby, self._server


def _libpq(url: str) -> str:
    return url.replace("postgres://", "postgresql://")


def make(kind: str, data: Path, beside: Path, *, standby: bool = False) -> Database:
    """Return a database of this kind, which is not started yet. ``data`` is the folder of a SQLite file, ``beside`` the
    folder of a PostgreSQL server.
    """
    return Postgresql(beside, standby=standby) if kind == "postgresql" else Sqlite(data)
