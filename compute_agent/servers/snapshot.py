"""Copying a guest's disk and sending it to the portal as an image."""

from __future__ import annotations

import contextlib
import logging

from compute_agent.contract.commands import SnapshotRequest
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import COPY_DISK, STOP_GUEST, UPLOAD_IMAGE
from compute_agent.servers.context import CommandCancelledError, CommandContext
from compute_agent.servers.registry import handles
from compute_agent.servers.services import ImageOutlet
from compute_agent.virt.errors import HostError, UnsupportedError

log = logging.getLogger(__name__)


@handles(SnapshotRequest, heavy=True)
def take(means: CommandContext, request: SnapshotRequest) -> PowerState:
    """Stop the guest when that is wanted, copy its disk, send the copy, and remove it.

    A guest that was stopped for nothing is started again.
    """
    outlet = means.parts.outgoing
    if outlet is None:
        raise UnsupportedError("This host sends no images.")
    ran = request.stop and means.driver.power_state(means.uuid) == PowerState.RUNNING
    try:
        _take(means, request, outlet)
    except BaseException as error:
        if means.cancelled.is_set():
            raise CommandCancelledError from error
        if ran:
            _start_again(means)
        raise
    return means.driver.power_state(means.uuid)


def _take(means: CommandContext, request: SnapshotRequest, outlet: ImageOutlet) -> None:
    if request.stop:
        with means.step(STOP_GUEST):
            means.driver.stop(means.uuid, request.timeout)
    with outlet.file(means.command.id) as copy:
        with means.step(COPY_DISK) as facts:
            means.driver.snapshot(means.uuid, copy, request.disk_format, means.stopped)
            facts["bytes"] = str(copy.stat().st_size)
        with means.step(UPLOAD_IMAGE):
            outlet.send(copy, means.uuid, request.image_id, means.stopped)


def _start_again(means: CommandContext) -> None:
    with contextlib.suppress(HostError):
        means.driver.start(means.uuid)
        log.info("Instance %s runs again: it was stopped for an image that could not be made.", means.uuid)
