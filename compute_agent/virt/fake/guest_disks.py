"""Disks in simulated guests: each volume is empty until the guest agent mounts it."""

import threading

from compute_agent.contract.build import GuestDisk
from compute_agent.contract.calls import FileSystem
from compute_agent.contract.guest_disks import SHOWN_SERIAL, InspectedDisk
from compute_agent.virt import guest_disks
from compute_agent.virt.driver import ComputeDriver
from compute_agent.virt.errors import GuestDiskError
from compute_agent.virt.fake.state import FakeGuest, State


class FakeGuestDisks(ComputeDriver):
    """The part of the fake driver for disks in guests."""

    _changed: threading.Condition
    _state: State

    def inspect_disk(self, uuid: str, serial: str, timeout: float) -> InspectedDisk:
        shown = guest_disks.arguments("inspect", serial)[2]
        self._ask_agent(uuid)
        with self._changed:
            guest = self._state.guests[uuid]
            disk = _disk(guest, shown)
        place = guest.mounts.get(shown)
        device = f"/dev/{disk.device}"
        return InspectedDisk(device, "empty") if place is None else InspectedDisk(device, "filesystem", "ext4", place)

    def mount_disk(self, uuid: str, serial: str, directory: str, timeout: float) -> None:
        shown = guest_disks.arguments("mount", serial, directory)[2]
        self._ask_agent(uuid)
        with self._changed:
            guest = self._state.guests[uuid]
            _disk(guest, shown)
            if guest.mounts.get(shown, directory) != directory or directory in _others(guest, shown):
                raise guest_disks.failure(22, "")
            guest.mounts = {**guest.mounts, shown: directory}
            self._write(uuid)

    def extend_file_system(self, uuid: str, serial: str, timeout: float) -> None:
        shown = guest_disks.arguments("extend", serial)[2]
        self._ask_agent(uuid)
        with self._changed:
            guest = self._state.guests[uuid]
            _disk(guest, shown)
            if shown not in guest.mounts:
                raise guest_disks.failure(22, "")

    def _ask_agent(self, uuid: str) -> None:
        """Raise UnsupportedError if no guest agent answers."""
        raise NotImplementedError

    def _write(self, uuid: str) -> None:
        """Append the instance's line to the journal."""
        raise NotImplementedError


def mounted(guest: FakeGuest) -> list[FileSystem]:
    """Return the file systems of the guest's volumes."""
    result = []
    for disk in guest.volumes:
        place = guest.mounts.get(_serial(disk))
        if place is not None:
            size = disk.size_gb << 30
            result.append(FileSystem(place, kind="ext4", total_bytes=size, used_bytes=size // 50, disks=[disk.device]))
    return result


def _serial(disk: GuestDisk) -> str:
    return (disk.serial or disk.id)[:SHOWN_SERIAL]


def _disk(guest: FakeGuest, shown: str) -> GuestDisk:
    guest_disk = next((disk for disk in guest.volumes if _serial(disk) == shown), None)
    if guest_disk is None:
        raise GuestDiskError(guest_disks.FAILURES[20])
    return guest_disk


def _others(guest: FakeGuest, shown: str) -> list[str]:
    return [place for key, place in guest.mounts.items() if key != shown]
