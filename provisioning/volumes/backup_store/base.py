"""The contract of stores, and what they raise."""

from abc import ABC, abstractmethod
from collections.abc import Iterable
from datetime import datetime
from typing import ClassVar, NamedTuple

from provisioning.common.errors import NovellaError, UnavailableError


class StoredObject(NamedTuple):
    """One object of a folder."""

    name: str  # without its folder's
    size: int  # bytes
    modified_at: datetime


class ObjectMissingError(NovellaError):
    """There is no such object."""

    code = "backup_object_missing"


class StoreUnavailableError(UnavailableError):
    """The store does not answer, or does not take or give the object now."""


class StoreFullError(NovellaError):
    """The store has no room."""

    code = "backup_store_full"


class ObjectStore(ABC):
    """Keeps objects of a few MiB in folders, one for each backup.  Used from threads of several processes at once.

    Each method raises StoreUnavailableError when the store cannot be asked; how it is reached stays in the log.
    """

    service: ClassVar[str]
    """What ``Backup.service`` says: ``folder`` or ``s3``."""

    @abstractmethod
    def container(self) -> str:
        """Return what ``Backup.container`` says: the folder, or the bucket."""

    @abstractmethod
    def put(self, folder: str, name: str, data: bytes) -> None:
        """Keep an object, whole or not at all; it survives a power failure.  Raises StoreFullError."""

    @abstractmethod
    def get(self, folder: str, name: str) -> bytes:
        """Return an object.  Raises ObjectMissingError."""

    @abstractmethod
    def objects(self, folder: str) -> list[StoredObject]:
        """Return what a folder has; nothing when there is none."""

    @abstractmethod
    def remove(self, folder: str, names: Iterable[str]) -> None:
        """Remove objects, and the folder with its last one; those that are not there are no error."""

    @abstractmethod
    def folders(self) -> list[str]:
        """Return the names of all folders."""
