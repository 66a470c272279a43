"""Returns idle database connections."""

from django.db import connection


def give_back() -> None:
    """Return this thread's connection to the pool before it waits for a client or a host.

    The pool has fewer connections than the process has threads that can wait. It is kept inside a transaction, and on
    SQLite, where connections are not shared.
    """
    if connection.vendor != "sqlite" and not connection.in_atomic_block:
        connection.close()
