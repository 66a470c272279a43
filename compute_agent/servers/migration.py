"""Live migration: receiving a running guest, and sending one."""

import logging
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from functools import partial

from compute_agent.contract.build import boot_volume
from compute_agent.contract.migration import ADDRESS, PORT, KeepLiveRequest, ReceiveLiveRequest, SendLiveRequest
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import (
    APPLY_FIREWALL,
    CREATE_DISK,
    LISTEN,
    MIGRATE_GUEST,
    PLUG_NETWORK,
    RECEIVE_GUEST,
)
from compute_agent.engine.context import CommandContext, Step
from compute_agent.engine.outcomes import Failure, Outcome, SupersededError
from compute_agent.engine.retry import insist
from compute_agent.engine.threads import in_thread
from compute_agent.network.host_network import HostNetwork
from compute_agent.servers.base import ServerHandler
from compute_agent.servers.boot_sources import BootSources
from compute_agent.servers.records import described
from compute_agent.servers.removal import Removal, find_guest
from compute_agent.virt.driver import Guest
from compute_agent.virt.errors import HostError, UnsupportedError
from compute_agent.virt.live_migration import Arrival, MigrationOptions, Whereabouts
from compute_agent.virt.migration_link.address import MigrationAddress
from compute_agent.virt.migration_link.errors import DiskLostError, MigrationFailedError, MigrationUndecidedError
from compute_agent.virt.migration_link.receiving import Reception
from compute_agent.virt.migration_link.sending import Limits, Sending

log = logging.getLogger(__name__)

RECEIVE_FAILED = "The host could not receive the instance."
SEND_FAILED = "The host could not migrate the instance."
INTERRUPTED = MigrationFailedError("The migration was interrupted.")


class Receive(ServerHandler[ReceiveLiveRequest]):
    """Prepares disks and network of the guest, and receives it. After a failure, removes all of them."""

    heavy = makes = True

    async def run(self, context: CommandContext, request: ReceiveLiveRequest) -> Outcome:
        """1. look for a guest that an earlier process has received; 2. prepare network, disks and filters; 3. listen;
        4. receive.
        """
        spec = request.instance
        try:
            arrival = await context.work(lambda: self.driver.arrival(spec, context.generation))
            if await self._is_here(context, arrival):
                return await self._arrived(context, arrival)
            context.describe(described(spec))
            with self._reception(context, request, arrival) as reception:
                await context.run_steps(self._steps(context, request, arrival, reception), always_undo=True)
        except Exception as error:  # noqa: BLE001 (every failure has the same end: undo and report)
            return await self._removed(context, context.explain(error, RECEIVE_FAILED))
        return await self._arrived(context, arrival)

    async def _is_here(self, context: CommandContext, arrival: Arrival) -> bool:
        """Return whether an earlier process has received the guest. Raises an error for anything incomplete."""
        earlier = await find_guest(self.host, context.subject.id)
        if earlier is not None and earlier.attempt > context.generation:
            raise SupersededError
        if earlier is not None and await context.work(arrival.arrived):
            return True
        if context.begun or earlier is not None or context.leftover:
            raise INTERRUPTED
        return False

    async def _arrived(self, context: CommandContext, arrival: Arrival) -> Outcome:
        """Report that the guest runs here, when its disks belong to this host. A late command acquires them as well.
        A guest that has lost a disk is removed.
        """
        lost: list[DiskLostError] = []

        async def settle() -> None:
            try:
                await in_thread(self.host.threads.work, arrival.settle)
            except DiskLostError as error:
                lost.append(error)

        while not await insist(settle, f"acquire the disks of server {context.subject.id}", patient=True):
            if context.cancelled:
                return Outcome(context.cancellation.failure)
        if lost:
            return await self._removed(context, context.explain(lost[0], RECEIVE_FAILED))
        power = await self.power_state(context)
        await _switch(self.network, context, here=True)
        self.powers.reported(Guest(context.subject.id, context.generation, power))
        return Outcome(power_state=power)

    @contextmanager
    def _reception(self, context: CommandContext, request: ReceiveLiveRequest, arrival: Arrival) -> Iterator[Reception]:
        """Return the reception of the guest. It stops listening at the end of the command, or when the agent stops."""
        if self.host.migrations is None:
            raise UnsupportedError("This host cannot receive guests.")
        uuid, network = request.instance.uuid, self.host.network
        switch, adopt = partial(network.switch, uuid, here=True), partial(network.adopt, uuid)
        with closing(Reception(self.host.migrations, arrival, request.source, switch, adopt)) as reception:
            yield reception

    def _steps(
        self, context: CommandContext, request: ReceiveLiveRequest, arrival: Arrival, reception: Reception
    ) -> list[Step]:
        host, spec = self.host, request.instance
        image = spec.image if boot_volume(spec) is None else None
        sources = BootSources(
            host.images, spec.uuid, image, spec.kernel, spec.ramdisk, context.stopped,
            arrival.needs_image,
        )  # fmt: skip
        result: dict[str, str] = {}

        def create_disk() -> None:
            arrival.create_disks(sources.disk)
            host.driver.create_boot_files(spec, sources.boot)

        def listen() -> None:
            address, port = reception.listen()
            result.update({ADDRESS: address, PORT: str(port)})

        return [
            Step(PLUG_NETWORK, partial(host.network.plug, spec, away=True)),
            *([sources.step()] if sources.any_needed else []),
            Step(CREATE_DISK, create_disk),
            Step(APPLY_FIREWALL, partial(host.network.apply_firewall, spec)),
            Step(LISTEN, listen, facts=result),
            Step(RECEIVE_GUEST, partial(reception.receive, context.stopped)),
        ]

    async def _removed(self, context: CommandContext, failure: Failure) -> Outcome:
        """Remove the guest with its disks and network, except a root disk in a pool, and report the failure."""
        removal = Removal(self.host, context.subject.id, context.generation, may_run=True, keep_root=True)
        await removal.all()
        if removal.gone:
            self.powers.forget(removal.uuid)
        return Outcome(failure, gone=removal.gone, leftover=not removal.complete)

    async def refuse(self, context: CommandContext, request: ReceiveLiveRequest, failure: Failure) -> Outcome:
        """Answer a command that is not executed: the remains of an earlier process are removed, unless the guest runs
        here.
        """
        if not context.begun:
            return Outcome(failure)
        arrival = await context.work(lambda: self.driver.arrival(request.instance, context.generation))
        if await context.work(arrival.arrived):
            return await self._arrived(context, arrival)
        return await self._removed(context, failure)


