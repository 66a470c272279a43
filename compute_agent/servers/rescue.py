"""A guest that starts from another disk for a while."""

from __future__ import annotations

import logging

from msgspec.structs import replace

from compute_agent.contract.commands import RescueRequest, UnrescueRequest
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import (
    CREATE_DISK,
    DEFINE_DOMAIN,
    FETCH_IMAGE,
    START_GUEST,
    STOP_GUEST,
    WAIT_FOR_BOOT,
)
from compute_agent.servers.boot_sources import fetch
from compute_agent.servers.context import CommandCancelledError, CommandContext
from compute_agent.servers.registry import handles
from compute_agent.virt.errors import HostError

log = logging.getLogger(__name__)


@handles(RescueRequest, heavy=True)
def rescue(means: CommandContext, request: RescueRequest) -> PowerState:
    """Start the guest from the rescue image; when that fails it has its own disk again, and runs if it did."""
    image = request.instance.rescue
    if image is None:
        raise HostError("The order to rescue the instance names no image.")
    means.driver.power_state(means.uuid)  # a guest that is not here cannot be given back what it had
    with means.step(FETCH_IMAGE) as facts:
        bits = fetch(means.parts.images, means.uuid, image.image, image.kernel, image.ramdisk)
        facts.update(bits.facts)
    try:
        with means.step(STOP_GUEST):
            means.driver.stop(means.uuid, request.timeout)
        with means.step(CREATE_DISK):
            means.driver.rescue(request.instance, means.command.attempt, bits.disk, bits.boot)
        return _start(means)
    except CommandCancelledError:
        raise
    except Exception:
        _go_back(means, request)
        raise


@handles(UnrescueRequest, heavy=True)
def unrescue(means: CommandContext, request: UnrescueRequest) -> PowerState:
    """Start the guest from its own disk."""
    with means.step(STOP_GUEST):
        means.driver.stop(means.uuid, request.timeout)
    with means.step(DEFINE_DOMAIN):
        means.driver.unrescue(request.instance, means.command.attempt)
    return _start(means)


def _start(means: CommandContext) -> PowerState:
    with means.step(START_GUEST):
        means.driver.start(means.uuid)
    with means.step(WAIT_FOR_BOOT):
        return means.driver.wait_for_boot(means.uuid, means.parts.boot_timeout)


def _go_back(means: CommandContext, request: RescueRequest) -> None:
    """Undo a rescue that failed, as far as that goes."""
    try:
        means.driver.unrescue(replace(request.instance, rescue=None), means.command.attempt)
        if request.ran:
            means.driver.start(means.uuid)
    except HostError as error:
        log.warning("Instance %s could not be brought back: %s %s", means.uuid, error.message, error.detail)
