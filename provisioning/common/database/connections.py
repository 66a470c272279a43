"""Returns idle database connections to the pool."""

from django.db import connection


def release() -> None:
    """Return this thread's connection to the pool before the thread waits for a client or a host.

    The pool has fewer connections than the process has threads that can wait. The connection is kept inside a
    transaction, and on SQLite, where threads do not share connections.
    """
    if connection.vendor != "sqlite" and not connection.in_atomic_block:
        connection.close()
