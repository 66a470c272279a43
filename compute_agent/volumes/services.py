"""The volumes of one host: its pools, its storage daemons, and what commands do with them, in worker threads."""

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
    PoolContents,
    PoolState,
    StoredVolume,
    UnmanagedDisk,
    UploadVolumeRequest,
    VolumeClient,
    VolumeSource,
    VolumeSpec,
)
from compute_agent.virt import volume_connections
from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import HostError, ImageUnacceptableError, UnsupportedError
from compute_agent.volumes import copying, exports, luks, moments
from compute_agent.volumes.backup_outlet import BackupOutlet
from compute_agent.volumes.daemon import Daemons
from compute_agent.volumes.driver import GIB, ROOT, TOO_LARGE, VolumeDriver
from compute_agent.volumes.errors import PoolUnavailableError, VolumeInUseError
from compute_agent.volumes.exports import Description
from compute_agent.volumes.open_volumes import MERGE_SECONDS, OpenVolumes
from compute_agent.volumes.watch import ANSWERS_WITHIN, PoolWatch

log = logging.getLogger(__name__)

MOST_DEPTH = 5
"""Volumes that a new one may read its data from, one below the other (as Cinder's ``rbd_max_clone_depth``)."""
REIMAGE = "reimage-"
SIMULATED, SIMULATED_PORT = Path("/run/novella-fake"), 10809
"""The address that daemons of simulated pools would listen at."""
UNFINISHED = ("restore-", REIMAGE)
"""The prefix of files in the staging folder: a killed agent leaves them."""


class CachedImage(Protocol):
    """An image's bits on this host."""

    @property
    def path(self) -> Path | None:
        """The raw file; None in a fake cache."""


class Images(Protocol):
    """The image cache, as volumes need it."""

    def get(self, image: ImageRef, instance_uuid: str, stopped: Stopped) -> CachedImage:
        """Return the image's bits, by the right of a command for a server or a volume."""


class Outlet(Protocol):
    """The connection for uploading images that are created here."""

    def file(self, name: str) -> AbstractContextManager[Path]:
        """Give a place for a copy; whatever is there afterwards is removed."""

    def send(self, path: Path, instance_uuid: str, image_id: str, stopped: Stopped) -> None:
        """Send a file as an image's data."""


@dataclass(frozen=True)
class Outside:
    """The parts of the host that volumes need."""

    images: Images
    outgoing: Outlet | None = None
    backups: BackupOutlet | None = None
    """None: this host sends no backups."""
    staging: Path = Path("/var/tmp/novella")  # noqa: S108 - for hosts that say no other
    """A folder with room for a volume that is put together from its backups."""


