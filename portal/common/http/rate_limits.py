"""Rate limits of users and projects; operators have none.

Launches (each server), writes, searches by pattern and dry runs are counted; reads are not. ``RATE_LIMITS`` has the
number of each that a user may send in a burst, and the seconds until all of them are available again; a project has
``PROJECT_SHARE`` times as many. The counts are stored in a file shared by all web processes of a machine, as counts in
each process would multiply the limits by their number.
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
from provisioning.common.machine.machine_cache import MachineCache

CACHE = "rates"
LAUNCHES, WRITES, SEARCHES, DRY_RUNS = "launches", "writes", "searches", "dry_runs"
DAILY_WRITES = "daily_writes"
"""Counted together with ``WRITES``. A rate alone is not sufficient, because each change leaves records for weeks."""
DAILY_LAUNCHES = "daily_launches"
"""Counted together with ``LAUNCHES``: the record of a deleted server is also kept for weeks."""
_BUDGETS = {WRITES: (WRITES, DAILY_WRITES), LAUNCHES: (LAUNCHES, DAILY_LAUNCHES)}
"""Kind → the limits that it counts against, for kinds with several limits."""
PROJECT_SHARE = 4
"""Limits of a project, as a multiple of the limits of one user: one user cannot use up the whole project's limit."""
_WORDS = {LAUNCHES: "servers", WRITES: "changes", SEARCHES: "searches", DRY_RUNS: "dry runs"}

logger = logging.getLogger(__name__)


def check(context: RequestContext, kind: str, many: int = 1) -> None:
    """Count ``many`` of a kind for the caller and its project.

    Raises TooManyRequestsError, without counting, if either exceeds its limit.
    """
    wait = seconds_to_wait(context, kind, many)
    if wait:
        raise refusal(kind, wait)


def seconds_to_wait(context: RequestContext, kind: str, many: int = 1) -> int:
    """Count like ``check`` and return 0, or return the number of seconds to wait."""
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
    return math.ceil(_charge(shares)) if shares else 0


def refusal(kind: str, wait: int) -> TooManyRequestsError:
    limits = [settings.RATE_LIMITS.get(limit, (0, 1)) for limit in _BUDGETS.get(kind, (kind,))]
    allowed = " and ".join(f"{number} {_WORDS[kind]} in {seconds} seconds" for number, seconds in limits if number)
    return TooManyRequestsError(
        f"This request was rate-limited: each user may send {allowed}, and each project {PROJECT_SHARE} times"
        f" as many. Try again in {wait} {'second' if wait == 1 else 'seconds'}.",
        retry_after=wait,
    )


def _charge(costs: Mapping[str, tuple[float, float]]) -> float:
    """Add to each key its cost in seconds, to all keys or none, unless one would exceed now plus its window.

    ``costs``: key → cost and window, in seconds. A key stores the time at which its full burst is available again (the
    generic cell rate algorithm). Returns 0, or the number of seconds in excess. If the counts cannot be used, no limits
    apply.
    """
    counts, now = cast("MachineCache", caches[CACHE]), time.time()
    try:
        with counts.exclusive():
            # A clock that was set back must not block any user.
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
        logger.warning("The request counters are not available: no rate limits apply now.", exc_info=True)
    return 0.0
