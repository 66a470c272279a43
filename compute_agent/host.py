"""One host: its means, its memory and its manager, from start to stop."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol, TypeVar, runtime_checkable

from msgspec.structs import replace

from compute_agent.contract.messages import CallBody, CallResult, Command, GuestState, Ownership, ResourceAudit
from compute_agent.engine.outbox import Outbox
from compute_agent.engine.store import StateStore
from compute_agent.engine.threads import in_thread
from compute_agent.servers import leftovers
from compute_agent.servers.audit import guest_states, resource_audit
from compute_agent.servers.calls import CallHandler
from compute_agent.servers.runner import CommandRunner
from compute_agent.servers.services import HostServices
from compute_agent.virt.errors import HypervisorUnavailableError, RetryableHostError

T = TypeVar("T")

log = logging.getLogger(__name__)

CHECK_EVERY = 10.0
"""Seconds between two looks at the network and at the guests' power."""
PRUNE_EVERY = 3600.0
IMAGE_AGE = 7 * 24 * 3600.0
"""Seconds an image stays in the cache after it was last asked for."""
START_PAUSE = 0.5
START_PAUSE_MAX = 10.0


@runtime_checkable
class CheckedNetwork(Protocol):
    """A network that can look after itself, for example start a DHCP server again that died."""

    def check(self) -> list[str]:
        """Mend what is broken and return a line for each thing mended.  Raises RetryableHostError."""


class Host:
    """What the link talks to; everything here runs on the event loop, and whatever blocks runs in a thread."""

    def __init__(self, name: str, parts: HostServices, store_path: Path | None, *, durable: bool = True) -> None:
        """Open the memory at ``store_path`` (None: none); the hypervisor is not touched before ``start``."""
        self.name = name
        self.audit_wanted = asyncio.Event()
        self._parts = parts
        self._store = StateStore(store_path, durable=durable)
        self.outbox = Outbox(self._store)
        self._runner = CommandRunner(self._store, self.outbox, parts, self.audit_wanted.set)
        self._desk = CallHandler(parts)
        self._checking: asyncio.Task[None] | None = None

    # ----- start and stop -------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Make the host ready, however long the hypervisor takes.

        1. connect to the hypervisor; 2. prepare the network; 3. bring the network to what the guests need.  Guests, and
        what an earlier process began, are left alone until the portal has said what is this host's (``heard``).
        """
        loop = asyncio.get_running_loop()
        self._parts.driver.on_power_change(
            lambda uuid, state: _post(loop, lambda: self._runner.book.power_changed(uuid, state))
        )
        await self._until_it_works("reach the hypervisor", self._parts.driver.init_host)
        await self._until_it_works("prepare the network", self._parts.network.init_host)
        guests = await self._until_it_works("list the guests", self._parts.driver.guests)
        for guest in guests:
            self._store.adopt(guest.uuid, guest.attempt)
        self._runner.book.load(guests)
        here = {guest.uuid for guest in guests}
        coming = {uuid: spec for uuid, spec in self._store.coming().items() if uuid in here}
        specs = self._store.specs(here) | coming
        for guest in guests:
            if guest.uuid not in specs:
                log.warning(
                    "Instance %s is here, but its description is lost; its network is not restored.", guest.uuid
                )
        await self._until_it_works("restore the network", lambda: self._parts.network.restore(list(specs.values())))
        if self._parts.outgoing is not None:
            self._parts.outgoing.sweep()
        self._checking = loop.create_task(self._check_forever(), name=f"checks of {self.name}")

    async def stop(self, grace: float = 3.0) -> None:
        """Finish the steps that run, at most ``grace`` seconds, and let go of the hypervisor; guests go on."""
        if self._checking is not None:
            self._checking.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._checking
        if self._parts.consoles is not None:
            await self._parts.consoles.close()
        await self._runner.stop(grace)
        self._store.close()
        self._parts.driver.close()

    async def _until_it_works(self, what: str, work: Callable[[], T]) -> T:
        pause = START_PAUSE
        while True:
            try:
                return await in_thread(self._parts.threads.work, work)
            except RetryableHostError as error:
                log.warning("%s: could not %s, trying again: %s %s", self.name, what, error.message, error.detail)
            await asyncio.sleep(pause)
            pause = min(2 * pause, START_PAUSE_MAX)

    # ----- the link's questions and orders --------------------------------------------------------------------------

    def heard(self, ownership: Ownership | None) -> None:
        """Go on with what an earlier process began, as far as it is this host's; only the first word counts, since what
        a running process does is told to it by commands.

        ``ownership`` None: the portal is an older one and does not say; everything is taken up.
        """
        if self._runner.open:
            return
        owned = None if ownership is None else {each.instance_id: each.attempt for each in ownership.instances}
        self._runner.resume(owned)

    def accept(self, command: Command) -> None:
        """Take a command; when this returns it is stored and may be acknowledged."""
        self._runner.accept(command)

    def answer(self, body: CallBody) -> Awaitable[CallResult]:
        """Answer a call; the answer is a ``CallError`` when there is none."""
        return self._desk.answer(body)

    async def guests(self) -> list[GuestState]:
        """List the guests of this host.  Raises HypervisorUnavailableError."""
        return guest_states(await in_thread(self._parts.threads.calls, self._parts.driver.guests))

    async def audit(self, host_ip: str) -> ResourceAudit:
        """Measure the host, and look for what is left over.  Raises HypervisorUnavailableError."""
        parts, described, busy = self._parts, self._store.described(), self._runner.at_work()

        def measure() -> ResourceAudit:
            report = resource_audit(parts.driver, host=self.name, host_ip=host_ip, cached_images=parts.images.cached())
            return replace(report, belongings=leftovers.look(parts, described))

        report = await in_thread(parts.threads.calls, measure)
        busy |= self._runner.at_work()
        return replace(report, belongings=leftovers.but(report.belongings, busy))

    async def idle(self) -> None:
        """Wait until no command is being carried out."""
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
        """Forget commands that ended long ago, and remove images that no guest is made of and nobody asks for."""
        self._store.prune()
        keep, images = self._store.images(), self._parts.images
        for image in await in_thread(self._parts.threads.calls, lambda: images.prune(keep, IMAGE_AGE)):
            log.info("%s: removed image %s from the cache.", self.name, image)

    async def check(self) -> None:
        """Compare the guests' power with what was told, mend the network, and remove what failed commands have left."""
        parts = self._parts
        try:
            mark = self._runner.book.look()
            self._runner.book.compare(await in_thread(parts.threads.calls, parts.driver.guests), mark)
        except HypervisorUnavailableError as error:
            log.warning("%s: the hypervisor does not answer, connecting again: %s", self.name, error.detail)
            with contextlib.suppress(HypervisorUnavailableError):
                await in_thread(parts.threads.calls, parts.driver.init_host)
        if isinstance(parts.network, CheckedNetwork):
            network = parts.network
            try:
                for mended in await in_thread(parts.threads.calls, network.check):
                    log.warning("%s: mended the network: %s", self.name, mended)
            except RetryableHostError as error:
                log.warning("%s: the network could not be mended: %s %s", self.name, error.message, error.detail)
        self._runner.sweep()


def _post(loop: asyncio.AbstractEventLoop, action: Callable[[], None]) -> None:
    """Do ``action`` on the loop; events that come while the agent stops are told by the next ``Hello``."""
    with contextlib.suppress(RuntimeError):
        loop.call_soon_threadsafe(action)
