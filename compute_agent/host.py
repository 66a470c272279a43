"""One host: its services, its store and its commands, from its start to its stop."""

import asyncio
import contextlib
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from compute_agent.contract.calls import CallBody, CallResult
from compute_agent.contract.certificates import Certificate, CertificateRequest
from compute_agent.contract.messages import (
    MOST_REPAIRS,
    SERVER,
    Command,
    GuestState,
    Leftover,
    Owned,
    Ownership,
    Repair,
    ResourceAudit,
)
from compute_agent.contract.power import PowerState
from compute_agent.contract.samples import Samples
from compute_agent.contract.volume import KnownVolume
from compute_agent.engine.outbox import Outbox
from compute_agent.engine.runner import CommandRunner
from compute_agent.engine.store import StateStore
from compute_agent.engine.subjects import Subject, owned
from compute_agent.engine.threads import in_thread
from compute_agent.network.host_network import Leased
from compute_agent.network.kinds import BODIES, document_kinds
from compute_agent.servers import audit
from compute_agent.servers.audit import guest_states, resource_audit, with_interfaces
from compute_agent.servers.calls import CallHandler
from compute_agent.servers.guest_directory import GuestDirectory
from compute_agent.servers.kind import Servers
from compute_agent.servers.services import HostServices
from compute_agent.servers.usage import Sampler
from compute_agent.virt.driver import Guest
from compute_agent.virt.errors import HostError, HypervisorUnavailableError, RetryableHostError
from compute_agent.virt.processes.programs import ProgramError
from compute_agent.volumes.kind import volume_kinds
from compute_agent.volumes.memory import VolumeMemory

T = TypeVar("T")

log = logging.getLogger(__name__)

CHECK_EVERY = 5.0
"""Seconds between two checks of the network and the guests' power."""
PRUNE_EVERY = 3600.0
IMAGE_AGE = 7 * 24 * 3600.0
"""Seconds for which an unused image stays in the cache."""
DOCUMENTS_EVERY = 60.0
"""Minimum seconds between two audits that list documents, volumes and interfaces. Every command causes an audit, but
most audits omit these lists.
"""
START_PAUSE = 0.5
START_PAUSE_MAX = 10.0


