"""Root disks of guests in a pool that several hosts can access, instead of files on this host.

For the hypervisor such a guest boots from a volume: a storage daemon on this host opens the root disk. The disk's name
in the pool consists of the guest's id and a hash of the host's name. A host acquires the disk of another host only by a
command of the portal: it renames the disk, which the pool does in one step. If a host does not find a disk under its
own name, the guest has been moved to another host; the host can then neither open nor remove the disk. Empty disks, the
config drive, rescue disks and saved memory remain files on the host.
"""

import contextlib
import logging
import math
import uuid as uuids
from collections.abc import Callable
from dataclasses import replace as changed
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from compute_agent.contract.build import GuestDisk, InstanceSpec, VolumeConnection, boot_volume, is_cd
from compute_agent.contract.guest_hardware import guest_hardware
from compute_agent.contract.messages import Leftover
from compute_agent.contract.moves import LIVE_POOL_TRAIT, ROOT_POOL_TRAIT, GuestOrigin, root_pool_trait
from compute_agent.contract.volume import ROOT, VolumeClient, VolumeSpec
from compute_agent.servers.root_disk_arrival import RootDiskArrival
from compute_agent.servers.root_disk_departure import RootDiskDeparture
from compute_agent.virt.driver import BootFiles, ComputeDriver, Fetch, HostCapacity, SentGuest, Stopped, never
from compute_agent.virt.errors import (
    HostError,
    ImageUnacceptableError,
    InstanceNotFoundError,
    RetryableHostError,
    UnsupportedError,
)
from compute_agent.virt.live_migration import Arrival, Departure, MigrationOptions, Whereabouts
from compute_agent.virt.migration_link.errors import DiskLostError
from compute_agent.virt.passing_on import PassingOn
from compute_agent.volumes.driver import GIB, VolumeDriver
from compute_agent.volumes.errors import VolumeInUseError, VolumeNotFoundError
from compute_agent.volumes.services import Volumes
from compute_agent.volumes.watch import Aside

log = logging.getLogger(__name__)

BEFORE = "before-resize"
"""The snapshot to which a resize is reverted."""
BEFORE_MOVE = "before-move-"
"""Prefix of the snapshot to which a move is reverted, before the hash of the name of the host that the guest left."""
NOT_IN_POOL = "The server's root disk is not in this host's pool."
SEVERAL = "The pool has several root disks of the server."
NOT_LIVE = "The server's root disk is in a pool that only one host can open, so it cannot be migrated while it runs."
NAMESPACE = uuids.UUID("6f6c1a52-6a43-4b0e-9f43-2b9c0b0f6d27")
LISTED_WITHIN = 3.0
"""Seconds that the list of leftovers waits for the pool."""
KIND = "root_disk"
"""The kind of leftover for a root disk in the pool that belongs to no guest."""


def disk_id(uuid: str, host: str) -> str:
    """Return the id of a guest's root disk in the pool while the guest is on ``host``."""
    return f"{ROOT}{uuid}-{uuids.uuid5(NAMESPACE, host).hex[:8]}"


def disks_of(host: str, driver: VolumeDriver) -> list[tuple[str, str]]:
    """Return the disk id and the guest id of each root disk in a pool that belongs to ``host``."""
    guesses = ((name, name.removeprefix(ROOT).rpartition("-")[0]) for name in driver.names())
    return [(name, uuid) for name, uuid in guesses if name == disk_id(uuid, host)]


