"""Copies a guest's disk and sends the copy to the portal as an image."""

import contextlib
import logging
from dataclasses import replace
from functools import partial
from pathlib import Path

from compute_agent.contract.commands import VARIABLES, SnapshotRequest
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import COPY_DISK, STOP_GUEST, UPLOAD_IMAGE
from compute_agent.contract.uefi_variables import pack
from compute_agent.engine.context import CommandContext, Step
from compute_agent.engine.outcomes import Outcome
from compute_agent.servers.base import GuestHandler
from compute_agent.servers.services import ImageOutlet
from compute_agent.virt.errors import HostError, UnsupportedError

log = logging.getLogger(__name__)


class Snapshot(GuestHandler[SnapshotRequest]):
    """Stops the guest if requested, copies its disk, sends the copy, and removes it.

    If the copy or the upload fails, a guest that was stopped for it is started again.
    """

    heavy = True

    async def run(self, context: CommandContext, request: SnapshotRequest) -> Outcome:
        outcome = await super().run(context, request)
        packed = await context.work(lambda: self._variables(context.subject.id))
        return replace(outcome, detail={VARIABLES: packed}) if packed else outcome

    def _variables(self, uuid: str) -> str:
        with contextlib.suppress(HostError, OSError):  # the image is complete even without variables
            variables = self.driver.uefi_variables(uuid)
            return pack(variables) if variables is not None else ""
        return ""

    async def change(self, context: CommandContext, request: SnapshotRequest) -> PowerState:
        outlet, uuid = self.host.outgoing, context.subject.id
        if outlet is None:
            raise UnsupportedError("This host sends no images.")
        steps = []
        if request.stop:
            ran = await self.power_state(context) == PowerState.RUNNING

            async def start_again(error: Exception) -> None:
                if ran:
                    await context.work(lambda: self._start_again(uuid))

            steps.append(Step(STOP_GUEST, partial(self.driver.stop, uuid, request.timeout), undo=start_again))
        held = contextlib.ExitStack()
        copy = await context.work(lambda: held.enter_context(outlet.file(context.command.id)))
        try:
            await context.take([*steps, *self._copy_steps(context, request, outlet, copy)])
        finally:
            await context.work(held.close)
        return await self.power_state(context)

    def _copy_steps(
        self, context: CommandContext, request: SnapshotRequest, outlet: ImageOutlet, copy: Path
    ) -> list[Step]:
        uuid = context.subject.id
        facts: dict[str, str] = {}

        def copy_disk() -> None:
            self.driver.snapshot(uuid, copy, request.disk_format, context.stopped)
            facts["bytes"] = str(copy.stat().st_size)

        return [
            Step(COPY_DISK, copy_disk, facts=facts),
            Step(UPLOAD_IMAGE, lambda: outlet.send(copy, uuid, request.image_id, context.stopped)),
        ]

    def _start_again(self, uuid: str) -> None:
        with contextlib.suppress(HostError):
            self.driver.start(uuid)
            log.info("Server %s was started again: it had been stopped to create an image, which failed.", uuid)
