"""The volumes of a host's pools as sources and targets of backups. A storage daemon reads and writes their data.

The snapshot of a backup, ``backup-<id>``, is kept until the next backup, so that the driver can return the changes
since then (``VolumeDriver.changes``). The snapshot of an incremental backup's parent is also kept: after the newest
backup is deleted, the next one contains the changes since the parent.
"""

import logging
import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from compute_agent.contract.volume import VolumeSpec
from compute_agent.disk_formats.extents import Extent
from compute_agent.virt.driver import Stopped, never
from compute_agent.virt.errors import HostError
from compute_agent.volumes.backups.backup_sources import BackupSource, BackupSpec, VolumeCopies, whole
from compute_agent.volumes.backups.nbd_reader import NbdReader
from compute_agent.volumes.copies import copying
from compute_agent.volumes.driver import VolumeDriver
from compute_agent.volumes.errors import CopyFailedError, VolumeNotFoundError
from compute_agent.volumes.services import Volumes

log = logging.getLogger(__name__)

MOMENT = "backup-"
NOT_KEPT = "The changes since the previous backup are no longer known."


def moment_of(backup_id: str) -> str:
    """Return the name of a backup's snapshot."""
    return f"{MOMENT}{backup_id}"


class PoolCopies(VolumeCopies):
    """The volumes of this host's pools."""

    def __init__(self, volumes: Volumes, staging: Path) -> None:
        """``staging``: a directory with space for a whole volume."""
        self._volumes, self._staging = volumes, staging

    @contextmanager
    def freeze(self, volume: VolumeSpec, requested: BackupSpec, stopped: Stopped) -> Iterator[BackupSource]:
        driver = self._volumes.driver(volume.pool_id)
        since = moment_of(requested.parent_id) if requested.parent_id else ""
        if since and since not in _snapshots(driver, volume.id):
            since = ""
        moment = requested.snapshot_id or moment_of(requested.backup_id)
        try:
            if not requested.snapshot_id:
                self._volumes.snapshot(volume, moment)
            with ExitStack() as held:
                since, found = _changes(driver, volume, moment, since)
                reason = NOT_KEPT if requested.parent_id and not since else ""
                size, read = driver.size(volume.id), _nothing
                if driver.daemons_needed:
                    name, opening = moment_of(requested.backup_id), driver.snapshot_opening(volume, moment)
                    path = held.enter_context(self._volumes.daemons.serving(name, opening, read_only=True))
                    reader = held.enter_context(NbdReader(path, name))
                    size, read = reader.size, reader.read
                yield BackupSource(size, found if since else whole(found, size), read, not since, reason)
        except BaseException:
            if not requested.snapshot_id:
                self._forget(volume, moment)
            raise

    def backed_up(self, volume: VolumeSpec, requested: BackupSpec) -> None:
        if requested.snapshot_id:
            return
        driver = self._volumes.driver(volume.pool_id)
        kept = {moment_of(requested.backup_id), moment_of(requested.parent_id)}
        for name in _snapshots(driver, volume.id):
            if name.startswith(MOMENT) and name not in kept:
                self._forget(volume, name)

    def overwrite(self, volume: VolumeSpec, content: Path, stopped: Stopped) -> None:
        driver = self._volumes.driver(volume.pool_id)
        size, content_size = driver.size(volume.id), content.stat().st_size
        if content_size > size:
            raise CopyFailedError("The backup is larger than the volume.", detail=f"{content_size} > {size}")
        os.truncate(content, size)
        if not driver.daemons_needed:
            return
        name = f"restore-{volume.id}"
        with self._volumes.daemons.locked(volume.id), ExitStack() as stack:
            held = driver.hold(volume.id)
            for descriptor in held:
                stack.callback(os.close, descriptor)
            serving = self._volumes.daemons.serving(name, driver.opening(volume), held, read_only=False)
            target = copying.local(name, stack.enter_context(serving))
            copying.file_over(content, target, stopped, self._volumes.daemons.account)

    def staging(self, volume: VolumeSpec) -> Path:
        self._staging.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._staging

    def _forget(self, volume: VolumeSpec, moment: str) -> None:
        """Remove the snapshot of a backup. A snapshot that cannot be removed now is removed by the next backup."""
        try:
            self._volumes.delete_snapshot(volume, moment, never)
        except HostError as error:
            log.warning(
                "The snapshot %s of volume %s was not removed: %s %s", moment, volume.id, error.message, error.detail
            )


def _snapshots(driver: VolumeDriver, volume_id: str) -> list[str]:
    for stored in driver.contents():
        if stored.id == volume_id:
            return list(stored.snapshots)
    raise VolumeNotFoundError


def _changes(driver: VolumeDriver, volume: VolumeSpec, moment: str, since: str) -> tuple[str, list[Extent]]:
    """Return the snapshot that the changes are relative to, and the changes.

    If the volume does not derive from the snapshot ``since`` (because it was reverted), return "" and all data.
    """
    if since:
        try:
            return since, [Extent(*each) for each in driver.changes(volume, moment, since)]
        except VolumeNotFoundError as error:
            log.warning("The changes of volume %s since %s are not known: %s", volume.id, since, error.message)
    return "", [Extent(*each) for each in driver.changes(volume, moment)]


def _nothing(offset: int, length: int, /) -> bytes:
    """Read from a simulated volume, which contains only zeros."""
    return bytes(length)