class Send(ServerHandler[SendLiveRequest]):
    """Sends the guest to another host. After a failure it continues here."""

    heavy = resumes_late = True

    async def run(self, context: CommandContext, request: SendLiveRequest) -> Outcome:
        uuid = context.subject.id
        if context.begun:
            return await self._interrupted(context)
        if self.host.migrations is None:
            raise UnsupportedError("This host cannot migrate guests.")
        send = partial(self._send, self.host.migrations, uuid, request, context.stopped)
        try:
            await context.run_steps([Step(MIGRATE_GUEST, send)])
        except MigrationUndecidedError as error:
            return Outcome(context.explain(error, SEND_FAILED))
        except Exception as error:  # noqa: BLE001 (every failure has the same end: report where the guest is)
            failure = context.explain(error, SEND_FAILED)
            await _switch(self.network, context, here=True)
            return Outcome(failure, power_state=await self._power_here(context))
        self.powers.forget(uuid)
        return Outcome(power_state=PowerState.NOSTATE)

    def _send(self, own: MigrationAddress, uuid: str, request: SendLiveRequest, stopped: Callable[[], bool]) -> None:
        options = MigrationOptions(bandwidth_mb=request.bandwidth_mb, post_copy=request.post_copy)
        departure = self.driver.departure(uuid, options)
        switch = partial(self.network.switch, uuid, here=False)
        flows = partial(self.network.flows, uuid)
        sending = Sending(own, departure, request.address, request.tcp_port, request.tls_hostname, switch, flows)
        limits = Limits(request.time_limit, request.at_limit)
        sending.send(stopped, limits, partial(self.driver.control_migration, uuid))

    async def _interrupted(self, context: CommandContext) -> Outcome:
        """Report where the guest is after the agent has been restarted during the migration."""
        where = await context.work(lambda: self.driver.whereabouts(context.subject.id))
        if where is Whereabouts.LEFT:
            await _switch(self.network, context, here=False)
            self.powers.forget(context.subject.id)
            return Outcome(power_state=PowerState.NOSTATE)
        if where is Whereabouts.UNDECIDED:
            return Outcome(context.explain(MigrationUndecidedError(INTERRUPTED.message), SEND_FAILED))
        failure = context.explain(INTERRUPTED, SEND_FAILED)
        await _switch(self.network, context, here=True)
        return Outcome(failure, power_state=await self._power_here(context))

    async def _power_here(self, context: CommandContext) -> PowerState | None:
        """Return the guest's power state; None if the hypervisor does not report it."""
        try:
            power = await self.power_state(context)
        except Exception:  # noqa: BLE001 (the failure of the migration is reported in any case)
            return None
        known = await find_guest(self.host, context.subject.id)
        if known is not None:
            self.powers.reported(replace(known, power_state=power))
        return power


class Keep(ServerHandler[KeepLiveRequest]):
    """Resumes the guest of an undecided migration."""

    async def run(self, context: CommandContext, request: KeepLiveRequest) -> Outcome:
        uuid = context.subject.id
        await context.work(lambda: self.driver.keep(uuid))
        await _switch(self.network, context, here=True)
        power = await self.power_state(context)
        known = await find_guest(self.host, uuid)
        if known is not None:
            self.powers.reported(replace(known, power_state=power))
        return Outcome(power_state=power)


async def _switch(network: HostNetwork, context: CommandContext, *, here: bool) -> None:
    """Send the guest's traffic to this host or to the other one. After a failure, the host's network retries."""
    try:
        await context.work(partial(network.switch, context.subject.id, here=here))
    except HostError as error:
        log.warning("The network of server %s is not complete: %s %s", context.subject.id, error.message, error.detail)
