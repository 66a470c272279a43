"""Database connections while nothing is asked of the database."""

from django.db import connection


def give_back() -> None:
    """Give this thread's connection back before it waits for a client or a host.

    The pool has fewer connections than the process has threads that can wait.  Inside a transaction it is kept, and so
    is SQLite's, which nobody else could use.
    """
    if connection.vendor != "sqlite" and not connection.in_atomic_block:
        connection.close()
