"""PostgreSQL backend that plans a statement once: `Repeated` statements are prepared on a connection at their second
use.

Planning takes the server most of the time of typical queries: 5 ms of 6 ms of processor time for the validation of a
token. Django inserts the values into the text of a statement, so that each execution is a new statement for the server.
Here `Repeated` statements are sent with parameters, and psycopg prepares them. All others are sent as in Django,
because the server would reject parameters whose types it cannot infer.
"""

from __future__ import annotations

from typing import Any

from django.db.backends.postgresql import base, operations
from django.db.backends.utils import CursorWrapper
from django.db.utils import NotSupportedError

from provisioning.common.database.repeated import Repeated
from provisioning.common.database.select_compiler import QuickOperations

USES_BEFORE_PREPARED = 1
"""Uses of a statement on a connection before it is prepared."""
MOST_PREPARED = 200
"""Prepared statements of a connection; the least recently used one is replaced."""


class _Preparing(CursorWrapper):
    """Sends `Repeated` statements with parameters."""

    db: DatabaseWrapper

    def execute(self, sql: Any, params: Any = None) -> Any:
        if not isinstance(sql, Repeated):
            return super().execute(sql, params)
        self.cursor.close()
        self.cursor = self.db.cursor_with_parameters()
        try:
            return super().execute(sql, params)
        except NotSupportedError:
            if self.db.in_atomic_block:  # psycopg forgets prepared statements at a rollback
                raise
            self.db.forget_prepared()  # usually "cached plan must not change result type", after a migration
            return super().execute(sql, params)


class _Cursor(_Preparing):
    """Django's cursor with prepared statements."""


class _DebugCursor(_Preparing, base.CursorDebugWrapper):
    """Django's debug cursor with prepared statements."""


class _Operations(QuickOperations, operations.DatabaseOperations):
    def last_executed_query(self, cursor: Any, sql: Any, params: Any) -> str:
        """Return the statement for a log; without its values if psycopg does not keep them."""
        return super().last_executed_query(cursor, sql, params) or str(sql)


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's backend with cursors that prepare statements."""

    ops_class = _Operations

    def get_connection_params(self) -> dict[str, Any]:
        """Return psycopg's options; Django disables prepared statements unless a threshold is set."""
        params: dict[str, Any] = super().get_connection_params()
        if params["prepare_threshold"] is None:
            params["prepare_threshold"] = USES_BEFORE_PREPARED
        return params

    def _configure_connection(self, connection: Any) -> bool:
        connection.prepared_max = MOST_PREPARED
        return bool(super()._configure_connection(connection))  # type: ignore[misc]  # missing in the stubs

    def make_cursor(self, cursor: Any) -> _Cursor:
        return _Cursor(cursor, self)

    def make_debug_cursor(self, cursor: Any) -> _DebugCursor:
        return _DebugCursor(cursor, self)

    def cursor_with_parameters(self) -> Any:
        """Return a psycopg cursor that sends values separately from the statement."""
        made: Any = base.ServerBindingCursor  # the stubs know psycopg2's, with another signature
        return made(self.connection)

    def forget_prepared(self) -> None:
        """Deallocate the prepared statements of this connection on the server and in psycopg."""
        self.connection.execute("DEALLOCATE ALL")
