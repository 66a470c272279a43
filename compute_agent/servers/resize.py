"""Resizes a guest on the same host, and confirms or reverts a resize."""

import asyncio
import logging
from functools import partial

from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.commands import ConfirmResizeRequest, ResizeRequest, RevertResizeRequest
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import STOP_GUEST
from compute_agent.engine.context import CommandContext, Step
from compute_agent.engine.outcomes import LateError
from compute_agent.servers.base import GuestHandler
from compute_agent.servers.guest_steps import start_steps
from compute_agent.virt.errors import HostError, InstanceNotFoundError

log = logging.getLogger(__name__)

RESIZE_GUEST, FLATTEN_DISK, RESTORE_GUEST = "resize_guest", "flatten_disk", "restore_guest"
PAUSES = (0.2, 1.0, 3.0)
"""Seconds between attempts to restore a guest after a failed resize."""


class NotRestoredError(HostError):
    """A resize failed, and the guest could not be restored."""

    code = "not_restored"


class Resize(GuestHandler[ResizeRequest]):
    """Stops the guest, resizes it, and starts it if requested. After a failure the guest has its old size, and is
    started again if requested.

    A guest that is being deleted is left unchanged.
    """

    heavy = resumes_late = True

    async def change(self, context: CommandContext, request: ResizeRequest) -> PowerState:
        spec = request.instance
        restore = partial(self._restore, context, request)
        if context.late and not context.cancelled:
            error = LateError()
            if await self.power_state(context) != PowerState.RUNNING:  # a running guest is left unchanged
                await restore(error)
            raise error
        await context.run_steps(
            [
                Step(STOP_GUEST, partial(self.driver.stop, spec.uuid, request.timeout), undo=restore),
                Step(RESIZE_GUEST, partial(self.driver.resize, spec, context.generation)),
                *(start_steps(self.host, spec.uuid) if request.start else []),
            ]
        )
        return PowerState.RUNNING if request.start else await self.power_state(context)

    async def _restore(self, context: CommandContext, request: ResizeRequest, error: Exception) -> None:
        """Restore the guest; raises NotRestoredError when that fails.

        Nothing is done for a guest that no longer exists.
        """
        before = replace(request.instance, flavor=request.old_flavor)
        for pause in (*PAUSES, None):
            if context.cancelled:
                return
            try:
                await context.work(lambda: self._undo(before, context.generation, start=request.start))
            except InstanceNotFoundError:
                return
            except Exception:
                log.exception("Server %s could not be restored to its previous size.", before.uuid)
                if pause is not None:
                    await asyncio.sleep(pause)
            else:
                return
        reason = error.message if isinstance(error, HostError) else "The host could not resize the server."
        raise NotRestoredError(f"{reason} Its previous size could not be restored.") from error

    def _undo(self, before: InstanceSpec, attempt: int, *, start: bool) -> None:
        self.driver.stop(before.uuid, 0)
        self.driver.revert_resize(before, attempt)
        if start:
            self.driver.start(before.uuid)
            self.driver.wait_for_boot(before.uuid, self.host.boot_timeout)


class ConfirmResize(GuestHandler[ConfirmResizeRequest]):
    """Deletes the data that was kept to revert a resize. The guest keeps running."""

    heavy = True

    async def change(self, context: CommandContext, request: ConfirmResizeRequest) -> PowerState:
        await context.run_steps([Step(FLATTEN_DISK, partial(self.driver.confirm_resize, context.subject.id))])
        return await self.power_state(context)


class RevertResize(GuestHandler[RevertResizeRequest]):
    """Restores the old size and disk of the guest. Later changes on its disk are lost, so the guest is powered off
    without a shutdown.
    """

    heavy = resumes_late = True

    async def change(self, context: CommandContext, request: RevertResizeRequest) -> PowerState:
        spec = request.instance
        await context.run_steps(
            [
                Step(STOP_GUEST, partial(self.driver.stop, spec.uuid, 0)),
                Step(RESTORE_GUEST, partial(self.driver.revert_resize, spec, context.generation)),
                *(start_steps(self.host, spec.uuid) if request.start else []),
            ]
        )
        return PowerState.RUNNING if request.start else await self.power_state(context)
