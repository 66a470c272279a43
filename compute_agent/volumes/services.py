"""The volumes of one host: its pools, its storage daemons, and the operations of commands, which run in
worker threads.
"""

import contextlib
import logging
import os
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from msgspec.structs import replace

from compute_agent.contract.build import ImageRef, VolumeConnection
from compute_agent.contract.volume import (
    ROOT,
    PoolContents,
    PoolState,
    StoredVolume,
    UnmanagedDisk,
    UploadVolumeRequest,
    VolumeClient,
    VolumeSource,
    VolumeSpec,
)
from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import HostError, ImageUnacceptableError, UnsupportedError
from compute_agent.virt.machine import volume_connections
from compute_agent.volumes.backup_outlet import BackupOutlet
from compute_agent.volumes.copies import copying, moments
from compute_agent.volumes.daemons import exports
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.daemons.exports import Description
from compute_agent.volumes.daemons.open_volumes import MERGE_SECONDS, OpenVolumes
from compute_agent.volumes.driver import GIB, TOO_LARGE, VolumeDriver
from compute_agent.volumes.errors import PoolUnavailableError, VolumeInUseError
from compute_agent.volumes.files import luks
from compute_agent.volumes.watch import ANSWERS_WITHIN, PoolWatch

log = logging.getLogger(__name__)

MOST_DEPTH = 5
"""Limit of the volumes in the chain that a new volume reads its data from (as Cinder's ``rbd_max_clone_depth``)."""
REIMAGE = "reimage-"
SIMULATED, SIMULATED_PORT = Path("/run/novella-fake"), 10809
"""The address that daemons of simulated pools would listen at."""
UNFINISHED = ("restore-", REIMAGE)
"""Prefixes of files in the staging folder, which a killed agent may leave."""


class CachedImage(Protocol):
    """An image's data on this host."""

    @property
    def path(self) -> Path | None:
        """The path of the raw file; None in a fake cache."""


class Images(Protocol):
    """The part of the image cache that volumes need."""

    def get(self, image: ImageRef, instance_uuid: str, stopped: Stopped) -> CachedImage:
        """Return the image. The portal permits the download because of a command for the server or volume
        ``instance_uuid``.
        """


class Outlet(Protocol):
    """The connection for uploading images that are created here."""

    def file(self, name: str) -> AbstractContextManager[Path]:
        """Yield the path for a copy. The file is removed after the block."""

    def send(self, path: Path, instance_uuid: str, image_id: str, stopped: Stopped) -> None:
        """Upload a file as an image's data."""


@dataclass(frozen=True)
class Outside:
    """The parts of the host that volumes need."""

    images: Images
    outgoing: Outlet | None = None
    backups: BackupOutlet | None = None
    """None: this host sends no backups."""
    staging: Path = Path("/var/tmp/novella")  # noqa: S108 - the default
    """A folder with space for a volume that is assembled from its backups."""


