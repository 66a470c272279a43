"""The fake driver: a simulated hypervisor whose state is in memory and in a journal, so that a cloud runs without QEMU.

Like real guests, its guests continue while the agent restarts. It can simulate a failure at a chosen step of every
build (``FaultPoint``).
"""

import threading
import time
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path

import msgspec

from compute_agent.contract.build import InstanceSpec, PortRef, boot_volume
from compute_agent.contract.calls import Diagnostics, FileSystem
from compute_agent.contract.cpu import Cpu
from compute_agent.contract.hardware import every_trait
from compute_agent.contract.messages import Leftover
from compute_agent.contract.migration import RECEIVER_TRAIT
from compute_agent.contract.moves import GuestOrigin
from compute_agent.contract.power import PowerState
from compute_agent.virt.driver import (
    BootFiles,
    ConsoleChunk,
    Fetch,
    Guest,
    HostCapacity,
    PowerListener,
    SentGuest,
    Stopped,
    never,
)
from compute_agent.virt.errors import (
    ImageUnacceptableError,
    RetryableHostError,
    StoppedError,
    UnsupportedError,
)
from compute_agent.virt.fake import state
from compute_agent.virt.fake.console import FakeConsoles
from compute_agent.virt.fake.faults import FaultPoint
from compute_agent.virt.fake.guest_disks import mounted
from compute_agent.virt.fake.migration import FakeMigrations
from compute_agent.virt.fake.state import (
    GUEST_CPU,
    Entry,
    FakeGuest,
    State,
    capacity_of,
    console_log,
    counters_of,
    disk_of,
    local_mb,
    read_state,
)
from compute_agent.virt.fake.volumes import ON

_COMPACT_AFTER = 5_000
"""Lines after which the journal is rewritten."""


