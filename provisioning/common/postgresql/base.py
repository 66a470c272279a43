"""PostgreSQL that plans a statement once: whatever is `Repeated` is prepared on a connection at its second use.

Planning takes longer than anything else that the server does for a question of ours: of a token check, 5 ms of the
server's processor of 6.  Django writes the values into the text of a statement, so that the server sees another one
each time; here those that are `Repeated` go with parameters, and psycopg prepares them.  All others go as ever: where a
parameter of theirs has no type that the server could find out, they would be refused.
"""

from __future__ import annotations

from typing import Any

from django.db.backends.postgresql import base, operations
from django.db.backends.utils import CursorWrapper
from django.db.utils import NotSupportedError

from provisioning.common.repeated import Repeated
from provisioning.common.select_compiler import QuickOperations

USES_BEFORE_PREPARED = 1
"""Of a statement on a connection."""
KEPT = 200
"""Prepared statements of a connection; the one that was not used for the longest time makes room."""


class _Preparing(CursorWrapper):
    """Sends what is `Repeated` with parameters."""

    db: DatabaseWrapper

    def execute(self, sql: Any, params: Any = None) -> Any:
        if not isinstance(sql, Repeated):
            return super().execute(sql, params)
        self.cursor.close()
        self.cursor = self.db.cursor_with_parameters()
        try:
            return super().execute(sql, params)
        except NotSupportedError:
            if self.db.in_atomic_block:  # the rollback makes psycopg forget what was prepared
                raise
            self.db.forget_prepared()  # most likely "cached plan must not change result type", after a migration
            return super().execute(sql, params)


class _Cursor(_Preparing):
    """As Django's."""


class _DebugCursor(_Preparing, base.CursorDebugWrapper):
    """As Django's, noting each statement."""


class _Operations(QuickOperations, operations.DatabaseOperations):
    def last_executed_query(self, cursor: Any, sql: Any, params: Any) -> str:
        """Return the statement for a log; without its values where psycopg does not keep what it has sent."""
        return super().last_executed_query(cursor, sql, params) or str(sql)


class DatabaseWrapper(base.DatabaseWrapper):
    """Django's backend with these cursors."""

    ops_class = _Operations

    def get_connection_params(self) -> dict[str, Any]:
        """Return psycopg's options; Django switches preparing off unless there is a threshold."""
        params: dict[str, Any] = super().get_connection_params()
        if params["prepare_threshold"] is None:
            params["prepare_threshold"] = USES_BEFORE_PREPARED
        return params

    def _configure_connection(self, connection: Any) -> bool:
        connection.prepared_max = KEPT
        return bool(super()._configure_connection(connection))  # type: ignore[misc]  # the stubs leave it out

    def make_cursor(self, cursor: Any) -> _Cursor:
        return _Cursor(cursor, self)

    def make_debug_cursor(self, cursor: Any) -> _DebugCursor:
        return _DebugCursor(cursor, self)

    def cursor_with_parameters(self) -> Any:
        """Return a driver's cursor that sends values beside the statement."""
        made: Any = base.ServerBindingCursor  # the stubs know psycopg2's, which is made otherwise
        return made(self.connection)

    def forget_prepared(self) -> None:
        """Make the server and psycopg forget the statements of this connection."""
        self.connection.execute("DEALLOCATE ALL")
