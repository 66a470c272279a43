"""Another size on the same host, kept or given up."""

from __future__ import annotations

import logging
import time

import msgspec

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.commands import ConfirmResizeRequest, ResizeRequest, RevertResizeRequest
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import START_GUEST, STOP_GUEST, WAIT_FOR_BOOT
from compute_agent.engine.failures import LATE
from compute_agent.servers.context import CommandCancelledError, CommandContext
from compute_agent.servers.registry import handles
from compute_agent.virt.errors import HostError, InstanceNotFoundError

log = logging.getLogger(__name__)

RESIZE_GUEST, FLATTEN_DISK, RESTORE_GUEST = "resize_guest", "flatten_disk", "restore_guest"
PAUSES = (0.2, 1.0, 3.0)
"""Seconds between the tries to bring a guest back after a resize that failed."""


class NotRestoredError(HostError):
    """A resize failed, and so did everything that should have brought the guest back to what it was."""

    code = "not_restored"


class LateError(HostError):
    """The order was begun, and goes on only after its deadline."""

    code = LATE.code


@handles(ResizeRequest, heavy=True, undoes=True)
def resize(means: CommandContext, request: ResizeRequest) -> PowerState:
    """Stop the guest, give it the new size, start it.  Whatever fails, the guest has its old size and runs again.

    A guest that is being deleted is left as it is.
    """
    driver, uuid = means.driver, means.uuid
    before = msgspec.structs.replace(request.instance, flavor=request.old_flavor)
    if means.stopped() and not means.cancelled.is_set():
        raise _too_late(means, before, start=request.start)
    try:
        with means.step(STOP_GUEST):
            driver.stop(uuid, request.timeout)
        with means.step(RESIZE_GUEST):
            driver.resize(request.instance, means.command.attempt)
        if not request.start:
            return driver.power_state(uuid)
        return _start(means)
    except CommandCancelledError:
        raise
    except Exception as error:
        _restore(means, before, error, start=request.start)
        raise


@handles(ConfirmResizeRequest, heavy=True)
def confirm(means: CommandContext, request: ConfirmResizeRequest) -> PowerState:
    """Throw away what was kept, while the guest goes on."""
    with means.step(FLATTEN_DISK):
        means.driver.confirm_resize(means.uuid)
    return means.driver.power_state(means.uuid)


@handles(RevertResizeRequest, heavy=True, undoes=True)
def revert(means: CommandContext, request: RevertResizeRequest) -> PowerState:
    """Give the guest its old size and disk; what it has written since is lost, so it is not asked to stop."""
    driver, uuid = means.driver, means.uuid
    with means.step(STOP_GUEST):
        driver.stop(uuid, 0)
    with means.step(RESTORE_GUEST):
        driver.revert_resize(request.instance, means.command.attempt)
    return _start(means) if request.start else driver.power_state(uuid)


def _start(means: CommandContext) -> PowerState:
    with means.step(START_GUEST):
        means.driver.start(means.uuid)
    with means.step(WAIT_FOR_BOOT):
        return means.driver.wait_for_boot(means.uuid, means.parts.boot_timeout)


def _too_late(means: CommandContext, before: InstanceSpec, *, start: bool) -> Exception:
    """Bring back a guest that a resize has left off, when it goes on after its deadline; one that runs is left alone.

    Returns what is to be told.
    """
    error = LateError(LATE.message)
    if means.driver.power_state(means.uuid) != PowerState.RUNNING:
        _restore(means, before, error, start=start)
    return error


def _restore(means: CommandContext, before: InstanceSpec, error: Exception, *, start: bool) -> None:
    """Bring the guest back; NotRestoredError when it will not come.  A guest that is gone needs nothing."""
    driver, uuid = means.driver, means.uuid
    for pause in (*PAUSES, None):
        if means.cancelled.is_set():
            return
        try:
            driver.stop(uuid, 0)
            driver.revert_resize(before, means.command.attempt)
            if start:
                driver.start(uuid)
                driver.wait_for_boot(uuid, means.parts.boot_timeout)
        except InstanceNotFoundError:
            return
        except Exception:
            log.exception("Instance %s could not be brought back to its size before.", uuid)
            if pause is None:
                break
            time.sleep(pause)
        else:
            return
    said = error.message if isinstance(error, HostError) else "The host could not resize the server."
    raise NotRestoredError(f"{said} It could not be brought back to what it was.") from error