class FakeDriver(FakeMigrations):
    """A hypervisor as state in memory; each change is appended to the journal."""

    def __init__(
        self,
        state_dir: Path | None = None,
        fail_at: str | None = None,
        kind: str = "retryable",
        *,
        vcpus: int = 32,
        memory_mb: int = 65_536,
        disk_gb: int = 1_000,
    ) -> None:
        """The journal is in ``state_dir`` (None: only in memory); ``fail_at`` is the step at which builds fail.

        Raises ValueError for an unknown step or kind of failure.
        """
        super().__init__()
        self.fault = FaultPoint(fail_at, kind) if fail_at is not None else None
        self._journal = None if state_dir is None else state_dir / "fake-hypervisor.jsonl"
        self._total = (vcpus, memory_mb, disk_gb)
        self._changed = threading.Condition()
        self._consoles = FakeConsoles(state_dir)
        self._state = State()
        self._listener: PowerListener | None = None
        self._encoder = msgspec.json.Encoder()
        self._ready = False
        self._lines = 0
        self._since = time.monotonic()
        self.traits: tuple[str, ...] = every_trait()
        """The traits of the host: the features that it offers to guests."""
        self.guest_cpu = GUEST_CPU
        """The processor that guests have from their next start."""

    # ----- the host -------------------------------------------------------------------------------------------------

    def init_host(self) -> None:
        with self._changed:
            if not self._ready:
                self._state = self._read_journal()
                self._compact_journal()
                self._ready = True

    def close(self) -> None:
        with self._changed:
            self._ready = False
        self._consoles.end()

    def capacity(self) -> HostCapacity:
        with self._changed:
            measured = capacity_of(list(self._state.guests.values()), self._total, time.monotonic() - self._since)
        receives = (RECEIVER_TRAIT,) if self.receives else ()
        return replace(measured, traits=(*self.traits, *receives), guest_cpu=self.guest_cpu)

    def guests(self) -> list[Guest]:
        with self._changed:
            return [Guest(guest.uuid, guest.attempt, PowerState(guest.power)) for guest in self._state.guests.values()]

    def leftovers(self) -> list[Leftover]:
        with self._changed:
            state, here = self._state, set(self._state.guests)
            result = [Leftover(kind="disk", name=uuid, subject_id=uuid) for uuid in sorted(state.disks - here)]
            result += [Leftover(kind="seed", name=uuid, subject_id=uuid) for uuid in sorted(state.seeds - here)]
        return result

    def has_disk(self, uuid: str) -> bool:
        with self._changed:
            return uuid in self._state.disks

    # ----- building -------------------------------------------------------------------------------------------------

    def create_disk(self, spec: InstanceSpec, base: Path | None, *, keep_ephemeral: bool = False) -> None:
        if 0 < spec.flavor.root_gb < spec.image.min_disk:
            raise ImageUnacceptableError("The image needs a larger disk than the flavor has.")
        with self._changed:
            others = sum(guest.disk_gb for guest in self._state.guests.values() if guest.uuid != spec.uuid)
            if others + disk_of(spec) > self._total[2]:
                raise RetryableHostError("The host has no space for the instance's disk.")
            if boot_volume(spec) is None or local_mb(spec):
                self._state.disks.add(spec.uuid)
            self._write(spec.uuid)

    def create_boot_files(self, spec: InstanceSpec, files: BootFiles) -> None:
        """Do nothing, as no guest boots."""

    def create_seed(self, spec: InstanceSpec) -> None:
        with self._changed:
            self._state.seeds.add(spec.uuid)
            self._write(spec.uuid)

    def define(self, spec: InstanceSpec, attempt: int) -> None:
        port = spec.ports[0] if spec.ports else None
        fixed = port.fixed_ips[0] if port and port.fixed_ips else None
        with self._changed:
            self._state.guests[spec.uuid] = FakeGuest(
                uuid=spec.uuid,
                attempt=attempt,
                hostname=spec.hostname,
                vcpus=spec.flavor.vcpus,
                memory_mb=spec.flavor.memory_mb,
                disk_gb=disk_of(spec),
                mac=port.mac_address if port else "",
                address=f"{fixed.address}/{fixed.prefix_length}" if fixed else "no address",
                interfaces=[interface.mac_address for interface in spec.ports],
                volumes=list(spec.volumes),
                root=boot_volume(spec) is None,
                cpu_features=spec.cpu_features,
            )
            self._have_firmware(spec)
            self._write(spec.uuid)

    def start(self, uuid: str) -> None:
        with self._changed:
            guest = self._guest(uuid)
            if guest.power != PowerState.RUNNING:
                self._power(guest, PowerState.RUNNING)
        self._notify(uuid, PowerState.RUNNING)

    def wait_for_boot(self, uuid: str, timeout: float) -> PowerState:
        with self._changed:
            if not self._changed.wait_for(lambda: self._guest(uuid).power == PowerState.RUNNING, timeout):
                raise RetryableHostError("The instance did not start in time.")
        return PowerState.RUNNING

    def disks_to_send(self, uuid: str) -> SentGuest:
        with self._changed:
            guest = self._guest(uuid)
            if guest.power != PowerState.SHUTDOWN:
                raise UnsupportedError("The guest runs.")
        return SentGuest()

    def receive_disks(self, spec: InstanceSpec, base: Path | None, origin: GuestOrigin, fetch: Fetch) -> None:
        self.create_disk(spec, base)
        self.copy_slowly(disk_of(spec))

    # ----- power ----------------------------------------------------------------------------------------------------

    def stop(self, uuid: str, timeout: float) -> None:
        with self._changed:
            guest = self._guest(uuid)
            if guest.power == PowerState.SHUTDOWN:
                return
            self._power(guest, PowerState.SHUTDOWN)
        self._notify(uuid, PowerState.SHUTDOWN)

    def reboot(self, uuid: str, *, hard: bool, timeout: float) -> None:
        with self._changed:
            guest = self._guest(uuid)
            was = guest.power
            self._power(guest, PowerState.SHUTDOWN)
            self._power(guest, PowerState.RUNNING)
        if was != PowerState.RUNNING:
            self._notify(uuid, PowerState.RUNNING)

    def pause(self, uuid: str) -> None:
        self._switch(uuid, PowerState.PAUSED, {PowerState.RUNNING, PowerState.PAUSED})

    def unpause(self, uuid: str) -> None:
        self._switch(uuid, PowerState.RUNNING, {PowerState.RUNNING, PowerState.PAUSED})

    def suspend(self, uuid: str) -> None:
        self.stop(uuid, 0)

    def resume(self, uuid: str) -> None:
        self.start(uuid)

    def crash_dump(self, uuid: str) -> None:
        self._switch(uuid, PowerState.RUNNING, {PowerState.RUNNING})

    def set_password(self, uuid: str, user: str, password: str) -> None:
        self._ask_agent(uuid)

    def trim(self, uuid: str, timeout: float) -> None:
        self._ask_agent(uuid)

    def file_systems(self, uuid: str, timeout: float) -> list[FileSystem]:
        self._ask_agent(uuid)
        with self._changed:
            guest = self._guest(uuid)
        size = guest.disk_gb << 30
        root = FileSystem(mount_point="/", kind="ext4", total_bytes=size, used_bytes=size // 4, disks=["vda"])
        return [*([root] if guest.root else []), *mounted(guest)]

    def _ask_agent(self, uuid: str) -> None:
        """Raise UnsupportedError if the guest does not run, because its guest agent does not answer."""
        with self._changed:
            if self._guest(uuid).power != PowerState.RUNNING:
                raise UnsupportedError("The guest's agent does not answer.")

    def diagnostics(self, uuid: str) -> Diagnostics:
        with self._changed:
            guest = self._guest(uuid)
        return counters_of(guest, config_drive=guest.uuid in self._state.seeds)

    def rescue(self, spec: InstanceSpec, attempt: int, base: Path | None, files: BootFiles) -> None:
        self._redefine(spec, attempt, rescued=True)

    def unrescue(self, spec: InstanceSpec, attempt: int) -> None:
        self._redefine(spec, attempt, rescued=False)

    def _redefine(self, spec: InstanceSpec, attempt: int, *, rescued: bool) -> None:
        with self._changed:
            guest = self._guest(spec.uuid)
            guest.attempt, guest.rescued, guest.volumes = attempt, rescued, list(spec.volumes)
            self._power(guest, PowerState.SHUTDOWN)

    def resize(self, spec: InstanceSpec, attempt: int) -> None:
        with self._changed:
            guest = self._stopped(spec.uuid)
            before = guest.before or (guest.vcpus, guest.memory_mb, guest.disk_gb)
            if disk_of(spec) < before[2]:
                raise ImageUnacceptableError("The disk cannot shrink.")
            others = sum(other.disk_gb for other in self._state.guests.values() if other.uuid != spec.uuid)
            if others + disk_of(spec) > self._total[2]:
                raise RetryableHostError("The host has no space for the instance's disk.")
            guest.before = before
            self._size(guest, spec, attempt)

    def confirm_resize(self, uuid: str) -> None:
        with self._changed:
            self._guest(uuid).before = None
            self._write(uuid)

    def revert_resize(self, spec: InstanceSpec, attempt: int) -> None:
        with self._changed:
            guest = self._stopped(spec.uuid)
            guest.before = None
            self._size(guest, spec, attempt)

    def _size(self, guest: FakeGuest, spec: InstanceSpec, attempt: int) -> None:
        guest.attempt, guest.vcpus, guest.memory_mb = attempt, spec.flavor.vcpus, spec.flavor.memory_mb
        guest.disk_gb, guest.volumes = disk_of(spec), list(spec.volumes)
        self._write(guest.uuid)

    def _stopped(self, uuid: str) -> FakeGuest:
        """Return a stopped guest. Raises UnsupportedError for a running one."""
        guest = self._guest(uuid)
        if guest.power == PowerState.RUNNING:
            raise UnsupportedError("The guest runs.")
        return guest

    def snapshot(self, uuid: str, target: Path, disk_format: str, stopped: Stopped = never) -> None:
        with self._changed:
            size = max(1, self._guest(uuid).disk_gb) << 30
        if stopped():
            raise StoppedError("The copy of the disk was stopped.")
        state.write_image(target, disk_format, size)

    def frozen(self, uuid: str) -> AbstractContextManager[None]:
        return nullcontext()

    def attach_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        with self._changed:
            guest = self._guest(spec.uuid)
            if port.mac_address not in guest.interfaces:
                guest.interfaces = [*guest.interfaces, port.mac_address]
                self._write(spec.uuid)

    def detach_interface(self, spec: InstanceSpec, port: PortRef) -> None:
        with self._changed:
            guest = self._state.guests.get(spec.uuid)
            if guest is None or port.mac_address not in guest.interfaces:
                return
            if guest.power == PowerState.PAUSED:
                raise UnsupportedError("A paused guest cannot release an interface.")
            guest.interfaces = [interface for interface in guest.interfaces if interface != port.mac_address]
            self._write(spec.uuid)

    def interfaces(self) -> dict[str, list[str]]:
        with self._changed:
            return {guest.uuid: list(guest.interfaces) for guest in self._state.guests.values()}

    def cpus(self) -> dict[str, Cpu]:
        with self._changed:
            guests = self._state.guests.values()
            return {guest.uuid: guest.cpu for guest in guests if guest.cpu is not None and guest.power in ON}

    def console_socket(self, uuid: str, protocol: str) -> Path:
        with self._changed:
            guest = self._guest(uuid)
            if guest.power not in {PowerState.RUNNING, PowerState.PAUSED} or protocol not in {"vnc", "serial"}:
                raise UnsupportedError("The guest has no such console now.")
            return self._consoles.path(uuid, protocol, guest.hostname)

    def _switch(self, uuid: str, power: PowerState, among: set[PowerState]) -> None:
        """Change the power state of a guest whose state is in ``among``."""
        with self._changed:
            guest = self._guest(uuid)
            if guest.power not in among:
                raise UnsupportedError("The guest does not run.")
            if guest.power == power:
                return
            guest.power = power
            self._write(uuid)
            self._changed.notify_all()
        self._notify(uuid, power)

    def destroy(self, uuid: str) -> None:
        with self._changed:
            state = self._state
            if any(uuid in kept for kept in (state.disks, state.seeds, state.guests, state.firmware)):
                self._consoles.end(uuid)
                state.apply(Entry(uuid))
                self._write(uuid)
                self._changed.notify_all()

    def power_state(self, uuid: str) -> PowerState:
        with self._changed:
            return PowerState(self._guest(uuid).power)

    def on_power_change(self, listener: PowerListener) -> None:
        self._listener = listener

    def console_output(self, uuid: str, offset: int | None, max_bytes: int) -> ConsoleChunk:
        with self._changed:
            log = console_log(self._guest(uuid), time.time())
        start = max(0, len(log) - max_bytes) if offset is None else min(offset, len(log))
        data = log[start : start + max_bytes]
        return ConsoleChunk(data, start, start + len(data))

    def _power(self, guest: FakeGuest, state: PowerState) -> None:
        now = time.time()
        guest.boots = [(began, ended or now) for began, ended in guest.boots]
        if state == PowerState.RUNNING:
            guest.boots.append((now, 0.0))
            allowed, offered = guest.cpu_features, self.guest_cpu
            features = [name for name in offered.features if allowed is None or name in allowed]
            guest.cpu = Cpu(offered.model, offered.vendor, features)
        else:
            self._consoles.end(guest.uuid)
        guest.power, guest.stalled = state, False
        self._write(guest.uuid)
        self._changed.notify_all()

    def _notify(self, uuid: str, state: PowerState) -> None:
        if self._listener is not None:
            self._listener(uuid, state)

    # ----- the journal ----------------------------------------------------------------------------------------------

    def _write(self, uuid: str) -> None:
        if self._journal is not None:
            with self._journal.open("ab") as journal:
                journal.write(self._encoder.encode(self._state.entry(uuid)) + b"\n")
            self._lines += 1
            if self._lines >= _COMPACT_AFTER:
                self._compact_journal()

    def _read_journal(self) -> State:
        state = self._state
        if self._journal is None or not self._journal.exists():
            return state
        return read_state(self._journal.read_bytes())

    def _compact_journal(self) -> None:
        if self._journal is None:
            return
        uuids = self._state.disks | self._state.seeds | set(self._state.guests)
        fresh = self._journal.with_suffix(".new")
        fresh.write_bytes(b"".join(self._encoder.encode(self._state.entry(uuid)) + b"\n" for uuid in uuids))
        fresh.replace(self._journal)
        self._lines = 0