class Host:
    """The host as the link uses it. Methods run on the event loop, and blocking work runs in threads."""

    def __init__(self, name: str, services: HostServices, store_path: Path | None, *, durable: bool = True) -> None:
        """Open the store at ``store_path`` (None: in memory only). The hypervisor is not used before ``start``."""
        self.name = name
        self.audit_wanted = asyncio.Event()
        self._services = services
        self._store = StateStore(store_path, durable=durable)
        self.outbox = Outbox(self._store)
        self._volume_memory = VolumeMemory(self._store)
        self._runner = CommandRunner(
            self._store,
            self.outbox,
            services.threads,
            on_end=self._ended,
            after_step=services.after_step,
        )
        self.servers = Servers(services, self._store, self.outbox, self._runner.busy)
        self._runner.register(self.servers)
        for kind in document_kinds(services.network, services.threads):
            self._runner.register(kind)
        if services.volumes is not None:
            exports = services.driver.open_exports
            for each in volume_kinds(services.volumes, self._volume_memory, exports):
                self._runner.register(each)
        self._calls = CallHandler(services)
        self._sampler = Sampler(services.driver)
        self._forgetting: asyncio.Task[None] | None = None
        self._checking: asyncio.Task[None] | None = None
        self._repairs: deque[Repair] = deque(maxlen=MOST_REPAIRS)
        self._certificate_trouble: list[str] = []
        self._documents_listed = -DOCUMENTS_EVERY
        self._network_warnings: list[str] = []

    # ----- start and stop -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Prepare the host. Waits for the hypervisor without a limit.

        1. connect to the hypervisor; 2. prepare the network; 3. restore the guests' network. Guests, and unfinished
           work of an earlier process, are left unchanged until the portal has sent the subjects that this host owns
           (``resume_owned``).
        """
        loop, services = asyncio.get_running_loop(), self._services
        services.driver.on_power_change(
            lambda uuid, state: _post(loop, lambda: self.servers.powers.power_changed(uuid, state))
        )
        await self._until_it_works("reach the hypervisor", services.driver.init_host)
        await self._until_it_works("prepare the network", services.network.init_host)
        if services.metadata is not None:
            directory = GuestDirectory(loop, services.network, self._store, self.outbox, services.vendor_data)
            services.metadata.start(directory)
        specs = self.servers.load(await self._until_it_works("list the guests", services.driver.guests))
        await self._until_it_works("restore the network", lambda: services.network.restore(specs))
        if services.volumes is not None:
            await in_thread(services.threads.work, services.volumes.sweep)
            await self._check_volumes()
        self._services.images.sweep()
        if self._services.outgoing is not None:
            self._services.outgoing.sweep()
        self._checking = loop.create_task(self._check_forever(), name=f"checks of {self.name}")

    async def stop(self, grace: float = 3.0) -> None:
        """Finish running steps within ``grace`` seconds, and disconnect from the hypervisor; guests keep running."""
        for task in (self._checking, self._forgetting):
            if task is not None:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        if self._services.metadata is not None:
            self._services.metadata.close()
        if self._services.consoles is not None:
            await self._services.consoles.close()
        await self._runner.stop(grace)
        self._store.close()
        self._services.driver.close()

    async def _until_it_works(self, what: str, work: Callable[[], T]) -> T:
        pause = START_PAUSE
        while True:
            try:
                return await in_thread(self._services.threads.work, work)
            except RetryableHostError as error:
                log.warning("%s: could not %s, trying again: %s %s", self.name, what, error.message, error.detail)
            await asyncio.sleep(pause)
            pause = min(2 * pause, START_PAUSE_MAX)

    def _ended(self, kind: str) -> None:
        """Request an audit after a command. Commands about networks, routers, floating IPs and groups change no
        measured value, so they request an audit only if they changed the warnings.
        """
        if kind not in BODIES or self._services.network.warnings() != self._network_warnings:
            self.audit_wanted.set()

    # ----- interface for the link -------------------------------------------------------------------------------------

    def resume_owned(self, ownership: Ownership) -> None:
        """Resume work of an earlier process for subjects that this host owns.

        Only the first call resumes work: in a running process, changes of ownership arrive as commands. Every call
        marks waiting commands as late if the portal no longer waits for their end.
        """
        if self._runner.open:
            self._runner.withdraw(ownership.open)
        else:
            held = owned(ownership)
            self._runner.resume(held, ownership.open)
            self._forget_documents(held)

    def _forget_documents(self, held: Mapping[Subject, int]) -> None:
        """Delete documents of subjects that this host no longer owns."""
        network = self._services.network
        outdated = [each for each in network.documents() if Subject(each.subject_kind, each.subject_id) not in held]
        if not outdated:
            return

        async def forget() -> None:
            try:
                await in_thread(self._services.threads.network, lambda: network.forget_outdated(outdated))
            except RetryableHostError as error:
                log.warning("%s: not all of the old network was removed: %s %s", self.name, error, error.detail)

        self._forgetting = asyncio.get_running_loop().create_task(forget(), name=f"outdated documents of {self.name}")

    def accept(self, command: Command) -> None:
        """Accept a command. When this returns, the command is stored and may be acknowledged."""
        self._runner.accept(command)

    def answer(self, body: CallBody) -> Awaitable[CallResult]:
        """Answer a call. The answer is a ``CallError`` if the call fails."""
        return self._calls.answer(body)

    async def guests(self) -> list[GuestState]:
        """Return the guests of this host with their interfaces.  Raises HypervisorUnavailableError."""
        states = guest_states(await in_thread(self._services.threads.calls, self._services.driver.guests))
        return await self._with_interfaces(states)

    async def _with_interfaces(self, states: list[GuestState]) -> list[GuestState]:
        specs = self.servers.records.specs()
        macs = await in_thread(self._services.threads.calls, self._services.driver.interfaces)
        return with_interfaces(states, macs, specs)

    async def documents(self) -> list[Owned]:
        """Return the documents of networks, routers, floating IPs and security groups that this host has received."""
        return await in_thread(self._services.threads.calls, self._services.network.documents)

    def known_volumes(self) -> list[KnownVolume]:
        """Return the states of volumes that this host knows from their commands."""
        return self._volume_memory.listed()

    async def audit(self, host_ip: str) -> ResourceAudit:
        """Measure the host, and find leftovers.  Raises HypervisorUnavailableError."""
        services, described, busy = self._services, self.servers.records.described(), self._runner.at_work()

        def measure() -> ResourceAudit:
            cached = services.images.cached()
            pools = services.volumes.states() if services.volumes is not None else None
            report = resource_audit(services.driver, host=self.name, host_ip=host_ip, cached_images=cached)
            return replace(
                report,
                leftovers=audit.find_leftovers(services, described),
                certificates=self._certificates(),
                pools=pools,
                tracking=services.network.tracking(),
            )

        report = await in_thread(services.threads.calls, measure)
        busy |= self._runner.at_work()
        remaining = audit.without_busy(report.leftovers, {subject.id for subject in busy})
        if remaining is not None:
            remaining = [replace(each, generation=self._seen(each)) for each in remaining]
        self._network_warnings = services.network.warnings()
        warnings = self._network_warnings + self._certificate_trouble
        warnings += services.volumes.warnings() if services.volumes is not None else []
        report = replace(report, leftovers=remaining, warnings=warnings, repairs=list(self._repairs))
        if time.monotonic() - self._documents_listed < DOCUMENTS_EVERY:
            return replace(report, traits=None)
        self._documents_listed = time.monotonic()
        guests = await self._with_interfaces(report.guests)
        return replace(report, guests=guests, documents=await self.documents(), volumes=self.known_volumes())

    async def samples(self) -> Samples:
        """Return the usage of the host and its guests since the previous call. Raises HypervisorUnavailableError."""
        return await in_thread(self._services.threads.calls, self._sampler.samples)

    def _seen(self, leftover: Leftover) -> int | None:
        """Return the newest generation of the leftover's subject; None if the subject is unknown."""
        record = self._store.subject(Subject(leftover.subject_kind, leftover.subject_id))
        return max(record.generation, record.removed) if record is not None else None

    def _certificates(self) -> str | None:
        if self._services.certificates is None:
            return None
        try:
            return self._services.certificates.digest()
        except (OSError, ValueError) as error:
            self._certificate_trouble = [f"Its certificates for volumes of other hosts cannot be read: {error}."]
            return ""

    async def request_certificate(self) -> CertificateRequest | None:
        """Return certificate requests; None if the host needs none, or cannot create them."""
        certificates = self._services.certificates
        if certificates is None:
            return None
        try:
            return await in_thread(self._services.threads.calls, certificates.request)
        except (OSError, ProgramError) as error:
            self._certificate_trouble = [f"It cannot request certificates for volumes of other hosts: {error}."]
            log.warning("%s: %s", self.name, self._certificate_trouble[0])
            return None

    async def store_certificate(self, certificate: Certificate) -> None:
        """Store the signed certificates, and report them with the next audit."""
        certificates = self._services.certificates
        if certificates is None:
            return
        try:
            await in_thread(self._services.threads.calls, lambda: certificates.store(certificate))
            self._certificate_trouble = []
            log.info("%s: has new certificates.", self.name)
            self.audit_wanted.set()
        except OSError as error:
            self._certificate_trouble = [f"It cannot keep its certificates for volumes of other hosts: {error}."]
            log.warning("%s: %s", self.name, self._certificate_trouble[0])

    async def idle(self) -> None:
        """Wait until no command is running."""
        await self._runner.idle()

    # ----- regular checks -------------------------------------------------------------------------------------------

    async def _check_forever(self) -> None:
        pruned = time.monotonic()
        while True:
            await asyncio.sleep(CHECK_EVERY)
            try:
                await self.check()
                if time.monotonic() - pruned > PRUNE_EVERY:
                    await self.prune()
                    pruned = time.monotonic()
            except Exception:
                log.exception("%s: a regular check failed.", self.name)

    async def prune(self) -> None:
        """Delete commands that ended long ago, and images from the cache that are not in use or requested."""
        self._store.prune()
        images = self._services.images
        for image in await in_thread(self._services.threads.calls, lambda: images.prune(IMAGE_AGE)):
            log.info("%s: removed image %s from the cache.", self.name, image)
        if self._services.volumes is not None:
            await in_thread(self._services.threads.calls, self._services.volumes.prune)

    async def check(self) -> None:
        """Compare the guests' power states with the reported ones, repair the network, and remove leftovers of
        commands.
        """
        await self._check_volumes()
        services, powers = self._services, self.servers.powers
        try:
            mark = powers.mark()
            guests = await in_thread(services.threads.calls, services.driver.guests)
            powers.compare(guests, mark)
            await self._resume_after_errors(guests)
        except HypervisorUnavailableError as error:
            log.warning("%s: the hypervisor does not answer, connecting again: %s", self.name, error.detail)
            with contextlib.suppress(HypervisorUnavailableError):
                await in_thread(services.threads.calls, services.driver.init_host)
        try:
            for repaired in await in_thread(services.threads.calls, services.network.check):
                log.warning("%s: repaired the network: %s", self.name, repaired)
                self._repairs.append(Repair(int(time.time()), f"network: {repaired}"))
                self.audit_wanted.set()
        except RetryableHostError as error:
            log.warning("%s: the network could not be repaired: %s %s", self.name, error.message, error.detail)
        for leased in await in_thread(services.threads.calls, services.network.leases):
            self._report_lease(leased)
        self._runner.sweep()

    async def _resume_after_errors(self, guests: Iterable[Guest]) -> None:
        """Resume guests that were paused because a volume was unreachable, once it is reachable."""
        for guest in guests:
            if guest.power_state != PowerState.PAUSED or self._runner.busy(Subject(SERVER, guest.uuid)):
                continue
            go_on = partial(self._services.driver.resume_after_error, guest.uuid)
            try:
                goes_on = await in_thread(self._services.threads.calls, go_on)
            except HostError as error:
                log.warning(
                    "%s: server %s cannot be resumed: %s %s", self.name, guest.uuid, error.message, error.detail
                )
                continue
            if goes_on:
                log.warning("%s: server %s was resumed: its volume is back.", self.name, guest.uuid)
                self._repairs.append(Repair(int(time.time()), f"server {guest.uuid}: resumed, its volume is back"))
                self.audit_wanted.set()

    async def _check_volumes(self) -> None:
        """Restart storage daemons that have died."""
        volumes = self._services.volumes
        if volumes is None:
            return
        for line in await in_thread(self._services.threads.calls, volumes.check):
            log.warning("%s: repaired: %s", self.name, line)
            self._repairs.append(Repair(int(time.time()), f"volumes: {line}"))
            self.audit_wanted.set()

    def _report_lease(self, leased: Leased) -> None:
        """Report a lease event of a guest."""
        record = self._store.subject(Subject(SERVER, leased.uuid))
        detail = {"port_id": leased.port_id, "address": leased.address, "held": "true" if leased.held else "false"}
        if record is not None:
            self.outbox.lease(Subject(SERVER, leased.uuid), record.generation, detail)


def _post(loop: asyncio.AbstractEventLoop, action: Callable[[], None]) -> None:
    """Run ``action`` on the event loop. An event during the agent's stop is ignored: the next ``Hello`` reports the
    state.
    """
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(action)
