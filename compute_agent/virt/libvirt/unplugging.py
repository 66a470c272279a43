"""A device that a running guest is asked to let go of."""

import logging
import time
from collections.abc import Callable
from typing import Any

import libvirt

from compute_agent.virt.errors import RetryableHostError, UnsupportedError

log = logging.getLogger(__name__)

LETS_GO_WITHIN = 30.0
"""Seconds that a running guest may take to let go of a device; one that is still starting does not hear of it at once.
"""
ASK_AGAIN = 5.0
LOOK_FIRST, LOOK_LAST = 0.02, 0.1
"""Seconds until the first look whether it has, and between later ones."""


def unplug(domain: Any, find: Callable[[], str | None], what: str, patience: float = LETS_GO_WITHIN) -> None:
    """Ask the guest until it has let go of the device, whose XML ``find`` returns as long as the guest has it.

    Raises UnsupportedError for a guest that is paused, RetryableHostError for one that has not let go of ``what``
    within ``patience`` seconds; it has the device then.
    """
    deadline, asked, pause = time.monotonic() + patience, float("-inf"), LOOK_FIRST
    while domain.isActive() and (device := find()) is not None:
        if domain.state()[0] == libvirt.VIR_DOMAIN_PAUSED:
            raise UnsupportedError(f"A paused guest cannot let go of {what}.")
        now = time.monotonic()
        if now >= deadline:
            raise RetryableHostError(f"The guest has not let go of {what}.", detail=f"after {patience} s")
        if now - asked >= ASK_AGAIN:
            _ask(domain, device)
            asked = time.monotonic()
        time.sleep(pause)
        pause = min(2 * pause, LOOK_LAST)


def _ask(domain: Any, device: str) -> None:
    """Ask the guest to let go; what goes wrong (it is asked already, it has just stopped) the next look will tell."""
    try:
        domain.detachDeviceFlags(device, libvirt.VIR_DOMAIN_AFFECT_LIVE)
    except libvirt.libvirtError as error:
        log.info("a guest could not be asked for a device: %s", error)
