"""SQLite with short waits: whoever finds the database locked looks again within milliseconds.

SQLite's own waiting sleeps for longer and longer, up to 100 ms, whatever the writer before it does.  With a web process
and a few workers that all write a little, the lock lies free most of that time; measured, launches took ten times as
long.  In WAL mode with immediate transactions only the beginning of a transaction, or a single statement outside one,
ever has to wait, so that it can simply be tried again.
"""

from __future__ import annotations

import random
import sqlite3
import time
from collections.abc import Callable
from typing import Any, cast

from django.db.backends.sqlite3 import base

SHORTEST, LONGEST = 0.0005, 0.004
"""Seconds between two looks; random, so that nobody is always second."""


class PatientCursor(base.SQLiteCursorWrapper):
    """Tries a statement again while another connection writes, up to the connection's timeout."""

    def execute(self, query: Any, params: Any = None) -> Any:
        """Run one statement; raises OperationalError when the database stays locked."""
        return self._patiently(super().execute, query, params)

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
                time.sleep(random.uniform(SHORTEST, LONGEST))  # noqa: S311 - spreads the waiting


class PatientConnection(sqlite3.Connection):
    """A connection that knows how long its statements may wait, in seconds."""

    patience = 5.0


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's backend with that cursor.  ``OPTIONS["timeout"]`` is the longest wait, in seconds, as ever."""

    def get_new_connection(self, conn_params: dict[str, Any]) -> Any:
        """Open the database, waiting in SQLite's way, then switch to ours."""
        connection = super().get_new_connection({"factory": PatientConnection, **conn_params})
        connection.patience = conn_params.get("timeout", PatientConnection.patience)
        connection.execute("PRAGMA busy_timeout = 0")
        return connection

    def create_cursor(self, name: str | None = None) -> Any:
        """Return a cursor that waits."""
        return self.connection.cursor(factory=PatientCursor)
