"""Trying again what PostgreSQL broke off because two transactions waited for each other or could not be put in a row.

Locks are taken in one order wherever that can be; where it cannot, the database breaks the ring by ending one of the
transactions, and that one is simply run again: nothing of it was written.
"""

import functools
import random
import sqlite3
import time
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from django.core.exceptions import ObjectDoesNotExist
from django.db import IntegrityError, OperationalError, connection
from django.db.models import ProtectedError

P = ParamSpec("P")
R = TypeVar("R")

BROKEN_OFF = frozenset({"40001", "40P01"})
"""PostgreSQL's serialization_failure and deadlock_detected."""
LOST_REFERENCE = frozenset({"23503", sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY})
"""PostgreSQL's foreign_key_violation and SQLite's."""
TRIES = 5
PAUSE = 0.02
"""Seconds before the second try, at most; each further pause may be twice as long."""


def broken_off(error: BaseException) -> bool:
    """Whether the database ended the transaction for the sake of another one."""
    return getattr(error.__cause__, "sqlstate", None) in BROKEN_OFF


def lost_reference(error: BaseException) -> bool:
    """Whether what a transaction refers to was deleted by another one after it was looked up.

    Nothing of it was written: who begins anew, with looking it up, is told that it is gone.
    """
    cause = error.__cause__
    if not isinstance(error, IntegrityError):
        return False
    known = getattr(cause, "sqlstate", None) or getattr(cause, "sqlite_errorcode", None)
    return known in LOST_REFERENCE


def lost_race(error: BaseException, method: str) -> bool:
    """Whether a request of this HTTP method failed because another transaction was first, and may be begun anew.

    What was looked up was deleted, or what is being deleted was referred to, or both waited for each other.  A
    ``POST`` is begun anew only where the transaction that failed is the one that makes something.
    """
    if lost_reference(error) or isinstance(error, ProtectedError):
        return True
    return method != "POST" and (isinstance(error, ObjectDoesNotExist) or broken_off(error))


def when_broken_off(work: Callable[P, R]) -> Callable[P, R]:
    """Decorate what is one transaction and may be run again from its beginning.

    Inside a larger transaction it is run once: that one is over, and has to be begun anew by whoever began it.
    """

    @functools.wraps(work)
    def run(*args: P.args, **kwargs: P.kwargs) -> R:
        for tried in range(TRIES - 1):
            try:
                return work(*args, **kwargs)
            except OperationalError as error:
                if connection.in_atomic_block or not broken_off(error):
                    raise
            time.sleep(random.uniform(0, PAUSE * 2**tried))  # noqa: S311 - spreads the waiting
        return work(*args, **kwargs)

    return run
