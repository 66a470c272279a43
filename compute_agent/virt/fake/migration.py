"""Live migration between simulated hosts: the guest's state moves, and no memory."""

import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import msgspec

from compute_agent.contract.build import InstanceSpec
from compute_agent.contract.firmware_state import FirmwareState
from compute_agent.contract.guest_hardware import guest_hardware
from compute_agent.contract.power import PowerState
from compute_agent.virt.errors import StoppedError, UnsupportedError
from compute_agent.virt.fake.firmware import FakeFirmware
from compute_agent.virt.fake.state import FakeGuest
from compute_agent.virt.live_migration import Arrival, Departure, MigrationOptions, Whereabouts
from compute_agent.virt.migration_link.errors import MigrationFailedError
from compute_agent.virt.processes import progress
from compute_agent.virt.processes.progress import Amount

MIB = 1 << 20
ROUNDS = 4
"""Number of progress reports of a move."""


class Offered(msgspec.Struct):
    """A simulated guest during its migration."""

    guest: FakeGuest
    seed: bool
    disk: bool
    firmware: FirmwareState | None = None


class FakeMigrations(FakeFirmware):
    """The part of the fake driver for live migration."""

    def __init__(self) -> None:
        super().__init__()
        self.migration_pause = 0.0
        """Seconds between the progress reports of a move: a live migration, or the copy of a stopped guest's disks."""
        self.receives = True
        """Whether the host can receive guests."""
        self.hold_migrations = threading.Event()
        """While it is clear, migrations do not end by themselves."""
        self.hold_migrations.set()
        self._departures: dict[str, FakeDeparture] = {}

    def departure(self, uuid: str, options: MigrationOptions) -> Departure:
        with self._changed:
            guest = self._guest(uuid)
            if guest.power not in {PowerState.RUNNING, PowerState.PAUSED}:
                raise UnsupportedError("The guest does not run.")
        departure = self._departures[uuid] = FakeDeparture(self, guest)
        return departure

    def arrival(self, spec: InstanceSpec, attempt: int) -> Arrival:
        if not self.receives:
            raise UnsupportedError("This host's libvirt cannot receive running guests.")
        return FakeArrival(self, spec, attempt)

    def whereabouts(self, uuid: str) -> Whereabouts:
        with self._changed:
            guest = self._state.guests.get(uuid)
            if guest is None or guest.power == PowerState.SHUTDOWN:
                return Whereabouts.LEFT
            return Whereabouts.UNDECIDED if guest.leaving else Whereabouts.HERE

    def keep(self, uuid: str) -> None:
        with self._changed:
            guest = self._guest(uuid)
            if guest.leaving:
                guest.leaving, guest.power = False, guest.was or PowerState.RUNNING
                self._write(uuid)

    def control_migration(self, uuid: str, action: str) -> None:
        departure = self._departures.get(uuid)
        if departure is None or not departure.performing:
            raise UnsupportedError("The guest is not being migrated.")
        departure.control(action)

    def change_guest(self, uuid: str, *, leaving: bool, power: PowerState) -> None:
        """Set the state of a guest that departs."""
        with self._changed:
            guest = self._state.guests.get(uuid)
            if guest is None:
                return
            guest.was = 0 if not leaving else guest.power
            guest.leaving, guest.power = leaving, power
            self._write(uuid)
            self._changed.notify_all()

    def copy_slowly(self, size_gb: int) -> None:
        """Report the progress of the copy of a stopped guest's disks, of which nothing is copied."""
        total = max(1, size_gb) << 30
        for number in range(1, ROUNDS + 1):
            time.sleep(self.migration_pause)
            progress.moved(total * number // ROUNDS, total)

    def offered(self, uuid: str) -> Offered:
        """Return the guest as it is sent to another host."""
        with self._changed:
            state = self._state
            return Offered(self._guest(uuid), uuid in state.seeds, uuid in state.disks, state.firmware.get(uuid))

    def run_received(self, spec: InstanceSpec, attempt: int, offered: Offered) -> None:
        """Run a received guest."""
        guest = offered.guest
        with self._changed:
            guest.attempt, guest.leaving = attempt, False
            guest.volumes = list(spec.volumes)
            self._state.guests[spec.uuid] = guest
            if offered.seed:
                self._state.seeds.add(spec.uuid)
            if offered.firmware is not None:
                self._state.firmware[spec.uuid] = offered.firmware
            self._write(spec.uuid)
            self._changed.notify_all()

    def holds(self, uuid: str, attempt: int) -> bool:
        """Return whether a received guest runs."""
        with self._changed:
            guest = self._state.guests.get(uuid)
            return guest is not None and guest.attempt == attempt and guest.power != PowerState.SHUTDOWN


class FakeDeparture(Departure):
    """The sending side of a simulated guest."""

    def __init__(self, driver: FakeMigrations, guest: FakeGuest) -> None:
        self._driver, self._uuid, self._power = driver, guest.uuid, PowerState(guest.power)
        self._total = max(1, guest.memory_mb) * MIB
        self._done = 0
        self._action = ""
        self._control = threading.Event()
        self._notify: Callable[[], None] = lambda: None
        self.performing = False

    @property
    def sockets(self) -> Mapping[str, Path]:
        return {}

    def sockets_ready(self, end_memory: Callable[[], bool]) -> None:
        """Do nothing: simulated guests have no streams."""

    def when_paused(self, notify: Callable[[], None]) -> None:
        self._notify = notify

    def offer(self) -> bytes:
        return msgspec.msgpack.encode(self._driver.offered(self._uuid))

    def begin(self, shape: bytes) -> bytes:
        return b""

    def perform(self, prepared: bytes) -> bytes:
        self.performing = True
        try:
            for number in range(ROUNDS):
                self._done = self._total * number // ROUNDS
                self._control.wait(self._driver.migration_pause)
                self._check()
            while not (self._driver.hold_migrations.wait(0.02) or self._action == "complete"):
                self._check()
        finally:
            self.performing = False
        self._driver.change_guest(self._uuid, leaving=True, power=PowerState.PAUSED)
        self._notify()
        return b""

    def _check(self) -> None:
        if self._action == "abort":
            raise StoppedError("The migration was aborted.")

    def control(self, action: str) -> None:
        """Abort or complete the transfer."""
        self._action = action
        self._control.set()

    def amount(self) -> Amount:
        return Amount(self._done, self._total)

    def leave(self, finished: bytes) -> None:
        self._driver.change_guest(self._uuid, leaving=False, power=PowerState.SHUTDOWN)

    def stay(self) -> None:
        self._driver.change_guest(self._uuid, leaving=False, power=self._power)


class FakeArrival(Arrival):
    """The receiving side of a simulated guest."""

    def __init__(self, driver: FakeMigrations, spec: InstanceSpec, attempt: int) -> None:
        self._driver, self._spec, self._attempt = driver, spec, attempt
        self._offered: Offered | None = None

    @property
    def sockets(self) -> Mapping[str, Path]:
        return {}

    def needs_image(self) -> bool:
        return self._driver.needs_image(self._spec)

    def create_disks(self, base: Path | None) -> None:
        self._driver.create_disk(self._spec, base)

    def shape(self, offer: bytes) -> bytes:
        try:
            self._offered = msgspec.msgpack.decode(offer, type=Offered)
        except msgspec.DecodeError as error:
            raise UnsupportedError("The other host has not sent a valid guest.", detail=str(error)) from error
        firmware = self._offered.firmware or FirmwareState()
        has_tpm = bool(guest_hardware(self._spec).tpm_version)
        if self._offered.guest.uuid != self._spec.uuid or bool(firmware.tpm_key) != has_tpm:
            raise UnsupportedError("The other host has not sent a valid guest.")
        return b""

    def prepare(self, begun: bytes) -> bytes:
        return b""

    def finish(self, performed: bytes) -> bytes:
        if self._offered is None:
            raise MigrationFailedError("The guest was not offered.")
        power = self._offered.guest.power
        self._offered.guest.power = power or PowerState.RUNNING
        self._driver.run_received(self._spec, self._attempt, self._offered)
        return b""

    def arrived(self) -> bool:
        return self._driver.holds(self._spec.uuid, self._attempt)

    def cancel(self) -> None:
        """Do nothing: the guest exists only after ``finish``."""
