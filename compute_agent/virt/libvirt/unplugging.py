"""Unplugs devices from running guests."""

import logging
import time
from collections.abc import Callable
from typing import Any

import libvirt

from compute_agent.virt.errors import RetryableHostError, UnsupportedError

log = logging.getLogger(__name__)

LETS_GO_WITHIN = 30.0
"""Seconds in which a running guest has to release a device; a guest that is still starting ignores the first requests.
"""
ASK_AGAIN = 5.0
LOOK_FIRST, LOOK_LAST = 0.02, 0.1
"""Seconds until the first check, and between later checks."""


def unplug(domain: Any, find: Callable[[], str | None], what: str, patience: float = LETS_GO_WITHIN) -> None:
    """Ask the guest to release a device, repeatedly until ``find``, which returns the device's XML, returns None.

    Raises UnsupportedError for a paused guest, RetryableHostError if the guest does not release ``what`` within
    ``patience`` seconds; the guest then keeps the device.
    """
    deadline, asked_at, pause = time.monotonic() + patience, float("-inf"), LOOK_FIRST
    while domain.isActive() and (device := find()) is not None:
        if domain.state()[0] == libvirt.VIR_DOMAIN_PAUSED:
            raise UnsupportedError(f"A paused guest cannot release {what}.")
        now = time.monotonic()
        if now >= deadline:
            raise RetryableHostError(f"The guest has not released {what}.", detail=f"after {patience} s")
        if now - asked_at >= ASK_AGAIN:
            _ask(domain, device)
            asked_at = time.monotonic()
        time.sleep(pause)
        pause = min(2 * pause, LOOK_LAST)


def _ask(domain: Any, device: str) -> None:
    """Ask the guest once to release the device. Errors are only logged: the next check shows whether it was
    released.
    """
    try:
        domain.detachDeviceFlags(device, libvirt.VIR_DOMAIN_AFFECT_LIVE)
    except libvirt.libvirtError as error:
        log.info("could not request a device from a guest: %s", error)
