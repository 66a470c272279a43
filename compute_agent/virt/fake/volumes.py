"""Volumes of simulated guests: attachments, and storage that becomes unreachable."""

import threading
import time

from compute_agent.contract.build import GuestDisk, InstanceSpec
from compute_agent.contract.hardware import COLD_BUSES
from compute_agent.contract.power import PowerState
from compute_agent.virt.driver import Stopped, never
from compute_agent.virt.errors import (
    InstanceNotFoundError,
    RetryableHostError,
    StoppedError,
    UnsupportedError,
)
from compute_agent.virt.fake.guest_disks import FakeGuestDisks
from compute_agent.virt.fake.state import FakeGuest, State
from compute_agent.virt.processes import progress

ON = frozenset({PowerState.RUNNING, PowerState.PAUSED})
PIECES = 4
"""Progress checks until a copy is complete."""


class FakeVolumes(FakeGuestDisks):
    """The part of the fake driver for volumes."""

    _changed: threading.Condition
    _state: State

    def __init__(self) -> None:
        self.holding: set[str] = set()
        """Guests that do not release their volumes."""
        self.away: set[str] = set()
        """Volumes that cannot be reached; see ``stall``."""
        self._targets: set[str] = set()
        """Exports that disks are being copied to."""
        self.copy_pause = 0.0
        """Seconds between progress checks of a copy."""

    def attach_volume(self, spec: InstanceSpec, disk: GuestDisk) -> None:
        with self._changed:
            guest = self._guest(spec.uuid)
            if find(guest, disk) is not None:
                return
            if guest.power != PowerState.SHUTDOWN and disk.bus in COLD_BUSES:
                raise UnsupportedError(f"A running guest does not support hotplug on the bus {disk.bus!r}.")
            self._have(guest, [*guest.volumes, disk])

    def detach_volume(self, spec: InstanceSpec, disk: GuestDisk, *, force: bool = False) -> None:
        with self._changed:
            guest = self._state.guests.get(spec.uuid)
            if guest is None or find(guest, disk) is None:
                return
            if guest.power == PowerState.PAUSED and not force:
                raise UnsupportedError("A paused guest cannot release a volume.")
            if guest.power == PowerState.RUNNING and spec.uuid in self.holding and not force:
                raise RetryableHostError("The guest has not released the volume.")
            self._have(guest, [each for each in guest.volumes if not is_same(each, disk)])

    def refresh_volume(self, spec: InstanceSpec, disk: GuestDisk) -> None:
        with self._changed:
            guest = self._guest(spec.uuid)
            if find(guest, disk) is None:
                raise RetryableHostError("The guest does not have the volume.")
            self._have(guest, [disk if is_same(each, disk) else each for each in guest.volumes])

    def swap_volume(self, spec: InstanceSpec, old: GuestDisk, new: GuestDisk, stopped: Stopped = never) -> None:
        with self._changed:
            guest = self._guest(spec.uuid)
            if find(guest, new) is not None:
                return
            if find(guest, old) is None:
                raise RetryableHostError("The guest does not have the volume.")
            if guest.power not in ON:
                raise UnsupportedError("A volume can be swapped only while its guest is running.")
        self._targets.add(new.connection.export)
        try:
            self._copy(stopped)
            with self._changed:
                guest = self._guest(spec.uuid)
                self._have(guest, [new if is_same(each, old) else each for each in guest.volumes])
        finally:
            self._targets.discard(new.connection.export)

    def _copy(self, stopped: Stopped) -> None:
        watched = progress.Watched()
        for piece in range(PIECES):
            watched.look(piece)
            if stopped():
                raise StoppedError("The copy of the volume was stopped.")
            time.sleep(self.copy_pause)

    def volumes(self) -> dict[str, list[str]]:
        with self._changed:
            return {guest.uuid: [disk.id for disk in guest.volumes] for guest in self._state.guests.values()}

    def attachments(self) -> dict[str, dict[str, str]]:
        with self._changed:
            guests = self._state.guests.values()
            return {
                guest.uuid: {disk.id: disk.attachment_id for disk in guest.volumes if disk.attachment_id}
                for guest in guests
            }

    def open_exports(self) -> set[str]:
        with self._changed:
            running = [guest for guest in self._state.guests.values() if guest.power in ON]
            return {disk.connection.export for guest in running for disk in guest.volumes} | self._targets

    def resume_after_error(self, uuid: str) -> bool:
        with self._changed:
            guest = self._state.guests.get(uuid)
            if guest is None or not guest.stalled or any(disk.id in self.away for disk in guest.volumes):
                return False
            guest.stalled = False
        self.unpause(uuid)
        return True

    def stall(self, volume_id: str) -> None:
        """Simulate an unreachable volume: guests that use it are paused until it is removed from ``away``."""
        self.away.add(volume_id)
        with self._changed:
            guests = self._state.guests.values()
            struck = [guest for guest in guests if any(disk.id == volume_id for disk in guest.volumes)]
            for guest in struck:
                guest.stalled = guest.power == PowerState.RUNNING
        for guest in struck:
            if guest.stalled:
                self.pause(guest.uuid)

    def disk(self, uuid: str, volume_id: str) -> GuestDisk | None:
        """Return the guest's disk of a volume; None if the volume is not attached."""
        with self._changed:
            return next((disk for disk in self._guest(uuid).volumes if disk.id == volume_id), None)

    def _have(self, guest: FakeGuest, volumes: list[GuestDisk]) -> None:
        guest.volumes = volumes
        self._write(guest.uuid)

    def _guest(self, uuid: str) -> FakeGuest:
        try:
            return self._state.guests[uuid]
        except KeyError:
            raise InstanceNotFoundError("There is no such instance on this host.") from None

    def _write(self, uuid: str) -> None:
        """Append the instance's line to the journal."""
        raise NotImplementedError


def find(guest: FakeGuest, disk: GuestDisk) -> GuestDisk | None:
    """Return the guest's disk for the attachment of ``disk``; None if it is not attached."""
    return next((each for each in guest.volumes if is_same(each, disk)), None)


def is_same(one: GuestDisk, other: GuestDisk) -> bool:
    """Return whether both are the same attachment."""
    return one.attachment_id == other.attachment_id if one.attachment_id else one.id == other.id
