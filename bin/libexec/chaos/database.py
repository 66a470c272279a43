"""The databases of a chaos run: a SQLite file, or a PostgreSQL server of its own."""

from __future__ import annotations

import contextlib
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

from postgresql import Server

Row = dict[str, Any]
IMPATIENT = 1.0
"""Seconds that a change waits for others: they may have been stopped in the middle of a transaction."""
CHANNELS = ("queue", "events")


class Database(ABC):
    """The cloud's database, with the faults that can be made in it."""

    name: str
    url = ""
    """For NOVELLA_DATABASE_URL; empty: the file in the data folder."""

    @abstractmethod
    def start(self) -> None:
        """Make it ready."""

    @abstractmethod
    def run_in(self, in_main: Callable[[Callable[[], None]], None]) -> None:
        """Start processes by a function that does something in the main thread, which runs a cloud from now on."""

    @abstractmethod
    def stop(self, *, keep: bool) -> None:
        """End what was started; with ``keep`` its files stay."""

    def moment(self, when: datetime) -> object:
        """Return a time as Django writes it into this database."""
        return when

    @abstractmethod
    def read(self, statement: str) -> list[Row]:
        """Run one query.  Raises the driver's errors."""

    @abstractmethod
    def change(self, work: Callable[[Callable[..., list[Row]]], None]) -> None:
        """Run statements in one transaction: ``work`` gets a function of statement and parameters (``?``).

        Raises an error of the driver when somebody else is in the way for longer than a moment.
        """

    @abstractmethod
    def lock(self, seconds: float) -> None:
        """Let nobody else write servers for ``seconds``."""

    @abstractmethod
    def away(self, seconds: float, pick: int) -> str:
        """Make the database unreachable for ``seconds``; return in words how."""

    @abstractmethod
    def lose_wakes(self, seconds: float) -> None:
        """Let wake-ups get lost for ``seconds``."""

    @abstractmethod
    def wake(self, times: int) -> None:
        """Wake every listener although there is no work."""


class Sqlite(Database):
    """The SQLite file of a one-machine cloud."""

    name = "sqlite"

    def __init__(self, data: Path) -> None:
        self._path = data / "portal/db.sqlite3"
        self._wake = data / "run" / "wake"

    def start(self) -> None:
        """Do nothing: whoever opens the file first creates it."""

    def run_in(self, in_main: Callable[[Callable[[], None]], None]) -> None:
        """Do nothing: there is no process."""

    def stop(self, *, keep: bool) -> None:
        """Do nothing: the file goes with its folder."""

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
        """Move the sockets away, so that listeners must look for work by themselves."""
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

    def _sockets(self) -> list[Path]:
        return sorted(path for path in self._wake.glob("*") if path.suffix.removeprefix(".") in CHANNELS)


class Postgresql(Database):
    """A PostgreSQL server of its own that ends with the run."""

    name = "postgresql"

    def __init__(self, folder: Path) -> None:
        """Choose a new folder for the server's files that its user may reach."""
        self._server = Server(folder, durable=False)
        self.url = self._server.url

    def start(self) -> None:
        self._server.start()

    def stop(self, *, keep: bool) -> None:
        self._server.stop(keep=keep)

    def run_in(self, in_main: Callable[[Callable[[], None]], None]) -> None:
        self._server.in_main = in_main

    def _connect(self) -> psycopg.Connection[Row]:
        return psycopg.connect(
            self.url.replace("postgres://", "postgresql://"), row_factory=dict_row, connect_timeout=20
        )

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
        """Stop every process of the server for a while, or shut it down at once and start it again."""
        if pick % 2:
            self._server.signal(signal.SIGSTOP)
            time.sleep(seconds)
            self._server.signal(signal.SIGCONT)
            return "its processes were stopped"
        self._server.break_off()
        time.sleep(seconds)
        self._server.run()
        return "it was shut down at once and recovered"

    def lose_wakes(self, seconds: float) -> None:
        """End the connections of listeners again and again."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            with contextlib.suppress(psycopg.Error):
                self.read("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE query LIKE 'LISTEN%'")
            time.sleep(0.5)

    def wake(self, times: int) -> None:
        for _ in range(times):
            for channel in CHANNELS:
                self.read(f"SELECT pg_notify('novella_{channel}', '')")


def make(kind: str, data: Path, beside: Path) -> Database:
    """Return a database of that kind, not started; ``beside`` is a folder for a server's files."""
    return Postgresql(beside) if kind == "postgresql" else Sqlite(data)