class Volumes:
    """The pools of one host. The methods block, are called from worker threads, and raise HostError."""

    def __init__(self, drivers: Sequence[VolumeDriver], daemons: Daemons, outside: Outside) -> None:
        self.daemons = daemons
        self._outside = outside
        self.backups, self.staging = outside.backups, outside.staging
        self._watches = [PoolWatch(driver) for driver in drivers]
        self._repairs: deque[str] = deque()
        self._moments: set[str] = set()
        self._open = OpenVolumes(daemons)

    # ----- pools ----------------------------------------------------------------------------------------------------

    def driver(self, pool_id: str) -> VolumeDriver:
        """Return the driver of a pool. Raises PoolUnavailableError if the pool is not on this host or does
        not answer.
        """
        watch = self._watch(pool_id)
        if watch is None:
            self.states()
            watch = self._watch(pool_id)
        if watch is None:
            raise PoolUnavailableError("The volume's pool is not on this host now.")
        watch.check()
        return watch.driver

    def remote(self, pool_id: str) -> bool:
        """Return whether calls for the pool may wait long for other machines. Sends no query."""
        watch = self._watch(pool_id)
        return watch is not None and watch.driver.remote

    def pool_id(self, name: str) -> str:
        """Return the id of the pool with this name in the host's settings. Raises PoolUnavailableError."""
        for ask in (False, True):
            if ask:
                self.states()
            for watch in self._watches:
                if watch.driver.settings.name == name and watch.id:
                    return watch.id
        raise PoolUnavailableError(f"The pool {name} cannot be used on this host now.")

    def known_state(self, name: str) -> PoolState | None:
        """Return the last known state of the pool with this name in the host's settings. Sends no query."""
        return next((watch.known for watch in self._watches if watch.driver.settings.name == name), None)

    def can_join(self, name: str) -> bool:
        """Return whether a second host can open the volumes of the pool with this name. Sends no query."""
        return any(watch.driver.can_join for watch in self._watches if watch.driver.settings.name == name)

    def hands_over(self, name: str) -> bool:
        """Return whether another host can take the open volumes of the pool with this name over. Sends no query."""
        return any(watch.driver.hands_over for watch in self._watches if watch.driver.settings.name == name)

    def _watch(self, pool_id: str) -> PoolWatch | None:
        return next((watch for watch in reversed(self._watches) if watch.id == pool_id), None)

    def states(self) -> list[PoolState]:
        """Return the state of every pool. A pool that was never reached is omitted, because its id is not known.

        Waits a few seconds for pools that do not answer.
        """
        for watch in self._watches:
            watch.ask()
        until = time.monotonic() + ANSWERS_WITHIN
        states = [watch.state(until) for watch in self._watches]
        waiting = self.daemons.without_key()
        return [
            replace(state, unserved=[each.id for each in waiting if each.pool_id == state.id]) if waiting else state
            for state in states
            if state is not None
        ]

    def warnings(self) -> list[str]:
        """Return a warning for each pool that has not been reached since the start, as of the last call of
        ``states``.
        """
        return [watch.trouble for watch in self._watches if watch.trouble]

    def contents(self, pool_id: str) -> PoolContents:
        """List the volumes of a pool, and the daemons that run for the pool on this host."""
        driver = self.driver(pool_id)
        described = {each.volume.id: each for each in self.daemons.descriptions() if each.volume.pool_id == pool_id}
        listed = {each.id: each for each in driver.contents()}
        for volume_id in described.keys() - listed.keys():
            listed[volume_id] = StoredVolume(id=volume_id, gone=True)
        result = []
        for volume_id, each in sorted(listed.items()):
            if volume_id.startswith(ROOT):  # a root disk: the part for servers manages it
                continue
            description = described.get(volume_id)
            clients = description.clients if description is not None else driver.clients(volume_id)
            names = [client.attachment_id for client in clients]
            daemon = self.daemons.runs(volume_id) if driver.daemons_needed else bool(clients)
            result.append(replace(each, attachments=names, daemon=daemon))
        return PoolContents(volumes=result)

    # ----- commands -------------------------------------------------------------------------------------------------

    def create(self, volume: VolumeSpec, source: VolumeSource, stopped: Stopped) -> None:
        """Create a volume (see ``CreateVolumeRequest``)."""
        driver = self.driver(volume.pool_id)
        if source.image is not None:
            if not driver.clone_image(volume, source.image):
                image = self._outside.images.get(source.image, volume.id, stopped)
                driver.create_from_image(volume, image.path or Path(os.devnull), stopped)
        elif source.unmanaged:
            driver.adopt(volume, source.unmanaged)
        elif source.snapshot_id:
            self._clone(driver, volume, source.volume_id, source.snapshot_id, stopped)
        elif source.volume_id:
            name = moments.moment(driver, moments.CLONE, volume.id)
            with self._moment(driver, replace(volume, id=source.volume_id), name, stopped):
                self._clone(driver, volume, source.volume_id, name, stopped)
        else:
            driver.create(volume)

    def _clone(self, driver: VolumeDriver, volume: VolumeSpec, source_id: str, name: str, stopped: Stopped) -> None:
        """Clone a snapshot. If the volume then reads from too many other volumes, copy all of their data into it."""
        driver.create_from_snapshot(volume, source_id, name)
        if driver.depth(volume.id) > MOST_DEPTH:
            with self.daemons.locked(volume.id):
                self._open.flatten(driver, volume, stopped, everything=True)

    def delete(self, volume: VolumeSpec) -> None:
        """End the volume's daemon, and remove the volume."""
        with self.daemons.locked(volume.id):
            self.daemons.disconnect(volume.id)
            self.driver(volume.pool_id).delete(volume.id)
        self._look_for_layers(volume.pool_id)

    def kept_of(self, volume: VolumeSpec) -> int:
        """Return the bytes of a deleted volume that other volumes need; 0 if they are unknown."""
        try:
            return self.driver(volume.pool_id).kept().get(volume.id, 0)
        except HostError as error:
            log.info("Pool of volume %s: %s %s", volume.id, error.message, error.detail)
            return 0

    def _look_for_layers(self, pool_id: str) -> None:
        """Request that the next check looks for volumes that are the only readers of deleted volumes."""
        watch = self._watch(pool_id)
        if watch is not None:
            watch.crowded = True

    def flatten(self, pool_id: str) -> None:
        """Flatten volumes that are the only readers of several deleted volumes, each for a limited time."""
        watch = self._watch(pool_id)
        if watch is not None:
            self._open.flatten_lone(watch)

    def unmanaged(self, pool_id: str) -> list[UnmanagedDisk]:
        """List the unmanaged disks in a pool."""
        return self.driver(pool_id).unmanaged()

    def unmanage(self, volume: VolumeSpec, name: str, stopped: Stopped) -> None:
        """Turn a closed volume into an unmanaged disk of its pool."""
        driver = self.driver(volume.pool_id)
        if self.daemons.description(volume.id) is not None or driver.clients(volume.id):
            raise VolumeInUseError("The volume is in use.")

        def write(path: Path) -> None:
            name = moments.moment(driver, moments.UNMANAGED, volume.id)
            with self._moment(driver, volume, name, stopped):
                self.copy_out(volume, name, path, "qcow2", stopped)

        driver.leave(volume, name, write)

    def connect(self, volume: VolumeSpec, clients: Sequence[VolumeClient]) -> VolumeConnection | None:
        """Allow exactly these clients to open the volume, and return the connection; None if there are no clients."""
        driver = self.driver(volume.pool_id)
        with self.daemons.locked(volume.id):
            if not driver.daemons_needed:
                return self._pretend(driver, volume, clients)
            if not clients:
                self.daemons.disconnect(volume.id)
                return None
            return self.daemons.connect(driver, volume, clients)

    def join(self, volume: VolumeSpec, shared_id: str, client: VolumeClient) -> VolumeConnection:
        """Open a volume that another host has open (``VolumeDriver.joining``), and return the connection for a client
        on this host.
        """
        driver = self.driver(volume.pool_id)
        with self.daemons.locked(volume.id):
            return self.daemons.join(driver, volume, shared_id, client)

    def expect(self, volume: VolumeSpec, shared_id: str, client: VolumeClient) -> VolumeConnection:
        """Prepare to open a volume that another host still has open, and return the connection for a client on this
        host, which cannot write before ``take_over``.
        """
        driver = self.driver(volume.pool_id)
        with self.daemons.locked(volume.id):
            return self.daemons.expect(driver, volume, shared_id, client)

    def take_over(self, volume: VolumeSpec) -> None:
        """Open an expected volume that the other host has closed. Raises VolumeInUseError, VolumeNotFoundError."""
        driver = self.driver(volume.pool_id)
        with self.daemons.locked(volume.id):
            self.daemons.take_over(driver, volume)

    def expel(self, volume: VolumeSpec) -> None:
        """Block all other hosts that have the volume open. Its client keeps the connection."""
        driver = self.driver(volume.pool_id)
        with self.daemons.locked(volume.id), self.daemons.paused(driver, volume.id):
            driver.expel(volume.id)

    def expel_joined(self, volume: VolumeSpec) -> None:
        """Block the host that has joined the volume, if there is one. Raises VolumeNotFoundError."""
        if self.driver(volume.pool_id).is_joined(volume.id):
            self.expel(volume)

    def _pretend(
        self, driver: VolumeDriver, volume: VolumeSpec, clients: Sequence[VolumeClient]
    ) -> VolumeConnection | None:
        size = driver.size(volume.id) if clients else 0
        driver.let_in(volume.id, clients)
        if not clients:
            return None
        export, here = exports.name_of(volume, clients, size // GIB), [client.local for client in clients]
        return VolumeConnection(
            export=export,
            socket=str(volume_connections.socket_of(SIMULATED, volume.id)) if any(here) else "",
            port=0 if all(here) else SIMULATED_PORT,
            tls=not all(here),
        )

    def grow(self, volume: VolumeSpec) -> VolumeConnection | None:
        """Extend the volume. If it is open, return the connection to the export with the new size; otherwise None."""
        driver = self.driver(volume.pool_id)
        with self.daemons.locked(volume.id):
            with self._open.opened(driver, volume.id) as daemon:
                driver.grow(volume, daemon)
            if not driver.daemons_needed:
                clients = driver.clients(volume.id)
                return self._pretend(driver, volume, clients) if clients else None
            return self.daemons.export_again(driver, volume)

    def snapshot(self, volume: VolumeSpec, snapshot_id: str) -> None:
        """Create a snapshot of the volume's current data."""
        driver = self.driver(volume.pool_id)
        with self.daemons.locked(volume.id), self._open.opened(driver, volume.id) as daemon:
            driver.snapshot(volume, snapshot_id, daemon)

    def delete_snapshot(self, volume: VolumeSpec, snapshot_id: str, stopped: Stopped) -> None:
        driver = self.driver(volume.pool_id)
        with self.daemons.locked(volume.id), self._open.opened(driver, volume.id) as daemon:
            driver.delete_snapshot(volume, snapshot_id, daemon, stopped)
            if daemon is None:
                self._open.merge(driver, volume, stopped)
        self._look_for_layers(volume.pool_id)

    def revert(self, volume: VolumeSpec, snapshot_id: str) -> None:
        """Revert a closed volume to its newest snapshot."""
        with self.daemons.locked(volume.id):
            if self.daemons.description(volume.id) is not None:
                raise VolumeInUseError("The volume is in use.")
            self.driver(volume.pool_id).revert(volume, snapshot_id)

    def fetch(self, volume: VolumeSpec, origin: VolumeConnection, stopped: Stopped) -> None:
        """Create the volume as a copy of a volume that another host, or this host, exports for it.

        Raises ConnectionRefusedByHostError for an export that is not intended for this copy.
        """
        driver = self.driver(volume.pool_id)
        volume_connections.check(origin, client_id=volume.id, sockets=self.daemons.sockets)
        driver.create(volume)
        if driver.daemons_needed:
            with self.daemons.locked(volume.id), self._written(driver, volume) as target:
                certificates, account = self.daemons.certificates, self.daemons.account
                copying.fetch(origin, certificates, target, driver.size(volume.id), stopped, account)

    def reimage(self, volume: VolumeSpec, image: ImageRef, subject_id: str, stopped: Stopped) -> None:
        """Replace the data of an unused volume with an image. The portal permits the download of the image because of a
        command for ``subject_id``.
        """
        driver, path = self.driver(volume.pool_id), self._outside.images.get(image, subject_id, stopped).path
        with self.daemons.locked(volume.id), self.daemons.paused(driver, volume.id):
            if driver.reimage(volume, path or Path(os.devnull), stopped) or path is None:
                return
            size = driver.size(volume.id)
            if path.stat().st_size > size:
                raise ImageUnacceptableError(TOO_LARGE)
            self.staging.mkdir(mode=0o700, parents=True, exist_ok=True)
            with self._written(driver, volume) as target:
                overlay = self.staging / f"{REIMAGE}{volume.id}"
                copying.over(path, overlay, size, target, stopped, self.daemons.account)

    def upload(self, request: UploadVolumeRequest, stopped: Stopped) -> None:
        """Send a consistent copy of the volume as the data of an image."""
        outgoing, volume = self._outside.outgoing, request.volume
        driver = self.driver(volume.pool_id)
        if outgoing is None:
            raise UnsupportedError("This host cannot send images.")
        name = moments.moment(driver, moments.IMAGE, request.image_id)
        with outgoing.file(request.image_id) as path:
            with self._moment(driver, volume, name, stopped):
                self.copy_out(volume, name, path, request.disk_format, stopped)
            outgoing.send(path, request.image_id, request.image_id, stopped)

    def copy_out(self, volume: VolumeSpec, snapshot_id: str, path: Path, disk_format: str, stopped: Stopped) -> None:
        """Write the data of a snapshot to a new file."""
        driver = self.driver(volume.pool_id)
        opening = driver.snapshot_opening(volume, snapshot_id)
        with self.daemons.serving(snapshot_id, opening, read_only=True) as socket:
            source = copying.local(snapshot_id, socket)
            copying.to_file(source, path, disk_format, driver.size(volume.id), stopped, self.daemons.account)

    # ----- between commands -----------------------------------------------------------------------------------------

    def check(self) -> list[str]:
        """Start daemons again that have died. Return a line for each that was started since the last call."""
        dead: dict[PoolWatch | None, list[Description]] = {}
        for description in self.daemons.descriptions():
            if not self.daemons.is_whole(description):
                dead.setdefault(self._watch(description.volume.pool_id), []).append(description)
        for watch, daemons in dead.items():
            if watch is None:
                self._repair(daemons)
            else:
                watch.repair(partial(self._repair, daemons))
        for watch in self._watches:
            watch.ask_again()
            if watch.crowded and watch.id and not watch.away:
                watch.flattening.start(partial(self._open.flatten_lone, watch))
        return [self._repairs.popleft() for _ in range(len(self._repairs))]

    def _repair(self, descriptions: Sequence[Description]) -> None:
        for volume_id in (each.volume.id for each in descriptions):
            try:
                with self.daemons.locked(volume_id, wait=False) as taken:
                    now = self.daemons.description(volume_id) if taken else None
                    if now is not None and self.daemons.repair(self.driver(now.volume.pool_id), now):
                        self._repairs.append(f"the storage daemon of volume {volume_id} had ended")
            except HostError as error:
                log.warning("Volume %s is not served: %s %s", volume_id, error.message, error.detail)

    def sweep(self) -> None:
        """Remove the remnants of a killed agent. Call it once, before commands are executed.

        A pool on other machines is swept in a separate thread.
        """
        luks.sweep()
        self.daemons.remember()
        self.daemons.sweep()
        for path in (path for name in UNFINISHED for path in self.staging.glob(f"{name}*")):
            path.unlink(missing_ok=True)
        self.states()
        self._clean(lambda driver: self._forget_moments(driver) + driver.sweep())

    def prune(self) -> None:
        """Remove images from pools that no volume has needed for long, and have the next check look for volumes to
        flatten.
        """
        self._clean(lambda driver: driver.prune())
        for watch in self._watches:
            watch.crowded = True

    def _forget_moments(self, driver: VolumeDriver) -> list[str]:
        """Remove the temporary snapshots of interrupted copies. A repeated copy creates a new one."""
        removed, until = [], time.monotonic() + MERGE_SECONDS
        pool_id = next(watch.id for watch in self._watches if watch.driver is driver)
        for volume_id, name in list(moments.left(driver)):
            description = self.daemons.description(volume_id)
            volume = VolumeSpec(id=volume_id, pool_id=pool_id, size_gb=0)
            volume = volume if description is None else description.volume
            try:
                with self.daemons.locked(volume_id):
                    if name in self._moments:  # a repeated copy has created it again
                        continue
                    with self._open.opened(driver, volume_id) as daemon:
                        driver.delete_snapshot(volume, name, daemon, lambda: time.monotonic() > until)
                removed.append(f"snapshot {name} of volume {volume_id}")
            except HostError as error:
                log.warning(
                    "Snapshot %s of volume %s was not removed: %s %s", name, volume_id, error.message, error.detail
                )
        return removed

    def _clean(self, work: Callable[[VolumeDriver], list[str]]) -> None:
        for watch in {watch.id: watch for watch in self._watches if watch.id}.values():
            watch.clean(partial(self._clean_one, watch.driver, work))

    @staticmethod
    def _clean_one(driver: VolumeDriver, work: Callable[[VolumeDriver], list[str]]) -> None:
        try:
            for line in work(driver):
                log.info("Removed from pool %s: %s", driver.settings.name, line)
        except HostError as error:
            log.warning("Pool %s was not cleaned: %s %s", driver.settings.name, error.message, error.detail)

    # ----- inside ---------------------------------------------------------------------------------------------------

    @contextlib.contextmanager
    def _moment(self, driver: VolumeDriver, volume: VolumeSpec, name: str, stopped: Stopped) -> Iterator[None]:
        """Keep a temporary snapshot of the volume while the block runs."""
        self._moments.add(name)
        try:
            self.snapshot(volume, name)
            try:
                yield
            finally:
                self.delete_snapshot(volume, name, stopped)
        finally:
            self._moments.discard(name)

    @contextlib.contextmanager
    def _written(self, driver: VolumeDriver, volume: VolumeSpec) -> Iterator[str]:
        """Export a closed volume for writing by a program of this host, while the block runs. Yields the URI."""
        held = driver.hold(volume.id)
        try:
            name = f"fetch-{volume.id}"
            with self.daemons.serving(name, driver.opening(volume), held, read_only=False) as socket:
                yield copying.local(name, socket)
        finally:
            for descriptor in held:
                os.close(descriptor)
