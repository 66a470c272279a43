"""Retries with increasing pauses."""

import asyncio
import logging
from collections.abc import Awaitable, Callable

from compute_agent.virt.errors import HypervisorUnavailableError

log = logging.getLogger(__name__)

TRIES = 6
PAUSE = 0.1
"""Seconds before the first retry; doubles, up to ``PAUSE_MAX``."""
PAUSE_MAX = 5.0


async def insist(action: Callable[[], Awaitable[object]], what: str, *, patient: bool) -> bool:
    """Repeat ``action`` until it succeeds, at most ``TRIES`` times. Return whether it succeeded. Every failure is
    logged.

    ``patient``: attempts do not count while the hypervisor is unavailable, because the guest's state is unknown then.
    """
    pause, failures = PAUSE, 0
    while True:
        try:
            await action()
        except HypervisorUnavailableError as error:
            failures += 0 if patient else 1
            log.warning("Could not %s: %s", what, error.detail or error.message)
        except Exception:
            failures += 1
            log.exception("Could not %s.", what)
        else:
            return True
        if failures >= TRIES:
            log.error("Stopped retrying for now: could not %s.", what)
            return False
        await asyncio.sleep(pause)
        pause = min(2 * pause, PAUSE_MAX)
