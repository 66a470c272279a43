"""Sends copies of a guest to the portal: its disk as an image, and its firmware state."""

import contextlib
import logging
from dataclasses import replace
from functools import partial

from compute_agent.contract.commands import VARIABLES, SnapshotRequest
from compute_agent.contract.firmware_state import to_property
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import COPY_DISK, STOP_GUEST, UPLOAD_FIRMWARE, UPLOAD_IMAGE
from compute_agent.engine.context import CommandContext, Step
from compute_agent.engine.outcomes import Outcome
from compute_agent.servers.base import GuestHandler
from compute_agent.servers.firmware import upload
from compute_agent.virt.errors import HostError, UnsupportedError

log = logging.getLogger(__name__)


class Snapshot(GuestHandler[SnapshotRequest]):
    """Stops the guest if requested, copies its disk, sends the copy, and removes it. Then it sends the firmware state,
    if requested.

    If a step fails, a guest that was stopped by the command is started again.
    """

    heavy = True

    async def run(self, context: CommandContext, request: SnapshotRequest) -> Outcome:
        outcome = await super().run(context, request)
        if request.firmware_state or not request.image_id:
            return outcome
        packed = await context.work(lambda: self._variables(context.subject.id))
        return replace(outcome, detail={VARIABLES: packed}) if packed else outcome

    def _variables(self, uuid: str) -> str:
        with contextlib.suppress(HostError, OSError):  # the image is complete even without variables
            return to_property(self.driver.uefi_variables(uuid))
        return ""

    async def change(self, context: CommandContext, request: SnapshotRequest) -> PowerState:
        uuid = context.subject.id
        steps = []
        if request.stop:
            ran = await self.power_state(context) == PowerState.RUNNING

            async def start_again(error: Exception) -> None:
                if ran:
                    await context.work(lambda: self._start_again(uuid))

            steps.append(Step(STOP_GUEST, partial(self.driver.stop, uuid, request.timeout), undo=start_again))
        held = contextlib.ExitStack()
        if request.image_id:
            steps += await context.work(lambda: self._copy_steps(context, request, held))
        if request.firmware_state:
            steps.append(Step(UPLOAD_FIRMWARE, lambda: upload(self.host, uuid, context.stopped)))
        try:
            await context.run_steps(steps)
        finally:
            await context.work(held.close)
        return await self.power_state(context)

    def _copy_steps(self, context: CommandContext, request: SnapshotRequest, held: contextlib.ExitStack) -> list[Step]:
        """Return the steps for the image; ``held`` removes the copy."""
        outlet, uuid = self.host.outgoing, context.subject.id
        if outlet is None:
            raise UnsupportedError("This host cannot send images.")
        copy = held.enter_context(outlet.file(context.command.id))
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
            log.info("Server %s was started again: it had been stopped for a copy, which failed.", uuid)
