"""Removes a server from its host."""

from compute_agent.contract.commands import DestroyRequest
from compute_agent.contract.power import PowerState
from compute_agent.engine.context import CommandContext
from compute_agent.engine.outcomes import SUPERSEDED, Failure, Outcome
from compute_agent.servers.base import ServerHandler
from compute_agent.servers.removal import Removal

DESTROY_FAILED = Failure("destroy_failed", "The host could not remove the instance yet.", retryable=True)


class Destroy(ServerHandler[DestroyRequest]):
    """Removes the guest and everything that belongs to it. Waits for a hypervisor that does not answer, without a
    limit.
    """

    removes = True

    async def run(self, context: CommandContext, request: DestroyRequest) -> Outcome:
        removal = Removal(self.host, context.subject.id, context.generation, may_run=True, keep_root=request.keep_root)
        await removal.all()
        if removal.newer_kept:
            return Outcome(SUPERSEDED)
        if not removal.complete:
            return Outcome(DESTROY_FAILED, leftover=True)
        self.powers.forget(context.subject.id)
        return Outcome(power_state=PowerState.NOSTATE, gone=True)