class Volumes:
    """The pools of one host.  Methods block and are called from worker threads; they raise HostError."""

    def __init__(self, drivers: Sequence[VolumeDriver], daemons: Daemons, outside: Outside) -> None:
        self.daemons = daemons
        self._outside = outside
        self.backups, self.staging = outside.backups, outside.staging
        self._watches = [PoolWatch(driver) for driver in drivers]
        self._mended: deque[str] = deque()
        self._moments: set[str] = set()
        self._open = OpenVolumes(daemons)

    # ----- pools ----------------------------------------------------------------------------------------------------

    def driver(self, pool_id: str) -> VolumeDriver:
        """Return the driver of a pool.  Raises PoolUnavailableError, also while the pool does not answer."""
        watch = self._watch(pool_id)
        if watch is None:
            self.states()
            watch = self._watch(pool_id)
        if watch is None:
            raise PoolUnavailableError("The volume's pool is not on this host now.")
        watch.check()
        return watch.driver

    def remote(self, pool_id: str) -> bool:
        """Return whether calls for the pool may wait long for other machines; without a query."""
        watch = self._watch(pool_id)
        return watch is not None and watch.driver.remote

    def pool_id(self, name: str) -> str:
        """Return the id of the pool that the host's settings name so.  Raises PoolUnavailableError."""
        for ask in (False, True):
            if ask:
                self.states()
            for watch in self._watches:
                if watch.driver.settings.name == name and watch.id:
                    return watch.id
        raise PoolUnavailableError(f"The pool {name} cannot be used on this host now.")

    def known_state(self, name: str) -> PoolState | None:
        """Return the last known state of the pool with this name in the host's settings; without a query."""
        return next((watch.known for watch in self._watches if watch.driver.settings.name == name), None)

    def _watch(self, pool_id: str) -> PoolWatch | None:
        return next((watch for watch in reversed(self._watches) if watch.id == pool_id), None)

    def states(self) -> list[PoolState]:
        """Say what every pool has; one that was never reached is left out, for its id is not known.

        Those that do not answer are waited for a few seconds.
        """
        for watch in self._watches:
            watch.ask()
        until = time.monotonic() + ANSWERS_WITHIN
        found = [watch.state(until) for watch in self._watches]
        waiting = self.daemons.without_key()
        return [
            replace(state, unserved=[each.id for each in waiting if each.pool_id == state.id]) if waiting else state
            for state in found
            if state is not None
        ]

    def warnings(self) -> list[str]:
        """Say which pools were not reached since the start, as of the last call of ``states``."""
        return [watch.trouble for watch in self._watches if watch.trouble]

    def contents(self, pool_id: str) -> PoolContents:
        """List what a pool has, and which daemons run for it here."""
        driver = self.driver(pool_id)
        described = {each.volume.id: each for each in self.daemons.descriptions() if each.volume.pool_id == pool_id}
        listed = {each.id: each for each in driver.contents()}
        for volume_id in described.keys() - listed.keys():
            listed[volume_id] = StoredVolume(id=volume_id, gone=True)
        found = []
        for volume_id, each in sorted(listed.items()):
            if volume_id.startswith(ROOT):  # a guest's: the servers' part of the host looks after it
                continue
            description = described.get(volume_id)
            clients = description.clients if description is not None else driver.clients(volume_id)
            names = [client.attachment_id for client in clients]
            daemon = self.daemons.runs(volume_id) if driver.daemons_needed else bool(clients)
            found.append(replace(each, attachments=names, daemon=daemon))
        return PoolContents(volumes=found)

    # ----- commands -------------------------------------------------------------------------------------------------

    def create(self, volume: VolumeSpec, source: VolumeSource, stopped: Stopped) -> None:
        """Create a volume; see ``CreateVolumeRequest``."""
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
        """Clone a snapshot; a volume that would read too many others gets a copy of all it reads."""
        driver.create_from_snapshot(volume, source_id, name)
        if driver.depth(volume.id) > MOST_DEPTH:
            with self.daemons.locked(volume.id):
                self._open.flatten(driver, volume, stopped, everything=True)

    def delete(self, volume: VolumeSpec) -> None:
        """End the volume's daemon and remove it."""
        with self.daemons.locked(volume.id):
            self.daemons.disconnect(volume.id)
            self.driver(volume.pool_id).delete(volume.id)
        self._look_for_layers(volume.pool_id)

    def kept_of(self, volume: VolumeSpec) -> int:
        """Return the bytes of a deleted volume that others need; 0 also where the pool cannot say."""
        try:
            return self.driver(volume.pool_id).kept().get(volume.id, 0)
        except HostError as error:
            log.info("Pool of volume %s: %s %s", volume.id, error.message, error.detail)
            return 0

    def _look_for_layers(self, pool_id: str) -> None:
        """Have the next check look for layers of deleted volumes that one volume alone reads."""
        watch = self._watch(pool_id)
        if watch is not None:
            watch.crowded = True

    def flatten(self, pool_id: str) -> None:
        """Copy what volumes alone read of several deleted volumes into them, each for a while."""
        watch = self._watch(pool_id)
        if watch is not None:
            self._open.flatten_lone(watch)

    def unmanaged(self, pool_id: str) -> list[UnmanagedDisk]:
        """List the unmanaged disks in a pool."""
        return self.driver(pool_id).unmanaged()

    def unmanage(self, volume: VolumeSpec, name: str, stopped: Stopped) -> None:
        """Leave a closed volume's data in its pool as an unmanaged disk."""
        driver = self.driver(volume.pool_id)
        if self.daemons.description(volume.id) is not None or driver.clients(volume.id):
            raise VolumeInUseError("The volume is in use.")

        def write(path: Path) -> None:
            name = moments.moment(driver, moments.UNMANAGED, volume.id)
            with self._moment(driver, volume, name, stopped):
                self.copy_out(volume, name, path, "qcow2", stopped)

        driver.leave(volume, name, write)

    def connect(self, volume: VolumeSpec, clients: Sequence[VolumeClient]) -> VolumeConnection | None:
        """Let exactly these clients open the volume; None when there are none."""
        driver = self.driver(volume.pool_id)
        with self.daemons.locked(volume.id):
            if not driver.daemons_needed:
                return self._pretend(driver, volume, clients)
            if not clients:
                self.daemons.disconnect(volume.id)
                return None
            return self.daemons.connect(driver, volume, clients)

    def _pretend(
        self, driver: VolumeDriver, volume: VolumeSpec, clients: Sequence[VolumeClient]
    ) -> VolumeConnection | None:
        size = driver.size(volume.id) if clients else 0
        driver.let_in(volume.id, clients)
        if not clients:
            return None
        export = exports.name_of(volume, clients, size // GIB)
        if all(client.local for client in clients):
            return VolumeConnection(export=export, socket=str(volume_connections.socket_of(SIMULATED, volume.id)))
        return VolumeConnection(export=export, port=SIMULATED_PORT, tls=True)

    def grow(self, volume: VolumeSpec) -> VolumeConnection | None:
        """Extend the volume; return the export with the new size when it is open."""
        driver = self.driver(volume.pool_id)
        with self.daemons.locked(volume.id):
            with self._open.opened(driver, volume.id) as daemon:
                driver.grow(volume, daemon)
            if not driver.daemons_needed:
                clients = driver.clients(volume.id)
                return self._pretend(driver, volume, clients) if clients else None
            return self.daemons.export_again(driver, volume)

    def snapshot(self, volume: VolumeSpec, snapshot_id: str) -> None:
        """Freeze what the volume has now."""
        driver = self.driver(volume.pool_id)
        with self.daemons.locked(volume.id), self._open.opened(driver, volume.id) as daemon:
            driver.snapshot(volume, snapshot_id, daemon)

    def delete_snapshot(self, volume: VolumeSpec, snapshot_id: str, stopped: Stopped) -> None:
        """Remove a snapshot."""
        driver = self.driver(volume.pool_id)
        with self.daemons.locked(volume.id), self._open.opened(driver, volume.id) as daemon:
            driver.delete_snapshot(volume, snapshot_id, daemon, stopped)
            if daemon is None:
                self._open.merge(driver, volume, stopped)
        self._look_for_layers(volume.pool_id)

    def revert(self, volume: VolumeSpec, snapshot_id: str) -> None:
        """Give a closed volume what its newest snapshot has."""
        with self.daemons.locked(volume.id):
            if self.daemons.description(volume.id) is not None:
                raise VolumeInUseError("The volume is in use.")
            self.driver(volume.pool_id).revert(volume, snapshot_id)

    def fetch(self, volume: VolumeSpec, origin: VolumeConnection, stopped: Stopped) -> None:
        """Create the volume as a copy of one that another host, or this one, exports for it.

        Raises ConnectionRefusedByHostError for an export that is not for this very copy.
        """
        driver = self.driver(volume.pool_id)
        volume_connections.check(origin, client_id=volume.id, sockets=self.daemons.sockets)
        driver.create(volume)
        if driver.daemons_needed:
            with self.daemons.locked(volume.id), self._written(driver, volume) as target:
                certificates, account = self.daemons.certificates, self.daemons.account
                copying.fetch(origin, certificates, target, driver.size(volume.id), stopped, account)

    def reimage(self, volume: VolumeSpec, image: ImageRef, subject_id: str, stopped: Stopped) -> None:
        """Replace the data of an unused volume with an image, which the command of ``subject_id`` can read."""
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
            raise UnsupportedError("This host sends no images.")
        name = moments.moment(driver, moments.IMAGE, request.image_id)
        with outgoing.file(request.image_id) as path:
            with self._moment(driver, volume, name, stopped):
                self.copy_out(volume, name, path, request.disk_format, stopped)
            outgoing.send(path, request.image_id, request.image_id, stopped)

    def copy_out(self, volume: VolumeSpec, snapshot_id: str, path: Path, disk_format: str, stopped: Stopped) -> None:
        """Write what a snapshot has to a new file."""
        driver = self.driver(volume.pool_id)
        opening = driver.snapshot_opening(volume, snapshot_id)
        with self.daemons.serving(snapshot_id, opening, read_only=True) as socket:
            source = copying.local(snapshot_id, socket)
            copying.to_file(source, path, disk_format, driver.size(volume.id), stopped, self.daemons.account)

    # ----- between commands -----------------------------------------------------------------------------------------

    def check(self) -> list[str]:
        """Start daemons again that have died; return a line for each that was found so by now."""
        dead: dict[PoolWatch | None, list[Description]] = {}
        for description in self.daemons.descriptions():
            if not self.daemons.runs(description.volume.id):
                dead.setdefault(self._watch(description.volume.pool_id), []).append(description)
        for watch, found in dead.items():
            if watch is None:
                self._mend(found)
            else:
                watch.mend(partial(self._mend, found))
        for watch in self._watches:
            watch.ask_again()
            if watch.crowded and watch.id and not watch.away:
                watch.flattening.start(partial(self._open.flatten_lone, watch))
        return [self._mended.popleft() for _ in range(len(self._mended))]

    def _mend(self, descriptions: Sequence[Description]) -> None:
        for volume_id in (each.volume.id for each in descriptions):
            try:
                with self.daemons.locked(volume_id, wait=False) as taken:
                    now = self.daemons.description(volume_id) if taken else None
                    if now is not None and self.daemons.mend(self.driver(now.volume.pool_id), now):
                        self._mended.append(f"the storage daemon of volume {volume_id} had ended")
            except HostError as error:
                log.warning("Volume %s is not served: %s %s", volume_id, error.message, error.detail)

    def sweep(self) -> None:
        """Remove what an agent that was killed has left; once, before commands are carried out.

        A pool that other machines serve is swept beside them.
        """
        luks.sweep()
        self.daemons.remember()
        self.daemons.sweep()
        for path in (path for name in UNFINISHED for path in self.staging.glob(f"{name}*")):
            path.unlink(missing_ok=True)
        self.states()
        self._clean(lambda driver: self._forget_moments(driver) + driver.sweep())

    def prune(self) -> None:
        """Remove the images of pools that no volume has needed for long, and look for layers to copy."""
        self._clean(lambda driver: driver.prune())
        for watch in self._watches:
            watch.crowded = True

    def _forget_moments(self, driver: VolumeDriver) -> list[str]:
        """Remove the snapshots for interrupted copies: a repeated copy creates a new one."""
        removed, until = [], time.monotonic() + MERGE_SECONDS
        pool_id = next(watch.id for watch in self._watches if watch.driver is driver)
        for volume_id, name in list(moments.left(driver)):
            description = self.daemons.description(volume_id)
            volume = VolumeSpec(id=volume_id, pool_id=pool_id, size_gb=0)
            volume = volume if description is None else description.volume
            try:
                with self.daemons.locked(volume_id):
                    if name in self._moments:  # it is made again by now
                        continue
                    with self._open.opened(driver, volume_id) as daemon:
                        driver.delete_snapshot(volume, name, daemon, lambda: time.monotonic() > until)
                removed.append(f"snapshot {name} of volume {volume_id}")
            except HostError as error:
                log.warning("Snapshot %s of volume %s stays: %s %s", name, volume_id, error.message, error.detail)
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
        """Freeze the volume for the time of the block."""
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
        """Let a program of this host write a closed volume; give it the URI."""
        held = driver.hold(volume.id)
        try:
            name = f"fetch-{volume.id}"
            with self.daemons.serving(name, driver.opening(volume), held, read_only=False) as socket:
                yield copying.local(name, socket)
        finally:
            for descriptor in held:
                os.close(descriptor)
