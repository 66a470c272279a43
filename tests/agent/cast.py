"""The cast of the agent's tests: specs, commands, hosts on the fake driver."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import uuid
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from pathlib import Path

from compute_agent.contract.build import FixedAddress, FlavorRef, ImageRef, InstanceSpec, NetworkRef, PortRef, Segment
from compute_agent.contract.commands import BuildRequest, CommandBody, DestroyRequest, PowerRequest
from compute_agent.contract.messages import SERVER, AgentEvent, Command, Owned, Ownership
from compute_agent.engine.subjects import subject_of
from compute_agent.engine.threads import AfterStep, Threads
from compute_agent.host import Host
from compute_agent.network.fake import FakeNetwork
from compute_agent.network.host_network import HostNetwork
from compute_agent.servers.services import GuestTransfer, HostServices
from compute_agent.virt.driver import BootFiles, ComputeDriver, Guest
from compute_agent.virt.fake.images import FakeImageCache
from compute_agent.virt.migration_link.address import MigrationAddress
from compute_agent.volumes.services import Volumes
from tests.agent.watched_driver import WatchedDriver

MIGRATION_PORTS = (23000, 23999)
PATIENCE = 60.0
"""Seconds a test waits for something that should come at once."""


def make_spec(instance: str | None = None, *, number: int = 1, root_gb: int = 1, min_disk: int = 0) -> InstanceSpec:
    """One small guest with one interface."""
    network = NetworkRef(
        id="5f1d2c3b-0000-4000-8000-000000000001",
        name="demo-net",
        bridge="br-demo",
        cidr="10.20.0.0/24",
        gateway="10.20.0.1",
        segment=Segment(type="vxlan", id=1),
    )
    port = PortRef(
        id=f"7a000000-0000-4000-8000-{number:012d}",
        mac_address=f"fa:16:3e:00:00:{number:02x}",
        tap=f"tap7a{number:09d}",
        network=network,
        fixed_ips=[FixedAddress(address=f"10.20.0.{number + 4}", prefix_length=24, gateway="10.20.0.1")],
    )
    return InstanceSpec(
        uuid=instance or str(uuid.uuid4()),
        name=f"Web {number}",
        hostname=f"web-{number}",
        project_id="0" * 32,
        user_id="1" * 32,
        image=ImageRef(
            id="9c000000-0000-4000-8000-000000000009",
            name="novella",
            disk_format="qcow2",
            size=29_000_000,
            hash_algo="sha512",
            hash_value="00" * 64,
            min_disk=min_disk,
        ),
        flavor=FlavorRef(name="m1.nano", vcpus=1, memory_mb=96, root_gb=root_gb),
        ports=[port],
    )


def make_command(body: CommandBody, instance: str, attempt: int = 1, **seconds: float) -> Command:
    """A command as the portal would send it; ``seconds``: how long it may wait and go on, by the fields' names."""
    ident = str(uuid.uuid4())
    return Command(id=ident, subject_kind=SERVER, subject_id=instance, generation=attempt, body=body, **seconds)  # type: ignore[arg-type]


def build(spec: InstanceSpec, attempt: int = 1, **seconds: float) -> Command:
    return make_command(BuildRequest(instance=spec), spec.uuid, attempt, **seconds)


def destroy(instance: str, attempt: int = 1) -> Command:
    return make_command(DestroyRequest(), instance, attempt)


def power(instance: str, action: str, attempt: int = 1) -> Command:
    return make_command(PowerRequest(action=action, timeout=1), instance, attempt)  # type: ignore[arg-type]


@dataclass
class Stage:
    """One host with its means in the tests' hands, and everything it has said."""

    host: Host
    driver: ComputeDriver
    network: HostNetwork
    images: FakeImageCache
    threads: Threads
    said: list[AgentEvent] = field(default_factory=list)
    news: asyncio.Condition = field(default_factory=asyncio.Condition)

    async def listen(self) -> None:
        while True:
            frame = await self.host.outbox.next_frame()
            async with self.news:
                self.said += frame
                self.news.notify_all()

    async def until(self, ready: Callable[[], object]) -> None:
        """Wait until ``ready`` says something true; it is asked whenever the host says something."""
        async with asyncio.timeout(PATIENCE), self.news:
            await self.news.wait_for(lambda: bool(ready()))

    async def end_of(self, command: Command) -> AgentEvent:
        """Wait for the command's one end."""
        await self.until(lambda: self.ends(command))
        (end,) = self.ends(command)
        return end

    def ends(self, command: Command) -> list[AgentEvent]:
        return [event for event in self.of(command) if event.kind in {"finished", "failed"}]

    def of(self, command: Command) -> list[AgentEvent]:
        return [event for event in self.said if event.command_id == command.id]

    def steps(self, command: Command) -> list[str]:
        return [event.step for event in self.of(command) if event.kind == "step"]

    async def do(self, command: Command) -> AgentEvent:
        """Hand the command over and wait for its end."""
        self.host.accept(command)
        return await self.end_of(command)

    def is_clean(self) -> bool:
        """Say whether nothing of any guest is left."""
        assert isinstance(self.driver, WatchedDriver)
        assert isinstance(self.network, FakeNetwork)
        return not any((*self.driver.kept().values(), self.network.plugged, self.network.filtered))


