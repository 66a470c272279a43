"""SQLite backend with short waits: a statement that finds the database locked is retried within milliseconds.

SQLite's own busy handler sleeps for increasing times, up to 100 ms, regardless of the other writers. With a web process
and a few workers that write short transactions, the lock may be free for much of that time. In WAL mode with immediate
transactions only the beginning of a transaction, or a single statement outside one, ever has to wait, so that a simple
retry is sufficient.

The threads of a process do not poll: one of them at a time is in a transaction, and the next one is woken when it ends.
Polling threads would take the interpreter lock from the thread for which they wait.

Measured against Django's backend with the same options (immediate transactions, WAL, the same timeout), alternating on
2 busy cores, medians of three runs of 150 short transactions in each thread. Three processes of four threads, typical
for a cloud under load: 6.5 s against 8.7 s, with a longest wait of 0.8 s against 1.9 s. One process of eight threads:
2.6 s against 2.7 s. Four processes of one thread: 7.6 s against 6.1 s, because polling costs processor time.
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import sqlite3
import time
import uuid
from collections.abc import Callable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any, cast

from django.db import OperationalError
from django.db.backends.sqlite3 import base, operations

from provisioning.common.database.repeated import Repeated
from provisioning.common.database.select_compiler import QuickOperations
from provisioning.common.sqlite import remote_hosts
from provisioning.common.sqlite.turns import Turn, Turns
from provisioning.common.values.patterns import sqlite_regexp

SHORTEST, LONGEST = 0.0005, 0.004
"""Seconds between two retries; random, so that no process always loses."""
STATEMENTS = 512
"""Compiled statements in a connection's cache; a launch alone uses more than the driver's default of 128."""
LOOK_EVERY = 1.0
"""Seconds between two checks for hosts on other machines."""


_turns = Turns()
_converted: dict[Repeated, str] = {}
"""`Repeated` statements converted for SQLite; limited by their number in the program."""


class PatientCursor(base.SQLiteCursorWrapper):
    """Retries a statement while another connection writes, up to the connection's timeout."""

    def execute(self, query: Any, params: Any = None) -> Any:
        """Run a statement. Raises OperationalError when the database stays locked."""
        return self._patiently(super().execute, query, params)

    def convert_query(self, query: Any, *, param_names: Any = None) -> Any:
        """Convert the placeholders for SQLite; once for a `Repeated` statement."""
        if type(query) is not Repeated:
            return super().convert_query(query, param_names=param_names)
        converted = _converted.get(query)
        if converted is None:
            converted = _converted[query] = super().convert_query(query, param_names=param_names)
        return converted

    def _patiently(self, run: Callable[..., Any], *arguments: Any) -> Any:
        end = 0.0
        while True:
            try:
                return run(*arguments)
            except sqlite3.OperationalError as error:
                if error.sqlite_errorcode != sqlite3.SQLITE_BUSY:
                    raise
                now = time.monotonic()
                end = end or now + cast("PatientConnection", self.connection).patience
                if now >= end:
                    raise
                time.sleep(random.uniform(SHORTEST, LONGEST))  # noqa: S311 - spreads the retries


class PatientConnection(sqlite3.Connection):
    """A connection with the maximum waiting time of its statements, in seconds."""

    patience = 5.0


@lru_cache(maxsize=8192)
def _uuid(text: str) -> uuid.UUID:
    """Parse an id with a cache, because most ids in a list belong to a few projects, users, images and hosts."""
    return uuid.UUID(text)


class DatabaseOperations(QuickOperations, operations.DatabaseOperations):
    """Django's operations with faster conversions of UUIDs and times."""

    def convert_uuidfield_value(self, value: Any, expression: Any, connection: Any) -> Any:
        return value if value is None else _uuid(value)

    def convert_datetimefield_value(self, value: Any, expression: Any, connection: Any) -> Any:
        if type(value) is datetime and value.tzinfo is None and connection.timezone is UTC:
            return value.replace(tzinfo=UTC)
        return super().convert_datetimefield_value(value, expression, connection)


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's backend with ``PatientCursor``. ``OPTIONS["timeout"]`` is the maximum waiting time in seconds."""

    ops_class = DatabaseOperations
    transaction_mode: str | None
    _turn: Turn | None = None
    _look_at = 0.0

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Open the database with SQLite's busy handler, then switch to the retries. A new file is readable by its owner
        only.
        """
        name = str(conn_params["database"])
        if not name.startswith((":", "file:")):
            with contextlib.suppress(OSError):  # it exists, or SQLite reports the error better
                os.close(os.open(name, os.O_CREAT | os.O_EXCL, 0o600))
        ours = {"factory": PatientConnection, "cached_statements": STATEMENTS}
        connection = super().get_new_connection({**ours, **conn_params})
        connection.patience = conn_params.get("timeout", PatientConnection.patience)
        connection.execute("PRAGMA busy_timeout = 0")
        self._look_at = 0.0
        connection.create_function("REGEXP", 2, sqlite_regexp, deterministic=True)
        return connection

    def create_cursor(self, name: str | None = None) -> Any:
        """Return a cursor.

        Django creates a transaction's first cursor before the transaction begins, so ``_follow_hosts`` can change
        ``synchronous``.
        """
        if self.settings_dict.get("SYNCHRONOUS_BY_HOSTS") and not self.in_atomic_block:
            self._follow_hosts()
        return self.connection.cursor(factory=PatientCursor)

    def _follow_hosts(self) -> None:
        """Sync every commit once there are hosts on other machines, which keep running when this machine loses
        power.
        """
        now = time.monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_EVERY
        if remote_hosts.are_known(str(self.settings_dict["NAME"])):
            self.connection.execute("PRAGMA synchronous = FULL")
            self._look_at = math.inf

    def _start_transaction_under_autocommit(self) -> None:
        """Begin a transaction; an immediate transaction, which may write, first waits for this thread's turn."""
        if self.transaction_mode == "IMMEDIATE" and self._turn is None:
            patience = cast("PatientConnection", self.connection).patience
            self._turn = _turns.wait_for(str(self.settings_dict["NAME"]), patience)
            if self._turn is None:
                raise OperationalError("database is locked by another thread")
        try:
            super()._start_transaction_under_autocommit()  # type: ignore[misc]  # missing in the stubs
        except BaseException:
            self._end_turn()
            raise

    def _commit(self) -> None:
        super()._commit()  # type: ignore[misc]  # missing in the stubs
        self._end_turn()

    def _rollback(self) -> None:
        try:
            super()._rollback()  # type: ignore[misc]  # missing in the stubs
        finally:
            self._end_turn()

    def _close(self) -> None:
        try:
            super()._close()  # type: ignore[misc]  # missing in the stubs
        finally:
            self._end_turn()

    def _end_turn(self) -> None:
        turn, self._turn = self._turn, None
        if turn is not None:
            turn.release()
