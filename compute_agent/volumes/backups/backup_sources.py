"""The interface of backups to a volume's pool: it provides consistent data to read, and restores data."""

import abc
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from compute_agent.contract.volume import VolumeSpec
from compute_agent.disk_formats.extents import Extent
from compute_agent.virt.driver import Stopped


class Read(Protocol):
    """Reads from a disk."""

    def __call__(self, offset: int, length: int, /) -> bytes: ...


@dataclass(frozen=True)
class BackupSource:
    """A volume's data at one moment, decrypted."""

    disk_bytes: int
    extents: Sequence[Extent]
    """In ascending order: the whole disk for a full copy, else the changes since the parent."""
    read: Read
    full: bool = True
    """Whether the backup is independent of its parent."""
    reason: str = ""
    """The reason for a full copy although changes were requested."""


@dataclass(frozen=True)
class BackupSpec:
    """The requested backup of a volume."""

    backup_id: str
    parent_id: str = ""  # only changes since this backup, if they are known
    snapshot_id: str = ""  # back up this snapshot; empty: the current data


class VolumeCopies(abc.ABC):
    """The volumes of a host's pools, as backups see them. The methods are called in worker threads."""

    @abc.abstractmethod
    def freeze(
        self, volume: VolumeSpec, requested: BackupSpec, stopped: Stopped
    ) -> AbstractContextManager[BackupSource]:
        """Freeze the data of a volume, in use or not, and keep the snapshot for later backups.

        The snapshot is not kept if the block raises. Remains of an earlier run for the same backup are ignored.
        """

    @abc.abstractmethod
    def backed_up(self, volume: VolumeSpec, requested: BackupSpec) -> None:
        """Delete the snapshots of all backups except this one and its parent. Called when the portal has the backup."""

    @abc.abstractmethod
    def overwrite(self, volume: VolumeSpec, content: Path, stopped: Stopped) -> None:
        """Overwrite a volume that is not open with a raw file; the rest of the volume reads as zeros."""

    @abc.abstractmethod
    def staging(self, volume: VolumeSpec) -> Path:
        """Return a directory of this host with space for the whole volume."""


def whole(extents: Sequence[Extent], disk_bytes: int) -> list[Extent]:
    """Return the extents with zero extents for the gaps between them."""
    result, at = list[Extent](), 0
    for extent in extents:
        if extent.offset > at:
            result.append(Extent(at, extent.offset - at, zero=True))
        result.append(extent)
        at = extent.offset + extent.length
    if at < disk_bytes:
        result.append(Extent(at, disk_bytes - at, zero=True))
    return result
