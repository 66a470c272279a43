"""The interface through which backups reach the portal's store."""

import abc
from typing import NamedTuple

import msgspec

from compute_agent.virt.driver import Stopped


class Progress(NamedTuple):
    """Progress of a copy: the bytes of the disk that are copied, and the total. Both are 0 if unknown."""

    bytes: int
    total: int


class SentBackup(msgspec.Struct, frozen=True):
    """Summary of a backup, sent after all chunks."""

    digests: list[str]  # SHA-256 of each chunk, hex, in order
    disk_bytes: int
    full: bool  # the backup does not depend on its parent


class StoredChunk(msgspec.Struct, frozen=True):
    """One chunk of a stored backup."""

    digest: str


class StoredBackup(msgspec.Struct, frozen=True):
    """Contents of a stored backup."""

    disk_bytes: int
    parent_id: str  # empty: a full backup
    chunks: list[StoredChunk]


class BackupOutlet(abc.ABC):
    """The portal's store of backups. The host has access while it runs a command for the backup.

    Each method waits while the portal is unavailable. It raises BackupTransferError if the portal refuses, and
    StoppedError if ``stopped`` returns True.
    """

    @abc.abstractmethod
    def send_chunk(self, backup_id: str, number: int, chunk: bytes, done: Progress, stopped: Stopped) -> str:
        """Store a chunk and return its digest. An existing chunk with this number is overwritten."""

    @abc.abstractmethod
    def seal(self, backup_id: str, sent: SentBackup, stopped: Stopped) -> None:
        """Report that all chunks have been sent."""

    @abc.abstractmethod
    def stored(self, backup_id: str, stopped: Stopped) -> StoredBackup:
        """Return the contents of a backup."""

    @abc.abstractmethod
    def chunk(self, backup_id: str, number: int, digest: str, done: Progress, stopped: Stopped) -> bytes:
        """Return a chunk exactly as it was sent."""