class PoolRootDisks(PassingOn):
    """A hypervisor driver that stores guests' root disks in a pool.

    A guest whose root disk is a file on this host keeps it until it is rebuilt. Guests that boot from a volume are not
    changed by this class.
    """

    def __init__(self, inner: ComputeDriver, volumes: Volumes, pool: str, host: str) -> None:
        """``pool`` is the pool's name in this host's settings."""
        super().__init__(inner)
        self._volumes, self._pool, self._host = volumes, pool, host
        self._listing = Aside("listing root disks")
        self._listed: list[tuple[str, str]] = []

    @property
    def pool_id(self) -> str:
        """Return the pool's id.  Raises PoolUnavailableError."""
        return self._volumes.pool_id(self._pool)

    # ----- the host -------------------------------------------------------------------------------------------------

    def capacity(self) -> HostCapacity:
        """Measure the host. The disk space is that of the pool, as it was last measured."""
        capacity = self.inner.capacity()
        pool = self._volumes.known_state(self._pool)
        total, free = (pool.total_gb, pool.free_gb) if pool is not None else (0, 0)
        shared = {root_pool_trait(pool.id)} if pool is not None else set()
        is_live = self._volumes.can_join(self._pool) or self._volumes.hands_over(self._pool)
        live = {LIVE_POOL_TRAIT} if is_live else set()
        traits = tuple(sorted({*capacity.traits, ROOT_POOL_TRAIT, *shared, *live}))
        disk = {"disk_gb": int(total), "disk_gb_used": int(total - free)}
        return HostCapacity(**{**vars(capacity), **disk, "traits": traits})

    def volumes(self) -> dict[str, list[str]]:
        return {
            uuid: [each for each in found if not each.startswith(ROOT)] for uuid, found in self.inner.volumes().items()
        }

    def leftovers(self) -> list[Leftover]:
        """List the leftovers on this host, and this host's root disks in the pool without a guest. The disks are
        omitted while the pool does not answer.
        """
        result, guests = self.inner.leftovers(), {guest.uuid for guest in self.inner.guests()}
        if self._listing.busy:
            return result
        self._listing.start(self._list)
        if self._listing.wait(LISTED_WITHIN):
            guests |= {guest.uuid for guest in self.inner.guests()}
            result += [
                Leftover(kind=KIND, name=name, subject_id=uuid) for name, uuid in self._listed if uuid not in guests
            ]
        return result

    def _list(self) -> None:
        """List this host's root disks, and merge data of their snapshots that other hosts have deleted."""
        self._listed, driver = [], self._driver()
        self._listed = disks_of(self._host, driver)
        for name, uuid in self._listed:
            if driver.can_merge(name):
                self._volumes.delete_snapshot(self._volume(uuid), "", partial(self._volumes.daemons.awaited, name))

    # ----- making and removing --------------------------------------------------------------------------------------

    def needs_image(self, spec: InstanceSpec) -> bool:
        """Return False if the pool has the image already, because another host has stored it there."""
        if not super().needs_image(spec):
            return False
        if is_cd(spec.image):
            return True  # the CD-ROM drive uses a file on this host
        return not spec.flavor.root_gb or not self._driver().has_image(spec.image)

    def has_disk(self, uuid: str) -> bool:
        return self.inner.has_disk(uuid) or self._size(uuid) is not None

    def create_disk(self, spec: InstanceSpec, base: Path | None, *, keep_ephemeral: bool = False) -> None:
        """Create the root disk in the pool, as a clone of the image, and the empty disks on this host.

        For a CD image, the CD is a file on this host, and the root disk is empty.
        """
        if boot_volume(spec) is not None:
            self.inner.create_disk(spec, base, keep_ephemeral=keep_ephemeral)
            return
        size_gb = self._required_gb(spec, base)
        cd = base if is_cd(spec.image) else None
        self.inner.create_disk(_rooted(spec, _NOWHERE), cd, keep_ephemeral=keep_ephemeral)
        volume, driver = self._volume(spec.uuid, size_gb), self._driver()
        if self._size(spec.uuid) is not None or self._volumes.daemons.description(volume.id) is not None:
            self._volumes.delete(volume)
        if cd is not None:
            driver.create(volume)
        elif base is not None:
            driver.create_from_image(volume, base)
        elif not driver.clone_image(volume, spec.image):
            raise RetryableHostError("The host's pool no longer has this image.")

    @staticmethod
    def _required_gb(spec: InstanceSpec, base: Path | None) -> int:
        """Return the size of the root disk in GiB. The image's own size is rounded up. Raises
        ImageUnacceptableError.
        """
        needed = 1 if base is None else math.ceil(base.stat().st_size / GIB)
        size = spec.flavor.root_gb or needed
        if needed > size:
            has = f"flavor {spec.flavor.name!r} has {spec.flavor.root_gb} GiB"
            raise ImageUnacceptableError(f"Image {spec.image.name!r} needs a disk of {needed} GiB; {has}.")
        return size

    def define(self, spec: InstanceSpec, attempt: int) -> None:
        self.inner.define(self._with_root(spec), attempt)

    def destroy(self, uuid: str) -> None:
        self.inner.destroy(uuid)
        volume = self._volume(uuid)
        if self._volumes.daemons.description(volume.id) is not None or self._size(uuid) is not None:
            self._volumes.delete(volume)

    def leave(self, uuid: str) -> None:
        """Remove the guest, and close its root disk. The disk is renamed to the name of the host from which this host
        had acquired it. If another host has the disk, the snapshot for a revert of the move is deleted.
        """
        self.inner.leave(uuid)
        volume, driver = self._volume(uuid), self._driver()
        self._volumes.connect(volume, [])
        if self._size(uuid) is None:
            for name in self._elsewhere(uuid):
                driver.forget_snapshot(replace(volume, id=name), _moment(volume.id))
        else:
            self._return(volume.id)

    def _return(self, name: str) -> None:
        """Rename a closed root disk of this host to the name of the host from which this host had acquired it."""
        driver = self._driver()
        previous = driver.previous_id(name)
        if previous in ("", name):
            return
        try:
            driver.rename(name, previous)
        except VolumeInUseError:
            log.warning("Root disk %s cannot be returned: there is a newer one.", name)

    def adopt_disks(self, spec: InstanceSpec, base: Path | None) -> bool:
        if boot_volume(spec) is not None or not self._acquire(spec.uuid):
            return self.inner.adopt_disks(spec, base)
        cd = base if is_cd(spec.image) else None
        self.inner.create_disk(_rooted(spec, _NOWHERE), cd)
        return True

    def _acquire(self, uuid: str, *, moment: bool = False) -> bool:
        """Rename the guest's root disk to this host's name for it, if another host has it. Return whether this host has
        the disk now. ``moment``: first create a snapshot, to which the other host can revert.
        """
        if self._size(uuid) is not None:
            return True
        name = self._other(uuid)
        if not name:
            return False
        if self._volumes.hands_over(self._pool):
            self.close_root(uuid)  # a daemon that waited for the disk in a live migration
        if moment:
            self._driver().snapshot(self._volume(uuid, 1, name), _moment(name))
        self._driver().rename(name, disk_id(uuid, self._host))
        return True

    def _other(self, uuid: str) -> str:
        """Return the id of the guest's root disk that another host has; empty if there is none. Raises HostError if
        several hosts have one.
        """
        names = self._elsewhere(uuid)
        if len(names) > 1:
            raise HostError(SEVERAL, detail=" ".join(names))
        return names[0] if names else ""

    def _elsewhere(self, uuid: str) -> list[str]:
        """Return the ids of the guest's root disks that other hosts have."""
        own = disk_id(uuid, self._host)
        return [name for name in self._driver().names() if name.rpartition("-")[0] == f"{ROOT}{uuid}" and name != own]

    # ----- power ----------------------------------------------------------------------------------------------------

    def start(self, uuid: str) -> None:
        self._serve(uuid)
        self.inner.start(uuid)

    def reboot(self, uuid: str, *, hard: bool, timeout: float) -> None:
        self._serve(uuid)
        self.inner.reboot(uuid, hard=hard, timeout=timeout)

    def unpause(self, uuid: str) -> None:
        self._serve(uuid)
        self.inner.unpause(uuid)

    def resume(self, uuid: str) -> None:
        self._serve(uuid)
        self.inner.resume(uuid)

    def _serve(self, uuid: str) -> None:
        """Open the root disk for this host alone. Its daemon may not run, because the machine was off or the daemon has
        died; or another host may have joined or acquired the disk in a migration whose end was never reported.
        """
        name = disk_id(uuid, self._host)
        if self._volumes.daemons.runs(name):
            self._take_back(uuid, self._volumes.expel_joined)
        elif name in self.inner.volumes().get(uuid, []):
            if self._volumes.hands_over(self._pool) and self.inner.whereabouts(uuid) is Whereabouts.UNDECIDED:
                self._acquire(uuid)
            self._connected(uuid)

    def _take_back(self, uuid: str, expel: Callable[[VolumeSpec], None]) -> None:
        """Block other hosts by ``expel`` from the open root disk of a guest that stays on this host. If one of them has
        acquired the disk, rename it back first. Raises VolumeNotFoundError.
        """
        volume = self._volume(uuid)
        try:
            expel(volume)
        except VolumeNotFoundError:  # acquired, perhaps in this moment
            if not self._acquire(uuid):
                raise
            self._volumes.expel(volume)

    # ----- rescue and size ------------------------------------------------------------------------------------------

    def rescue(self, spec: InstanceSpec, attempt: int, base: Path | None, files: BootFiles) -> None:
        self.inner.rescue(self._with_root(spec, "vdb"), attempt, base, files)

    def unrescue(self, spec: InstanceSpec, attempt: int) -> None:
        self.inner.unrescue(self._with_root(spec), attempt)

    def resize(self, spec: InstanceSpec, attempt: int) -> None:
        """Create a snapshot of the root disk, and extend the disk."""
        if self._is_elsewhere(spec):
            self.inner.resize(spec, attempt)
            return
        has = self._needed_size(spec.uuid)
        if 0 < spec.flavor.root_gb < has:
            raise ImageUnacceptableError(f"The guest's disk has {has} GiB and cannot shrink.")
        self.inner.stop(spec.uuid, 0)
        volume = self._volume(spec.uuid, spec.flavor.root_gb or has)
        self._volumes.connect(volume, [])
        self._volumes.snapshot(volume, BEFORE)
        self._volumes.grow(volume)
        self.inner.resize(self._with_root(spec), attempt)

    def confirm_resize(self, uuid: str) -> None:
        self.inner.confirm_resize(uuid)
        has = None if self.inner.has_disk(uuid) else self._size(uuid)
        if has is not None:
            self._volumes.delete_snapshot(self._volume(uuid, has), BEFORE, never)

    def revert_resize(self, spec: InstanceSpec, attempt: int) -> None:
        if self._is_elsewhere(spec):
            self.inner.revert_resize(spec, attempt)
            return
        self._needed_size(spec.uuid)
        self.inner.stop(spec.uuid, 0)
        volume = self._volume(spec.uuid, spec.flavor.root_gb or 1)
        self._volumes.connect(volume, [])
        self._revert(volume, BEFORE)
        self.inner.revert_resize(self._with_root(spec), attempt)

    def _is_elsewhere(self, spec: InstanceSpec) -> bool:
        """Whether the guest's root disk is a volume or a file, and therefore not in this pool."""
        return boot_volume(spec) is not None or self.inner.has_disk(spec.uuid)

    # ----- moves ----------------------------------------------------------------------------------------------------

    def disks_to_send(self, uuid: str) -> SentGuest:
        """Close a root disk in the pool, and delete the snapshots for reverts of earlier resizes and moves."""
        sent = self.inner.disks_to_send(uuid)
        has = None if self.inner.has_disk(uuid) else self._size(uuid)
        if has is None:
            return sent
        volume, driver = self._volume(uuid, has), self._driver()
        self._volumes.connect(volume, [])
        for name in driver.snapshots(volume.id):
            if name == BEFORE or name.startswith(BEFORE_MOVE):
                driver.delete_snapshot(volume, name)
        return changed(sent, root_pool=self.pool_id)

    def receive_disks(self, spec: InstanceSpec, base: Path | None, origin: GuestOrigin, fetch: Fetch) -> None:
        """Acquire a root disk in the pool, and extend it to the size of the flavor."""
        if not origin.root_pool:
            self.inner.receive_disks(spec, base, origin, fetch)
            return
        if origin.root_pool != self.pool_id or not self._acquire(spec.uuid, moment=True):
            raise UnsupportedError(NOT_IN_POOL)
        has = self._needed_size(spec.uuid)
        if 0 < spec.flavor.root_gb < has:
            raise ImageUnacceptableError(f"The guest's disk has {has} GiB and cannot shrink.")
        volume = self._volume(spec.uuid, spec.flavor.root_gb or has)
        self._volumes.connect(volume, [])
        self._volumes.grow(volume)
        self.inner.receive_disks(_rooted(spec, _NOWHERE), base, origin, fetch)

    def restore_left_disk(self, uuid: str) -> None:
        self.inner.restore_left_disk(uuid)
        if self.inner.has_disk(uuid) or not self._acquire(uuid):
            return
        volume = self._volume(uuid, 1)
        self._volumes.connect(volume, [])
        self._revert(volume, _moment(volume.id))

    def _revert(self, volume: VolumeSpec, moment: str) -> None:
        """Revert a closed disk to a snapshot, if there is one, and delete the snapshot."""
        if moment in self._driver().snapshots(volume.id):
            self._volumes.revert(volume, moment)
            self._volumes.delete_snapshot(volume, moment, never)

    # ----- live migration ---------------------------------------------------------------------------------------------

    def departure(self, uuid: str, options: MigrationOptions) -> Departure:
        if self._volumes.can_join(self._pool) or self.inner.has_disk(uuid) or self._size(uuid) is None:
            return self.inner.departure(uuid, options)
        if not self._volumes.hands_over(self._pool):
            raise UnsupportedError(NOT_LIVE)
        options = changed(options, post_copy=False)  # the guest would run there before its disk is closed here
        return RootDiskDeparture(self.inner.departure(uuid, options), uuid, self)

    def arrival(self, spec: InstanceSpec, attempt: int) -> Arrival:
        if boot_volume(spec) is not None:
            return self.inner.arrival(spec, attempt)
        return RootDiskArrival(spec, partial(self.inner.arrival, attempt=attempt), self)

    def is_in_pool(self, uuid: str) -> bool:
        return self._size(uuid) is not None or bool(self._elsewhere(uuid))

    def create_disks_beside(self, spec: InstanceSpec, base: Path | None) -> None:
        self.inner.create_disk(_rooted(spec, _NOWHERE), base if is_cd(spec.image) else None)

    def join(self, spec: InstanceSpec) -> InstanceSpec:
        name = self._other(spec.uuid)
        if not name:
            raise UnsupportedError(NOT_IN_POOL)
        if self._size(spec.uuid) is not None:  # an old one, which this host would open after the next restart
            raise HostError(SEVERAL, detail=f"{name} {disk_id(spec.uuid, self._host)}")
        volume = self._volume(spec.uuid, self._driver().size(name) // GIB)
        enter = self._volumes.expect if self._volumes.hands_over(self._pool) else self._volumes.join
        return _with_volume(spec, volume, enter(volume, name, _client(spec.uuid)))

    def take_over(self, uuid: str) -> None:
        if self._volumes.hands_over(self._pool):
            self._volumes.take_over(self._volume(uuid))

    def give_back(self, uuid: str) -> None:
        if self._volumes.hands_over(self._pool):
            self.close_root(uuid)
            if self._size(uuid) is not None:
                self._return(disk_id(uuid, self._host))

    def close_root(self, uuid: str) -> None:
        self._volumes.connect(self._volume(uuid), [])

    def open_again(self, uuid: str) -> None:
        if not self._volumes.daemons.runs(disk_id(uuid, self._host)):
            self._connected(uuid)

    def acquire_joined(self, uuid: str) -> None:
        own = disk_id(uuid, self._host)
        if self._volumes.daemons.description(own) is None or self._size(uuid) is not None:
            return
        name = self._other(uuid)
        if not name:
            raise DiskLostError(NOT_IN_POOL)
        self._driver().acquire(name, own)

    def keep(self, uuid: str) -> None:
        """Resume the guest, after all other hosts are blocked that have joined or acquired its root disk."""
        name = disk_id(uuid, self._host)
        if not self._volumes.hands_over(self._pool):
            if self._volumes.daemons.description(name) is not None:
                self._take_back(uuid, self._volumes.expel)
        elif not self._volumes.daemons.runs(name) and name in self.inner.volumes().get(uuid, []):
            self._acquire(uuid)  # no daemon on the other host has it open
            self._connected(uuid)
        self.inner.keep(uuid)

    # ----- copies ---------------------------------------------------------------------------------------------------

    def snapshot(self, uuid: str, target: Path, disk_format: str, stopped: Stopped = never) -> None:
        self.inner.power_state(uuid)
        size = None if self.inner.has_disk(uuid) else self._size(uuid)
        if size is None:
            self.inner.snapshot(uuid, target, disk_format, stopped)
            return
        volume, moment = self._volume(uuid, size), f"copy-{uuid}"
        target.unlink(missing_ok=True)
        self._volumes.delete_snapshot(volume, moment, never)  # the remnant of a killed agent
        with self.inner.frozen(uuid):
            self._volumes.snapshot(volume, moment)
        try:
            self._volumes.copy_out(volume, moment, target, disk_format, stopped)
        except BaseException:
            target.unlink(missing_ok=True)
            raise
        finally:
            self._volumes.delete_snapshot(volume, moment, never)

    # ----- inside ---------------------------------------------------------------------------------------------------

    def _driver(self) -> VolumeDriver:
        return self._volumes.driver(self.pool_id)

    def _volume(self, uuid: str, size_gb: int = 0, name: str = "") -> VolumeSpec:
        return VolumeSpec(id=name or disk_id(uuid, self._host), pool_id=self.pool_id, size_gb=size_gb)

    def _size(self, uuid: str) -> int | None:
        """Return the size in GiB of a guest's root disk on this host; None if there is none."""
        try:
            return self._driver().size(disk_id(uuid, self._host)) // GIB
        except VolumeNotFoundError:
            return None

    def _needed_size(self, uuid: str) -> int:
        result = self._size(uuid)
        if result is None:
            raise InstanceNotFoundError("The guest has no disk on this host.", detail=disk_id(uuid, self._host))
        return result

    def _connected(self, uuid: str) -> tuple[VolumeSpec, VolumeConnection]:
        """Open the root disk for the guest, and for this host alone. Return its volume and its connection."""
        if self._volumes.daemons.description(disk_id(uuid, self._host)) is not None:
            with contextlib.suppress(VolumeNotFoundError):
                self._take_back(uuid, self._volumes.expel_joined)
        volume = self._volume(uuid, self._needed_size(uuid))
        connection = self._volumes.connect(volume, [_client(uuid)])
        if connection is None:
            raise HostError("The guest's disk could not be opened.")
        return volume, connection

    def _with_root(self, spec: InstanceSpec, device: str = "vda") -> InstanceSpec:
        """Return the spec with the root disk as a volume that the guest boots from."""
        if self._is_elsewhere(spec):
            return spec
        return _with_volume(spec, *self._connected(spec.uuid), device)


def _moment(name: str) -> str:
    """Return the name of the snapshot to which a move is reverted; ``name`` is the disk's on the host that it left."""
    return BEFORE_MOVE + name.rpartition("-")[2]


_NOWHERE = GuestDisk(id=ROOT, attachment_id="", size_gb=0, connection=VolumeConnection(export=""), boot_index=0)


def _client(uuid: str) -> VolumeClient:
    return VolumeClient(attachment_id=uuid, host_id="", local=True)


def _with_volume(
    spec: InstanceSpec, volume: VolumeSpec, connection: VolumeConnection, device: str = "vda"
) -> InstanceSpec:
    """Return the spec with an open root disk."""
    hardware = guest_hardware(spec)
    disk = GuestDisk(id=volume.id, attachment_id="", size_gb=volume.size_gb, connection=connection, boot_index=0)
    return _rooted(spec, replace(disk, device=device, bus=hardware.disk_bus, iotune=hardware.disk_limits))


def _rooted(spec: InstanceSpec, disk: GuestDisk) -> InstanceSpec:
    return replace(spec, volumes=[disk, *spec.volumes])
