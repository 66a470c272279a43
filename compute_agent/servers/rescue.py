"""Boots a guest temporarily from another disk."""

import logging
from functools import partial

from msgspec.structs import replace

from compute_agent.contract.commands import RescueRequest, UnrescueRequest
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import CREATE_DISK, DEFINE_DOMAIN, STOP_GUEST
from compute_agent.engine.context import CommandContext, Step
from compute_agent.servers.base import GuestHandler
from compute_agent.servers.boot_sources import BootSources
from compute_agent.servers.guest_steps import start_steps
from compute_agent.virt.errors import HostError

log = logging.getLogger(__name__)


class Rescue(GuestHandler[RescueRequest]):
    """Starts the guest from the rescue image. After a failure the guest has its own disk again, and runs if it ran
    before.
    """

    heavy = True

    async def change(self, context: CommandContext, request: RescueRequest) -> PowerState:
        spec, image, driver = request.instance, request.instance.rescue, self.driver
        if image is None:
            raise HostError("The command to rescue the server names no image.")
        await self.power_state(context)  # raises an error if the guest does not exist here
        sources = BootSources(self.host.images, spec.uuid, image.image, image.kernel, image.ramdisk, context.stopped)

        async def go_back(error: Exception) -> None:
            await context.work(lambda: self._undo(request, context.generation))

        await context.run_steps(
            [
                sources.step(),
                Step(STOP_GUEST, partial(driver.stop, spec.uuid, request.timeout), undo=go_back),
                Step(CREATE_DISK, lambda: driver.rescue(spec, context.generation, sources.disk, sources.boot)),
                *start_steps(self.host, spec.uuid),
            ]
        )
        return PowerState.RUNNING

    def _undo(self, request: RescueRequest, attempt: int) -> None:
        """Undo a failed rescue as far as possible."""
        uuid = request.instance.uuid
        try:
            self.driver.unrescue(replace(request.instance, rescue=None), attempt)
            if request.ran:
                self.driver.start(uuid)
        except HostError as error:
            log.warning("Server %s could not leave a failed rescue: %s %s", uuid, error.message, error.detail)


class Unrescue(GuestHandler[UnrescueRequest]):
    """Starts the guest from its own disk."""

    heavy = True

    async def change(self, context: CommandContext, request: UnrescueRequest) -> PowerState:
        spec = request.instance
        await context.run_steps(
            [
                Step(STOP_GUEST, partial(self.driver.stop, spec.uuid, request.timeout)),
                Step(DEFINE_DOMAIN, partial(self.driver.unrescue, spec, context.generation)),
                *start_steps(self.host, spec.uuid),
            ]
        )
        return PowerState.RUNNING
