"""The sending side of a live migration whose guest has its root disk in a pool that one host at a time can open.

This host closes the disk when the guest is paused with all its writes complete. It opens it again if the guest stays
and the disk still has the name of this host. Otherwise the portal decides.
"""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from compute_agent.virt.live_migration import Departure
from compute_agent.virt.migration_link.errors import MigrationUndecidedError
from compute_agent.virt.processes.progress import Amount


class DepartingRootDisks(Protocol):
    """The part of the driver that this module needs."""

    def close_root(self, uuid: str) -> None:
        """Close the root disk."""

    def open_again(self, uuid: str) -> None:
        """Open the root disk, unless it is open. Raises HostError if another host has it."""


class RootDiskDeparture(Departure):
    """The departure of a guest whose root disk is closed here before it is opened there."""

    def __init__(self, inner: Departure, uuid: str, disks: DepartingRootDisks) -> None:
        self._inner, self._uuid, self._disks = inner, uuid, disks

    @property
    def sockets(self) -> Mapping[str, Path]:
        return self._inner.sockets

    def sockets_ready(self, end_memory: Callable[[], bool]) -> None:
        self._inner.sockets_ready(end_memory)

    def when_paused(self, notify: Callable[[], None]) -> None:
        self._inner.when_paused(notify)

    def offer(self) -> bytes:
        return self._inner.offer()

    def begin(self, shape: bytes) -> bytes:
        return self._inner.begin(shape)

    def perform(self, prepared: bytes) -> bytes:
        performed = self._inner.perform(prepared)
        self._disks.close_root(self._uuid)
        return performed

    def amount(self) -> Amount:
        return self._inner.amount()

    def leave(self, finished: bytes) -> None:
        self._inner.leave(finished)

    def stay(self) -> None:
        try:
            self._disks.open_again(self._uuid)
        except Exception as error:  # the guest must not run without its disk
            raise MigrationUndecidedError("The guest's disk cannot be opened again.", detail=str(error)) from error
        self._inner.stay()
