"""The receiving side of a live migration whose guest has its root disk in a pool.

The disk is not copied. In some pools this host opens it while the other host has it open as well, and the guest writes
through one of the two daemons at a time: the other host has paused it, with all its writes complete, before it runs
here. Then this host acquires the disk, and the pool blocks the other host. In other pools this host opens the disk
after the other host has closed it, while the guest is paused.
"""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Protocol

from compute_agent.contract.build import InstanceSpec, is_cd
from compute_agent.virt.errors import HostError
from compute_agent.virt.live_migration import Arrival
from compute_agent.virt.migration_link.errors import DiskLostError
from compute_agent.volumes.errors import VolumeInUseError

log = logging.getLogger(__name__)


class ArrivingRootDisks(Protocol):
    """The part of the driver that this module needs."""

    def is_in_pool(self, uuid: str) -> bool:
        """Return whether the pool has the guest's root disk, on whatever host."""

    def create_disks_beside(self, spec: InstanceSpec, base: Path | None) -> None:
        """Create the disks of a guest whose root disk is in the pool."""

    def join(self, spec: InstanceSpec) -> InstanceSpec:
        """Open the root disk that another host has open. Return the spec with it."""

    def take_over(self, uuid: str) -> None:
        """Open a root disk that the other host has closed, if the pool needs that. Raises VolumeInUseError."""

    def give_back(self, uuid: str) -> None:
        """Close a root disk of ``take_over``, and return it to the other host. Does nothing in other pools."""

    def acquire_joined(self, uuid: str) -> None:
        """Give a joined root disk to this host alone. Idempotent.

        Raises VolumeInUseError if another host has acquired it, and DiskLostError if it was deleted.
        """


class RootDiskArrival(Arrival):
    """The arrival of a guest whose root disk may be in the pool; otherwise it is a file, which is copied."""

    def __init__(self, spec: InstanceSpec, make: Callable[[InstanceSpec], Arrival], disks: ArrivingRootDisks) -> None:
        """``make`` returns the hypervisor's arrival for a spec."""
        self._spec, self._make, self._disks = spec, make, disks
        self._inner = make(spec)
        self._in_pool = False

    @property
    def sockets(self) -> Mapping[str, Path]:
        return self._inner.sockets

    def needs_image(self) -> bool:
        if self._disks.is_in_pool(self._spec.uuid):
            return is_cd(self._spec.image)  # the CD-ROM drive uses a file on this host
        return self._inner.needs_image()

    def create_disks(self, base: Path | None) -> None:
        self._in_pool = self._disks.is_in_pool(self._spec.uuid)
        if self._in_pool:
            self._disks.create_disks_beside(self._spec, base)
        else:
            self._inner.create_disks(base)

    def shape(self, offer: bytes) -> bytes:
        if self._in_pool:
            self._inner = self._make(self._disks.join(self._spec))
        return self._inner.shape(offer)

    def prepare(self, begun: bytes) -> bytes:
        return self._inner.prepare(begun)

    def finish(self, performed: bytes) -> bytes:
        if not self._in_pool:
            return self._inner.finish(performed)
        try:
            self._disks.take_over(self._spec.uuid)
            return self._inner.finish(performed)
        except BaseException:
            self._give_back()
            raise

    def _give_back(self) -> None:
        """Return the disk before the other host is notified of the failure. If that fails, the portal decides."""
        try:
            self._disks.give_back(self._spec.uuid)
        except HostError as error:
            log.warning("Root disk of %s is not returned: %s %s", self._spec.uuid, error.message, error.detail)

    def arrived(self) -> bool:
        return self._inner.arrived()

    def settle(self) -> None:
        try:
            self._disks.acquire_joined(self._spec.uuid)
        except VolumeInUseError as error:  # the portal has decided that the guest runs on another host
            raise DiskLostError(error.message, detail=error.detail) from error

    def cancel(self) -> None:
        self._inner.cancel()