def make_stage(
    state_dir: Path,
    *,
    driver: ComputeDriver | None = None,
    network: HostNetwork | None = None,
    after_step: AfterStep | None = None,
    workers: int = 3,
    volumes: Volumes | None = None,
    transfer: GuestTransfer | None = None,
) -> Stage:
    """A host that is not started yet; on the same folder it is the next process of the same host."""
    driver = driver or WatchedDriver(state_dir)
    network = network or FakeNetwork()
    images = FakeImageCache()
    threads = Threads(workers)
    if after_step is None and isinstance(driver, WatchedDriver) and driver.fault is not None:
        after_step = driver.fault.strike
    services = HostServices(
        driver,
        network,
        images,
        threads,
        boot_timeout=2.0,
        after_step=after_step,
        volumes=volumes,
        transfer=transfer,
        migrations=MigrationAddress(lambda: "127.0.0.1", None, MIGRATION_PORTS),
    )
    return Stage(Host("host-1", services, state_dir / "agent.sqlite3"), driver, network, images, threads)


def all_of(stage: Stage, awaited: list[str] | None = None) -> Ownership:
    """What the portal says of a host of which it knows everything that the host itself knows."""
    commands = [stored.command for stored in stage.host._store.unfinished()]
    records = {command.subject_id: stage.host._store.subject(subject_of(command)) for command in commands}
    return Ownership(
        subjects=[
            Owned(subject_kind=SERVER, subject_id=uuid, generation=record.generation)
            for uuid, record in records.items()
            if record
        ],
        open=awaited,
    )


@contextlib.asynccontextmanager
async def on_stage(
    stage: Stage, *, grace: float = 2.0, welcomed: bool = True, awaited: list[str] | None = None
) -> AsyncIterator[Stage]:
    """Start the host and listen to it; at the end stop it in an orderly way.  ``welcomed``: the portal
    has said that everything here is this host's, and that it waits for the commands ``awaited``.
    """
    listener = asyncio.ensure_future(stage.listen())
    try:
        await stage.host.start()
        if welcomed:
            stage.host.resume_owned(all_of(stage, awaited))
        yield stage
    finally:
        await stage.host.stop(grace)
        listener.cancel()
        stage.threads.close()


async def stopped(stage: Stage, gate: Gate) -> None:
    """Stop the host while the gate holds a step: the step ends after its command was cancelled."""
    stop = asyncio.ensure_future(stage.host.stop(PATIENCE))
    async with asyncio.timeout(PATIENCE):
        while not stage.host._runner._stopping:  # it ends other tasks first
            await asyncio.sleep(0)
    gate.open.set()
    await stop


class Gate:
    """Holds a build right after the work of one step, until it is opened."""

    def __init__(self, step: str) -> None:
        self.step = step
        self.reached = threading.Event()
        self.open = threading.Event()

    def __call__(self, step: str, cancelled: threading.Event) -> None:
        if step == self.step:
            self.reached.set()
            assert self.open.wait(PATIENCE)

    async def until_reached(self) -> None:
        assert await asyncio.to_thread(self.reached.wait, PATIENCE)


class FlakyDriver(WatchedDriver):
    """A hypervisor that goes away: the first ``failures`` calls of ``method`` raise ``error``."""

    def __init__(self, state_dir: Path, method: str, error: Exception, failures: int = 1_000_000) -> None:
        super().__init__(state_dir)
        self._method = method
        self._error = error
        self.failures = failures
        self.calls = 0
        self.called = threading.Event()

    def _maybe_fail(self, method: str) -> None:
        if method == self._method:
            self.calls += 1
            self.called.set()
            if self.calls <= self.failures:
                raise self._error

    def guests(self) -> list[Guest]:
        self._maybe_fail("guests")
        return super().guests()

    def start(self, uuid: str) -> None:
        self._maybe_fail("start")
        super().start(uuid)

    def destroy(self, uuid: str) -> None:
        self._maybe_fail("destroy")
        super().destroy(uuid)

    def create_disk(self, spec: InstanceSpec, base: Path | None, *, keep_ephemeral: bool = False) -> None:
        self._maybe_fail("create_disk")
        super().create_disk(spec, base, keep_ephemeral=keep_ephemeral)

    def rescue(self, spec: InstanceSpec, attempt: int, base: Path | None, files: BootFiles) -> None:
        self._maybe_fail("rescue")
        super().rescue(spec, attempt, base, files)
