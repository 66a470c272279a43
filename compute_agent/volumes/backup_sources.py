"""What backups need of a volume's pool: its data as it was at one moment, and a way to write it back."""

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
    """In rising order: of a full copy all of the disk, else what has changed since the parent."""
    read: Read
    full: bool = True
    """Whether nothing of the parent is needed."""
    reason: str = ""
    """Why it is full although what has changed was asked for."""


@dataclass(frozen=True)
class WantedBackup:
    """What is to be copied of a volume."""

    backup_id: str
    parent_id: str = ""  # only what has changed since then, if that is known for sure
    snapshot_id: str = ""  # what this snapshot has


class VolumeCopies(abc.ABC):
    """The volumes of a host's pools, as backups see them.  Called in worker threads."""

    @abc.abstractmethod
    def freeze(
        self, volume: VolumeSpec, wanted: WantedBackup, stopped: Stopped
    ) -> AbstractContextManager[BackupSource]:
        """Freeze the volume's data, in use or not, and keep the moment for later backups.

        It is not kept when the block raises.  What an earlier run for the same backup has left does not matter.
        """

    @abc.abstractmethod
    def backed_up(self, volume: VolumeSpec, wanted: WantedBackup) -> None:
        """Hear that the portal has the backup: moments that were kept for others are given up."""

    @abc.abstractmethod
    def overwrite(self, volume: VolumeSpec, content: Path, stopped: Stopped) -> None:
        """Give a volume that nobody has open the content of a raw file; what it has beyond its end reads as zeros."""

    @abc.abstractmethod
    def staging(self, volume: VolumeSpec) -> Path:
        """Return a folder of this host where the whole volume has room for a while."""


def whole(extents: Sequence[Extent], disk_bytes: int) -> list[Extent]:
    """Return the extents with what lies between them as zeros."""
    found, at = list[Extent](), 0
    for extent in extents:
        if extent.offset > at:
            found.append(Extent(at, extent.offset - at, zero=True))
        found.append(extent)
        at = extent.offset + extent.length
    if at < disk_bytes:
        found.append(Extent(at, disk_bytes - at, zero=True))
    return found
