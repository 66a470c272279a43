"""Removing what a command has made, and insisting on it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from compute_agent.engine.threads import in_thread
from compute_agent.servers.services import HostServices
from compute_agent.virt.driver import Guest
from compute_agent.virt.errors import HypervisorUnavailableError

log = logging.getLogger(__name__)

TRIES = 6
PAUSE = 0.1
"""Seconds before the next try; doubles, at most ``PAUSE_MAX``."""
PAUSE_MAX = 5.0


@dataclass(frozen=True)
class Undone:
    """What an undo could not remove: the guest itself, or something beside it."""

    guest_left: bool = False
    network_left: bool = False
    newer_kept: bool = False
    """A guest of a newer attempt is here; it was left alone."""

    @property
    def complete(self) -> bool:
        """Say whether nothing of the attempt is left."""
        return not (self.guest_left or self.network_left)

    @property
    def gone(self) -> bool:
        """Say whether nothing of the instance is left."""
        return self.complete and not self.newer_kept


async def insist(action: Callable[[], Awaitable[object]], what: str, *, patient: bool) -> bool:
    """Try until it works, at most ``TRIES`` times, and say whether it did; every failure is logged.

    ``patient``: tries do not count while the hypervisor does not answer, because nothing can be promised about a guest
    that cannot be seen.
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
            log.error("Gave up for now: could not %s.", what)
            return False
        await asyncio.sleep(pause)
        pause = min(2 * pause, PAUSE_MAX)


async def find_guest(parts: HostServices, uuid: str) -> Guest | None:
    """Return the guest as the hypervisor has it.  Raises HypervisorUnavailableError."""
    guests = await in_thread(parts.threads.work, parts.driver.guests)
    return next((guest for guest in guests if guest.uuid == uuid), None)


async def undo(parts: HostServices, uuid: str, attempt: int, *, may_run: bool) -> Undone:
    """Undo a build, last step first: the guest with its disks and seed, then its network.

    A guest of a newer attempt is left alone with all it uses.  ``may_run``: the guest may have been started, so a
    hypervisor that does not answer is waited for without end.
    """
    found: list[Guest | None] = []

    async def look() -> None:
        found.append(await find_guest(parts, uuid))

    if not await insist(look, f"look for instance {uuid}", patient=may_run):
        return Undone(guest_left=True, network_left=True)
    guest = found[0]
    if guest is not None and guest.attempt > attempt:
        return Undone(newer_kept=True)
    guest_gone = await insist(
        lambda: in_thread(parts.threads.work, lambda: parts.driver.destroy(uuid)),
        f"remove instance {uuid}",
        patient=may_run,
    )
    return Undone(guest_left=not guest_gone, network_left=not await unplug(parts, uuid))


async def unplug(parts: HostServices, uuid: str) -> bool:
    """Undo the network of an instance that has no guest; False when something is left."""
    return await insist(
        lambda: in_thread(parts.threads.work, lambda: parts.network.unplug(uuid)),
        f"unplug instance {uuid}",
        patient=False,
    )
