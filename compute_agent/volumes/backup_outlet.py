"""What backups need of the way to the portal's store."""

import abc
from typing import NamedTuple

import msgspec

from compute_agent.virt.driver import Stopped


class Progress(NamedTuple):
    """How far a copy is: bytes of the disk done, and of how many; 0 of 0: nothing is said."""

    bytes: int
    total: int


class SentBackup(msgspec.Struct, frozen=True):
    """What the portal is told when it has all chunks."""

    digests: list[str]  # SHA-256 of each chunk, hex, in order
    disk_bytes: int
    full: bool  # nothing of its parent is needed


class StoredChunk(msgspec.Struct, frozen=True):
    """One chunk of a stored backup."""

    digest: str


class StoredBackup(msgspec.Struct, frozen=True):
    """What a stored backup consists of."""

    disk_bytes: int
    parent_id: str  # empty: it is full
    chunks: list[StoredChunk]


class BackupOutlet(abc.ABC):
    """The portal's store of backups, as a host that holds the command sees it.

    Each method waits while the portal is away, raises BackupTransferError when it refuses, StoppedError when
    ``stopped`` returns True.
    """

    @abc.abstractmethod
    def send_chunk(self, backup_id: str, number: int, chunk: bytes, done: Progress, stopped: Stopped) -> str:
        """Store a chunk; return its digest.  One that is there already is written again."""

    @abc.abstractmethod
    def seal(self, backup_id: str, sent: SentBackup, stopped: Stopped) -> None:
        """Say that all chunks are sent."""

    @abc.abstractmethod
    def stored(self, backup_id: str, stopped: Stopped) -> StoredBackup:
        """Return what a backup consists of."""

    @abc.abstractmethod
    def chunk(self, backup_id: str, number: int, digest: str, done: Progress, stopped: Stopped) -> bytes:
        """Return a chunk as it was sent."""
