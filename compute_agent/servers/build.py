"""The build of a guest, in steps that can be undone."""

import abc
from dataclasses import replace
from typing import TypeVar

from compute_agent.contract.commands import BuildRequest, RebuildRequest, ReceiveGuestRequest
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import CREATE_DISK, PLUG_NETWORK, START_GUEST
from compute_agent.engine.context import CommandContext, Step
from compute_agent.engine.outcomes import LATE, Failure, Outcome, SupersededError
from compute_agent.engine.retry import insist
from compute_agent.servers.base import GuestHandler, ServerHandler
from compute_agent.servers.guest_steps import make_steps, start_steps
from compute_agent.servers.records import described
from compute_agent.servers.removal import Removal, find_guest
from compute_agent.virt.driver import Guest

N = TypeVar("N", BuildRequest, ReceiveGuestRequest)
BUILD_FAILED = "The host could not build the instance."


class Creation(ServerHandler[N]):
    """Creates a guest, and starts it if requested. After a failure, removes everything that belongs to it."""

    heavy = makes = True

    @abc.abstractmethod
    def _steps(self, context: CommandContext, request: N, removal: Removal | None) -> list[Step]:
        """Return the steps of the creation. ``removal`` undoes them; None: the caller removes everything."""

    async def run(self, context: CommandContext, request: N) -> Outcome:
        """Create the guest. If an earlier process began this, first check how much it completed.

        1. check for an earlier guest if there may be one; 2. store the guest's spec; 3. run the steps; 4. report the
           result, or undo the steps and report the failure.
        """
        uuid = context.subject.id
        earlier = context.begun or uuid in self.powers or context.leftover
        removal = self._removal(context, request, may_run=earlier)
        try:
            if not (earlier and await self._runs_already(context, request, removal)):
                context.describe(described(request.instance))
                # An earlier process may have completed more than this one begins: then everything is removed.
                steps = self._steps(context, request, None if earlier else removal)
                await context.run_steps(steps, always_undo=True)
        except Exception as error:  # noqa: BLE001 (every failure has the same end: undo and report)
            failure = context.explain(error, BUILD_FAILED)
            if earlier:
                await removal.all()
            return self._failed(failure, removal)
        power = PowerState.RUNNING if request.start else PowerState.SHUTDOWN
        self.powers.reported(Guest(uuid, context.generation, power))
        return Outcome(power_state=power)

    @abc.abstractmethod
    def _keeps_root(self, request: N) -> bool:
        """Return whether a failure keeps the root disk, because another host had it."""

    def _removal(self, context: CommandContext, request: N, *, may_run: bool) -> Removal:
        """Return the removal of the guest."""
        return Removal(
            self.host, context.subject.id, context.generation, may_run=may_run, keep_root=self._keeps_root(request)
        )

    def _continues(self, request: N) -> bool:
        """Return whether the steps continue with the disks of an incomplete guest of the same attempt."""
        return False

    async def _runs_already(self, context: CommandContext, request: N, removal: Removal) -> bool:
        """Return whether this attempt runs already. Remove an earlier guest, and one with which the steps do not
        continue.
        """
        guest = await find_guest(self.host, context.subject.id)
        if guest is None:
            return False
        if guest.attempt > context.generation:
            raise SupersededError
        if _runs(guest, context.generation):
            return True
        if not (guest.attempt == context.generation and self._continues(request)):
            await context.work(lambda: removal.remove(context.subject.id))
        self.powers.forget(context.subject.id)
        return False

    async def refuse(self, context: CommandContext, request: N, failure: Failure) -> Outcome:
        """Answer a build that is not executed.

        The guest of an earlier process is kept if it runs and the command was only late. Otherwise it is removed, even
        if the record that the command began was lost in a power failure or with the agent's store.
        """
        if not context.begun and failure is not LATE:
            return Outcome(failure)
        uuid = context.subject.id
        guests: list[Guest | None] = []

        async def look() -> None:
            guests.append(await find_guest(self.host, uuid))

        await insist(look, f"look for server {uuid}", patient=True)
        if failure is LATE and guests and _runs(guests[0], context.generation):
            context.describe(described(request.instance))
            return Outcome(power_state=PowerState.RUNNING)
        removal = self._removal(context, request, may_run=True)
        await removal.all()
        return self._failed(failure, removal)

    def _failed(self, failure: Failure, removal: Removal) -> Outcome:
        if removal.guest_left:  # the guest may still start, so no other host may build it
            failure = replace(failure, retryable=False)
        if removal.gone:
            self.powers.forget(removal.uuid)
        return Outcome(failure, gone=removal.gone, leftover=not removal.complete)


class Build(Creation[BuildRequest], ServerHandler[BuildRequest]):
    """Creates a guest from an image or a volume."""

    def _keeps_root(self, request: BuildRequest) -> bool:
        return request.take_root

    def _steps(self, context: CommandContext, request: BuildRequest, removal: Removal | None) -> list[Step]:
        spec = request.instance
        made = make_steps(
            self.host, spec, context.generation, context.stopped,
            firmware=request.firmware_state, take_root=request.take_root,
        )  # fmt: skip
        steps = made + (start_steps(self.host, spec.uuid) if request.start else [])
        return steps if removal is None else undone_by(removal, steps, CREATE_DISK)


def undone_by(removal: Removal, steps: list[Step], creates: str) -> list[Step]:
    """Return the steps, each with its undo; ``creates`` is the first step that creates files of the guest."""
    undo = {PLUG_NETWORK: removal.network, creates: removal.guest, START_GUEST: removal.expect_running}
    return [replace(step, undo=undo.get(step.name)) for step in steps]


def _runs(guest: Guest | None, attempt: int) -> bool:
    return guest is not None and guest.attempt == attempt and guest.power_state == PowerState.RUNNING


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
