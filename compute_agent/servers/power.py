"""Power, and a password inside the guest."""

from __future__ import annotations

import contextlib

from compute_agent.contract.commands import PasswordRequest, PowerRequest
from compute_agent.contract.power import PowerState
from compute_agent.servers.context import CommandContext
from compute_agent.servers.registry import handles
from compute_agent.virt.errors import GuestGoneError, InstanceNotFoundError


@handles(PowerRequest)
def switch(means: CommandContext, request: PowerRequest) -> PowerState:
    """Change the guest's power state."""
    driver, uuid = means.driver, means.uuid
    if request.action in {"start", "resume", "reboot_hard"}:
        _make_again(means)
    match request.action:
        case "start":
            driver.start(uuid)
            return driver.wait_for_boot(uuid, means.parts.boot_timeout)
        case "stop":
            driver.stop(uuid, request.timeout)
        case "reboot_soft" | "reboot_hard":
            driver.reboot(uuid, hard=request.action == "reboot_hard", timeout=request.timeout)
        case "pause":
            driver.pause(uuid)
        case "unpause":
            driver.unpause(uuid)
        case "suspend":
            driver.suspend(uuid)
        case "resume":
            driver.resume(uuid)
            return driver.wait_for_boot(uuid, means.parts.boot_timeout)
        case "crash_dump":
            driver.crash_dump(uuid)
    return driver.power_state(uuid)


def _make_again(means: CommandContext) -> None:
    """Define a guest anew whose domain somebody has removed by hand, from the disk that is here.

    Raises GuestGoneError when there is no disk any more, or this host has forgotten what the guest was made of.
    """
    driver, spec = means.driver, means.known
    with contextlib.suppress(InstanceNotFoundError):
        driver.power_state(means.uuid)
        return
    if spec is None or not driver.has_disk(means.uuid):
        raise GuestGoneError
    means.parts.network.plug(spec)
    driver.define(spec, means.command.attempt)
    means.parts.network.apply_firewall(spec)


@handles(PasswordRequest)
def set_password(means: CommandContext, request: PasswordRequest) -> PowerState:
    """Set a password inside the guest."""
    means.driver.set_password(means.uuid, request.user, request.password)
    return means.driver.power_state(means.uuid)
