"""Trims the disks of a guest."""

from compute_agent.contract.commands import TrimRequest
from compute_agent.contract.power import PowerState
from compute_agent.engine.context import CommandContext
from compute_agent.servers.base import GuestHandler


class Trim(GuestHandler[TrimRequest]):
    """Lets the guest agent discard unused disk blocks, whose space returns to this host."""

    async def change(self, context: CommandContext, request: TrimRequest) -> PowerState:
        await context.work(lambda: self.driver.trim(context.subject.id, request.timeout))
        return await self.power_state(context)
