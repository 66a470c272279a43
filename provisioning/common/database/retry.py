"""Retries transactions that PostgreSQL aborted because of a deadlock or a serialization failure.

Locks are taken in a fixed order where possible. Otherwise the database resolves a deadlock by aborting one of the
transactions, which is run again, because it has written nothing.
"""

import functools
import random
import sqlite3
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from django.core.exceptions import ObjectDoesNotExist
from django.db import IntegrityError, OperationalError, connection, transaction
from django.db.models import ProtectedError

P = ParamSpec("P")
R = TypeVar("R")

BROKEN_OFF = frozenset({"40001", "40P01"})
"""PostgreSQL's serialization_failure and deadlock_detected."""
LOST_REFERENCE = frozenset({"23503", sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY})
"""PostgreSQL's foreign_key_violation and SQLite's."""
TRIES = 5
PAUSE = 0.02
"""Maximum seconds before the second attempt; the maximum doubles with each attempt."""


def broken_off(error: BaseException) -> bool:
    """Whether the database aborted the transaction because of another one."""
    return getattr(error.__cause__, "sqlstate", None) in BROKEN_OFF


def lost_reference(error: BaseException) -> bool:
    """Whether the transaction refers to an object that another transaction deleted after this one had looked it up.

    Nothing was written; a retry that looks the object up again will not find it.
    """
    cause = error.__cause__
    if not isinstance(error, IntegrityError):
        return False
    known = getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorcode", None)
    return known in LOST_REFERENCE


def lost_race(error: BaseException, method: str) -> bool:
    """Whether a request with this HTTP method failed because of a concurrent transaction and can be retried.

    Another request deleted an object that this request had looked up, or created a reference to the object that this
    request deletes, or there was a deadlock. A ``POST`` is retried only if the failed transaction is the one that
    creates something.
    """
    if lost_reference(error) or isinstance(error, ProtectedError):
        return True
    return method != "POST" and (isinstance(error, ObjectDoesNotExist) or broken_off(error))


def when_broken_off(work: Callable[P, R]) -> Callable[P, R]:
    """Decorate a function that is one transaction and can be retried from its beginning.

    Inside a larger transaction the function is not retried, because the caller has to retry the whole transaction.
    """

    @functools.wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        for tried in range(TRIES - 1):
            try:
                return work(*args, **kwargs)
            except OperationalError as error:
                if connection.in_atomic_block or not broken_off(error):
                    raise
            time.sleep(random.uniform(0, PAUSE * 2**tried))  # noqa: S311 - spreads the retries
        return work(*args, **kwargs)

    return run


@when_broken_off
def serialized(work: Callable[[], R]) -> R:
    """Run a function that reads and then writes, in a transaction that other such transactions precede or follow.

    SQLite runs one writing transaction at a time. PostgreSQL aborts this transaction if another one of this kind has
    changed rows that it has read, or any other one a row that it changes, and the function is called again, so it must
    read everything itself. Within a larger transaction only the outer one decides.
    """
    outermost = not connection.in_atomic_block
    with transaction.atomic():
        if outermost and connection.vendor == "postgresql":
            with connection.cursor() as cursor:
                cursor.execute("SET TRANSACTION ISOLATION LEVEL SERIALIZABLE")
        return work()
