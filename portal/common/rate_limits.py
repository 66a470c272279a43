"""How much one person, and one project, may ask for in a time; operators as much as they like.

Counted are launches (each server), writes, searches by pattern and dry runs; reading is not.  ``RATE_LIMITS`` says how
many of each one person may ask for at once, and in how many seconds all of these are free again; a project as a whole
has ``PROJECT_SHARE`` times as much.  The counts lie in a file that all web processes of a machine share, because each
counting for itself would allow as many times more as there are processes.
"""

import logging
import math
import sqlite3
import time
from collections.abc import Mapping
from typing import cast

from django.conf import settings
from django.core.cache import caches

from provisioning.common.context import RequestContext
from provisioning.common.errors import TooManyRequestsError
from provisioning.common.machine_cache import MachineCache

CACHE = "rates"
LAUNCHES, WRITES, SEARCHES, DRY_RUNS = "launches", "writes", "searches", "dry_runs"
DAILY_WRITES = "daily_writes"
"""Counted with ``WRITES``: each change leaves records that are kept for weeks, so a rate alone does not bound them."""
DAILY_LAUNCHES = "daily_launches"
"""Counted with ``LAUNCHES``: the record of a deleted server is kept as long."""
_BUDGETS = {WRITES: (WRITES, DAILY_WRITES), LAUNCHES: (LAUNCHES, DAILY_LAUNCHES)}
"""Kind → the limits that it counts for, where there is more than one."""
PROJECT_SHARE = 4
"""What one person asks for must not use up what the others of the project may."""
_WORDS = {LAUNCHES: "servers", WRITES: "changes", SEARCHES: "searches", DRY_RUNS: "dry runs"}

logger = logging.getLogger(__name__)


def check(context: RequestContext, kind: str, many: int = 1) -> None:
    """Count ``many`` of a kind for the caller and the caller's project.

    Raises TooManyRequestsError, without counting, when either has asked for too many lately.
    """
    wait = seconds_to_wait(context, kind, many)
    if wait:
        raise refusal(kind, wait)


def seconds_to_wait(context: RequestContext, kind: str, many: int = 1) -> int:
    """Count as ``check``, and return 0; or return in how many seconds it may be asked for again."""
    if context.is_admin or context.user_id is None:
        return 0
    shares: dict[str, tuple[float, float]] = {}
    for limit in _BUDGETS.get(kind, (kind,)):
        number, seconds = settings.RATE_LIMITS.get(limit, (0, 1))
        if not number:
            continue
        cost = min(many, number) * seconds / number
        shares[f"{limit}:user:{context.user_id}"] = cost, seconds
        if context.project_id is not None:
            shares[f"{limit}:project:{context.project_id}"] = cost / PROJECT_SHARE, seconds
    return math.ceil(_take(shares)) if shares else 0


def refusal(kind: str, wait: int) -> TooManyRequestsError:
    limits = [settings.RATE_LIMITS.get(limit, (0, 1)) for limit in _BUDGETS.get(kind, (kind,))]
    allowed = " and ".join(f"{number} {_WORDS[kind]} in {seconds} seconds" for number, seconds in limits if number)
    return TooManyRequestsError(
        f"This request was rate-limited: one person may ask for {allowed}, and one project for {PROJECT_SHARE} times"
        f" as many. Try again in {wait} {'second' if wait == 1 else 'seconds'}.",
        retry_after=wait,
    )


def _take(costs: Mapping[str, tuple[float, float]]) -> float:
    """Add to each key its cost in seconds, of all keys or of none, so that none is more than its window ahead of now.

    ``costs``: key → cost and window, in seconds.  A key holds the time at which all of its share is free again (the
    generic cell rate algorithm).  Returns 0, or how many seconds are too many.  The counts are a hint and no record:
    when they cannot be used, nobody is limited.
    """
    counts, now = cast("MachineCache", caches[CACHE]), time.time()
    try:
        with counts.exclusive():
            # A clock that was set back must not lock anybody out.
            ends = {
                key: min(max(float(counts.get(key, now)), now), now + window) + cost
                for key, (cost, window) in costs.items()
            }
            wait = max(end - now - costs[key][1] for key, end in ends.items())
            if wait > 1e-6:
                return wait
            for key, end in ends.items():
                counts.set(key, end, end - now)
    except (sqlite3.Error, OSError):
        logger.warning("The counts of requests cannot be used: nobody is limited now.", exc_info=True)
    return 0.0
