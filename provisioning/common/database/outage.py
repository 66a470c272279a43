"""Distinguishes outages of the database from errors in statements."""

import sqlite3

from django.db import InterfaceError, OperationalError

from provisioning.common.database.retry import BROKEN_OFF, broken_off

NO_ANSWER = "The cloud's database does not answer. Try again in a moment."
CONTENDED = "Other requests change the same records at the same time. Try again in a moment."
_SQLITE = {
    sqlite3.SQLITE_BUSY,
    sqlite3.SQLITE_LOCKED,
    sqlite3.SQLITE_IOERR,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_FULL,
}
_POSTGRESQL = ("08", "53", "57")
"""Classes of SQLSTATE: connection failures, insufficient resources, operator intervention."""


def is_outage(error: BaseException) -> bool:
    """Whether the database was unavailable, or aborted the statement because of other transactions; a retry may
    succeed.
    """
    if not isinstance(error, (OperationalError, InterfaceError)):
        return False
    cause = error.__cause__
    if cause is None:
        return "locked" in str(error)
    if isinstance(cause, sqlite3.Error):
        return getattr(cause, "sqlite_errorcode", 0) & 0xFF in _SQLITE
    state = getattr(cause, "sqlstate", None)
    return state is None or state in BROKEN_OFF or state.startswith(_POSTGRESQL)


def message_of(error: BaseException) -> str:
    """Return the message of an outage for users."""
    return CONTENDED if broken_off(error) else NO_ANSWER
