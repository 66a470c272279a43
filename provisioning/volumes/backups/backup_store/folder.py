"""Backups in a directory of this machine, or one that all machines of the cloud have mounted."""

import logging
import os
import secrets
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from errno import EDQUOT, ENOSPC
from pathlib import Path

from provisioning.volumes.backups.backup_store.base import (
    ObjectMissingError,
    ObjectStore,
    StoredObject,
    StoreFullError,
    StoreUnavailableError,
)

log = logging.getLogger(__name__)

RESERVE = 512 << 20
"""Bytes that backups leave free, because the database may be on the same disk."""
UNFINISHED = ".part"


class FolderStore(ObjectStore):
    """``ROOT/<folder>/<name>``, written to a temporary file, synced and renamed."""

    service = "folder"

    def __init__(self, root: Path) -> None:
        self._root = root

    def container(self) -> str:
        return self._root.name

    def put(self, folder: str, name: str, data: bytes) -> None:
        place = self._root / folder
        part = place / f"{name}.{secrets.token_hex(4)}{UNFINISHED}"
        with _translated_errors():
            place.mkdir(parents=True, exist_ok=True, mode=0o700)
            if shutil.disk_usage(self._root).free < len(data) + RESERVE:
                raise StoreFullError("There is no space left for backups.")
            try:
                part.touch(mode=0o600, exist_ok=False)
                with part.open("wb") as file:
                    file.write(data)
                    file.flush()
                    os.fsync(file.fileno())
                part.replace(place / name)
            except BaseException:
                part.unlink(missing_ok=True)
                raise
            _sync(place)

    def get(self, folder: str, name: str) -> bytes:
        with _translated_errors():
            try:
                return (self._root / folder / name).read_bytes()
            except FileNotFoundError as error:
                raise ObjectMissingError("A part of the backup is missing in its store.") from error

    def objects(self, folder: str) -> list[StoredObject]:
        result = []
        with _translated_errors(), suppress(FileNotFoundError):
            for path in sorted((self._root / folder).iterdir()):
                with suppress(FileNotFoundError):
                    status = path.stat()
                    result.append(
                        StoredObject(path.name, status.st_size, datetime.fromtimestamp(status.st_mtime, tz=UTC))
                    )
        return result

    def remove(self, folder: str, names: Iterable[str]) -> None:
        place = self._root / folder
        with _translated_errors():
            for name in names:
                (place / name).unlink(missing_ok=True)
            with suppress(OSError):  # the folder is not empty, or already removed
                place.rmdir()

    def folders(self) -> list[str]:
        with _translated_errors(), suppress(FileNotFoundError):
            return sorted(path.name for path in self._root.iterdir() if path.is_dir())
        return []


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _translated_errors() -> Iterator[None]:
    """Convert errors of the operating system to errors of the store."""
    try:
        yield
    except OSError as error:
        log.warning("Backup directory: %s", error)
        if error.errno in {ENOSPC, EDQUOT}:
            raise StoreFullError("There is no space left for backups.") from error
        raise StoreUnavailableError("The backup store is not available now.") from error
