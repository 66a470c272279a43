"""Creates the disks of a guest again."""

from compute_agent.contract.commands import RebuildRequest
from compute_agent.contract.power import PowerState
from compute_agent.engine.context import CommandContext
from compute_agent.servers.base import GuestHandler
from compute_agent.servers.guest_steps import make_steps, start_steps


class Rebuild(GuestHandler[RebuildRequest]):
    """Creates the guest's disks and seed again, with the steps of a build.

    The guest is unchanged until the images are downloaded. After a later failure only another rebuild can repair it.
    """

    heavy = True
    replaces_image = True

    async def change(self, context: CommandContext, request: RebuildRequest) -> PowerState:
        spec = request.instance
        steps = make_steps(
            self.host, spec, context.generation, context.stopped, keep_ephemeral=request.preserve_ephemeral
        )
        if request.start:
            steps += start_steps(self.host, spec.uuid)
        await context.run_steps(steps)
        return PowerState.RUNNING if request.start else await self.power_state(context)
