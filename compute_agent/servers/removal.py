"""Removes the resources of one attempt of a server, with retries."""

from compute_agent.contract.commands import DestroyRequest
from compute_agent.contract.power import PowerState
from compute_agent.engine.context import CommandContext
from compute_agent.engine.outcomes import SUPERSEDED, Failure, Outcome
from compute_agent.engine.retry import insist
from compute_agent.engine.threads import in_thread
from compute_agent.servers.base import ServerHandler
from compute_agent.servers.services import HostServices
from compute_agent.virt.driver import Guest

DESTROY_FAILED = Failure("destroy_failed", "The host could not remove the instance yet.", retryable=True)


async def find_guest(host: HostServices, uuid: str) -> Guest | None:
    """Return the guest of a server; None if the hypervisor has none. Raises HypervisorUnavailableError."""
    guests = await in_thread(host.threads.work, host.driver.guests)
    return next((guest for guest in guests if guest.uuid == uuid), None)


class Removal:
    """Removes a guest with its disks and seed, then its network, and records resources that could not be removed.

    A guest of a newer attempt is left unchanged, with all its resources. The methods are used to undo steps: they
    accept the step's error as an argument, and ignore it.
    """

    def __init__(
        self, host: HostServices, uuid: str, attempt: int, *, may_run: bool = False, keep_root: bool = False
    ) -> None:
        """``may_run``: the guest may have been started. The removal then waits without a limit for a hypervisor that
        does not answer. ``keep_root``: a root disk in a pool is kept, because the server is on another host.
        """
        self.uuid = uuid
        self.guest_left = False
        self.network_left = False
        self.newer_kept = False
        """Whether a guest of a newer attempt is on this host."""
        self._host = host
        self._attempt = attempt
        self._may_run = may_run
        self.remove = host.driver.leave if keep_root else host.driver.destroy
        """Removes the guest; call it in a thread."""

    @property
    def complete(self) -> bool:
        """Whether no data of the attempt is left."""
        return not (self.guest_left or self.network_left)

    @property
    def gone(self) -> bool:
        """Whether no data of the server is left."""
        return self.complete and not self.newer_kept

    async def all(self) -> None:
        """Remove the guest, then its network."""
        await self.guest()
        await self.network()

    async def expect_running(self, error: Exception | None = None) -> None:
        """Record that the guest may have been started."""
        self._may_run = True

    async def guest(self, error: Exception | None = None) -> None:
        """Remove the guest with its disks and seed. If the hypervisor cannot be queried, ``network`` keeps the network
        as well.
        """
        guests: list[Guest | None] = []

        async def look() -> None:
            guests.append(await find_guest(self._host, self.uuid))

        if not await insist(look, f"look for server {self.uuid}", patient=self._may_run):
            self.guest_left = self.network_left = True
            return
        if guests[0] is not None and guests[0].attempt > self._attempt:
            self.newer_kept = True
            return
        self.guest_left = not await insist(
            lambda: in_thread(self._host.threads.work, lambda: self.remove(self.uuid)),
            f"remove server {self.uuid}",
            patient=self._may_run,
        )

    async def network(self, error: Exception | None = None) -> None:
        """Remove the network of a server whose guest is removed, or was never created."""
        if self.newer_kept or self.network_left:
            return
        self.network_left = not await insist(
            lambda: in_thread(self._host.threads.work, lambda: self._host.network.unplug(self.uuid)),
            f"unplug server {self.uuid}",
            patient=False,
        )


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
