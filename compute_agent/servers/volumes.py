"""Attaches, detaches, extends and swaps volumes while the guest keeps running."""

import contextlib
import logging
from functools import partial

from msgspec.structs import replace

from compute_agent.contract.commands import (
    AttachVolumeRequest,
    DetachVolumeRequest,
    RefreshVolumeRequest,
    SwapVolumeRequest,
)
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import ATTACH_VOLUME, DETACH_VOLUME, REFRESH_VOLUME, SWAP_VOLUME
from compute_agent.engine.context import CommandContext, Step
from compute_agent.engine.outcomes import LateError
from compute_agent.servers.base import GuestHandler
from compute_agent.virt.errors import HostError, InstanceNotFoundError

log = logging.getLogger(__name__)


class VolumeNotTakenBackError(HostError):
    """A volume could not be attached, and the guest may still have it."""

    code = "not_taken_back"


class AttachVolume(GuestHandler[AttachVolumeRequest]):
    """Attaches the volume to the guest. After a failure the volume is detached.

    A command that is still running after its deadline is undone. A guest that is being deleted is left unchanged.
    """

    resumes_late = True

    async def change(self, context: CommandContext, request: AttachVolumeRequest) -> PowerState:
        spec, power = request.instance, PowerState.NOSTATE

        async def undo(error: Exception) -> None:
            await context.work(lambda: self._detach_again(request, error))

        def attach() -> None:
            nonlocal power
            self.driver.attach_volume(spec, request.disk)
            power = self.driver.power_state(spec.uuid)

        if context.late and not context.cancelled:
            late = LateError()
            await undo(late)
            raise late
        await context.run_steps([Step(ATTACH_VOLUME, attach, undo=undo)])
        return power

    def _detach_again(self, request: AttachVolumeRequest, error: Exception) -> None:
        """Detach the volume from the guest by force: the guest has not used it yet. Raises VolumeNotTakenBackError on
        failure.
        """
        spec, disk = request.instance, request.disk
        before = replace(spec, volumes=[each for each in spec.volumes if each.id != disk.id])
        try:
            self.driver.detach_volume(before, disk, force=True)
        except Exception as failure:
            log.exception("Server %s: volume %s could not be detached again.", spec.uuid, disk.id)
            reason = error.message if isinstance(error, HostError) else "The host could not attach the volume."
            raise VolumeNotTakenBackError(f"{reason} The volume could not be detached again.") from failure


class DetachVolume(GuestHandler[DetachVolumeRequest]):
    """Detaches the volume from the guest. A volume that the guest does not release stays attached, unless it is
    detached by force.

    Succeeds if the guest no longer exists.
    """

    resumes_late = True

    async def change(self, context: CommandContext, request: DetachVolumeRequest) -> PowerState:
        detach = partial(self.driver.detach_volume, request.instance, request.disk, force=request.force)
        await context.run_steps([Step(DETACH_VOLUME, detach)])
        with contextlib.suppress(InstanceNotFoundError):
            return await self.power_state(context)
        return PowerState.NOSTATE


class RefreshVolume(GuestHandler[RefreshVolumeRequest]):
    """Updates a disk according to the command while the guest runs. A failed update can safely be retried."""

    async def change(self, context: CommandContext, request: RefreshVolumeRequest) -> PowerState:
        await context.run_steps(
            [Step(REFRESH_VOLUME, partial(self.driver.refresh_volume, request.instance, request.disk))]
        )
        return await self.power_state(context)


class SwapVolume(GuestHandler[SwapVolumeRequest]):
    """Copies a disk to another volume and switches the guest to that volume. After a failure the guest has the old
    volume.
    """

    heavy = True

    async def change(self, context: CommandContext, request: SwapVolumeRequest) -> PowerState:
        facts: dict[str, str] = {"bytes": str(request.new.size_gb << 30)}

        def swap() -> None:
            self.driver.swap_volume(request.instance, request.old, request.new, context.stopped)

        await context.run_steps([Step(SWAP_VOLUME, swap, facts=facts)])
        return await self.power_state(context)
