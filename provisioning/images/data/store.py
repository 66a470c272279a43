"""The files of the image store: ``IMAGE_DIR/<image id>``, written as ``<image id>.part``, locked, synced and renamed.

Data that waits for its import is ``<image id>.staged``, data of an upload in parts ``<image id>.arriving``. The lock
belongs to the open file, not to its name: a process that gets the lock knows that no other process writes or imports
the data.
"""

import errno
import fcntl
import os
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from os import statvfs
from pathlib import Path
from typing import IO

from django.conf import settings

from provisioning.common.errors import ConflictError, UnavailableError

RESERVE = 512 << 20
"""Bytes that uploads leave free, because the database may be on the same disk."""
FULL = frozenset({errno.ENOSPC, errno.EDQUOT, errno.EFBIG})
NO_ROOM = "There is not enough space for the image now. Contact your operator."
CLAIM_TRIES, CLAIM_PAUSE = 20, 0.05
"""Number of attempts to lock a file, and seconds between them: another process may have it locked for a moment."""


def has_room(more: int = 0) -> bool:
    """Return whether the disk has space for ``more`` bytes besides ``RESERVE``. Creates the directory if needed."""
    folder = Path(settings.IMAGE_DIR)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)  # a new cloud has no directory yet
    room = statvfs(folder)
    return room.f_bavail * room.f_frsize >= more + RESERVE


def path_of(image_id: uuid.UUID) -> Path:
    """Return the final path of an image's data."""
    return Path(settings.IMAGE_DIR) / str(image_id)


def is_whole(image_id: uuid.UUID) -> bool:
    """Return whether an image's data is complete, whatever its record: only complete files have their final name."""
    return path_of(image_id).exists()


def part_of(image_id: uuid.UUID) -> Path:
    """Return the path of an upload that is not finished."""
    return Path(settings.IMAGE_DIR) / f"{image_id}.part"


def staged_of(image_id: uuid.UUID) -> Path:
    """Return the path of data that waits for its import."""
    return Path(settings.IMAGE_DIR) / f"{image_id}.staged"


def arriving_of(image_id: uuid.UUID) -> Path:
    """Return the path of the data of an upload in parts."""
    return Path(settings.IMAGE_DIR) / f"{image_id}.arriving"


@contextmanager
def new_file(image_id: uuid.UUID) -> Iterator[IO[bytes]]:
    """Open the file of an upload, locked during the block. It is deleted afterwards unless it was renamed.

    Raises ConflictError if another process writes it, UnavailableError if the disk is full.
    """
    part = part_of(image_id)
    with _while_it_fits(), _claimed(part, os.O_RDWR | os.O_CREAT) as file:
        file.truncate(0)
        try:
            yield file
        finally:
            part.unlink(missing_ok=True)


@contextmanager
def staged_file(image_id: uuid.UUID) -> Iterator[IO[bytes]]:
    """Open staged data, locked during the block.

    Raises FileNotFoundError if there is none, ConflictError if another process imports it.
    """
    with _claimed(staged_of(image_id), os.O_RDWR) as file:
        yield file


@contextmanager
def arriving_file(image_id: uuid.UUID, *, create: bool = False) -> Iterator[IO[bytes]]:
    """Open the data of an upload in parts, locked during the block. The file is kept.

    Raises FileNotFoundError if there is none, ConflictError if another process writes it, UnavailableError if the disk
    is full.
    """
    flags = os.O_RDWR | (os.O_CREAT if create else 0)
    with _while_it_fits(), _claimed(arriving_of(image_id), flags) as file:
        yield file


@contextmanager
def _while_it_fits() -> Iterator[None]:
    """Convert errors of a full file system to the error that ``check_room`` raises."""
    try:
        Path(settings.IMAGE_DIR).mkdir(parents=True, exist_ok=True, mode=0o700)
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise UnavailableError(NO_ROOM) from error


@contextmanager
def _claimed(path: Path, flags: int) -> Iterator[IO[bytes]]:
    """Open and lock a file without truncating it. Raises ConflictError if another process has the lock."""
    for _ in range(CLAIM_TRIES):
        with os.fdopen(os.open(path, flags | os.O_CLOEXEC, 0o600), "r+b") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                mine = path.stat().st_ino == os.fstat(file.fileno()).st_ino
            except (BlockingIOError, FileNotFoundError):
                mine = False
            if mine:
                yield file
                return
        time.sleep(CLAIM_PAUSE)
    raise ConflictError("The data of this image is already being written.")


def stage(image_id: uuid.UUID, file: IO[bytes]) -> None:
    """Rename the file of an upload, which becomes the staged file."""
    file.flush()
    part_of(image_id).replace(staged_of(image_id))


def publish(image_id: uuid.UUID, file: IO[bytes], source: Path | None = None) -> None:
    """Sync the data of the open file to disk and rename it to its final name.

    ``source``: the path of the file; default: the ``.part`` file of an upload.
    """
    file.flush()
    os.fsync(file.fileno())
    (source or part_of(image_id)).replace(path_of(image_id))
    folder = os.open(settings.IMAGE_DIR, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove(image_id: uuid.UUID) -> None:
    """Remove the data of an image, also staged data. Processes that have it open can finish reading."""
    path_of(image_id).unlink(missing_ok=True)
    remove_waiting(image_id)


def remove_waiting(image_id: uuid.UUID) -> None:
    """Remove data that waits for its import or for its next part."""
    staged_of(image_id).unlink(missing_ok=True)
    arriving_of(image_id).unlink(missing_ok=True)


def is_waiting(image_id: uuid.UUID) -> bool:
    """Return whether there is data that waits for its import or for its next part."""
    return staged_of(image_id).exists() or arriving_of(image_id).exists()


def upload_is_alive(image_id: uuid.UUID) -> bool:
    """Return whether a process is writing or importing the image."""
    for path in (part_of(image_id), staged_of(image_id), arriving_of(image_id), path_of(image_id)):
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            continue
        except BlockingIOError:
            return True
    return False


def discard(image_id: uuid.UUID) -> None:
    """Remove all data of an interrupted upload."""
    part_of(image_id).unlink(missing_ok=True)
    remove(image_id)


def unfinished() -> list[tuple[uuid.UUID, Path]]:
    """Return the files without a final name, with their images' ids."""
    result = []
    for path in Path(settings.IMAGE_DIR).glob("*.*"):
        if path.suffix in {".part", ".staged", ".arriving"}:
            with suppress(ValueError):
                result.append((uuid.UUID(path.stem), path))
    return result
