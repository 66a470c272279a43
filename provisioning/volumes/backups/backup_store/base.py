"""The interface of backup stores, and their errors."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import datetime
from typing import ClassVar, NamedTuple

from provisioning.common.errors import NovellaError, UnavailableError


class StoredObject(NamedTuple):
    """One object of a folder."""

    name: str  # without the folder
    size: int  # bytes
    modified_at: datetime


class ObjectMissingError(NovellaError):
    """The object does not exist."""

    code = "backup_object_missing"


class StoreUnavailableError(UnavailableError):
    """The store is not reachable, or cannot read or write the object now."""


class StoreFullError(NovellaError):
    """The store has no free space."""

    code = "backup_store_full"


class ObjectStore(ABC):
    """Stores objects of a few MiB in folders, one for each backup.  Used by threads of several processes.

    All methods raise StoreUnavailableError if the store is not reachable; the reason is only logged.
    """

    service: ClassVar[str]
    """The value of ``Backup.service``: ``folder`` or ``s3``."""

    @abstractmethod
    def container(self) -> str:
        """Return the value of ``Backup.container``: the directory or the bucket."""

    @abstractmethod
    def put(self, folder: str, name: str, data: bytes) -> None:
        """Store an object atomically and durably.  Raises StoreFullError."""

    @abstractmethod
    def get(self, folder: str, name: str) -> bytes:
        """Return the data of an object.  Raises ObjectMissingError."""

    @abstractmethod
    def objects(self, folder: str) -> list[StoredObject]:
        """Return the objects of a folder; empty if the folder does not exist."""

    @abstractmethod
    def remove(self, folder: str, names: Iterable[str]) -> None:
        """Remove objects, and the folder when it is empty. Missing objects are ignored."""

    @abstractmethod
    def folders(self) -> list[str]:
        """Return the names of all folders."""
