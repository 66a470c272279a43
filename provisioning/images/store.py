"""The files of the image store: ``IMAGE_DIR/<image id>``; written as ``<image id>.part``, locked, synced and renamed.

The lock belongs to the open file, not to its name: whoever can take it knows that no upload is alive.
"""

from __future__ import annotations

import fcntl
import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from os import statvfs
from pathlib import Path
from typing import IO

from django.conf import settings

RESERVE = 512 << 20
"""Bytes that uploads leave free: the database may be on the same disk."""


def has_room(more: int = 0) -> bool:
    """Whether ``more`` bytes may be written beside what other uploads write."""
    room = statvfs(settings.IMAGE_DIR)
    return room.f_bavail * room.f_frsize >= more + RESERVE


def path_of(image_id: uuid.UUID) -> Path:
    """Return where the bits of an image are, or will be."""
    return Path(settings.IMAGE_DIR) / str(image_id)


def part_of(image_id: uuid.UUID) -> Path:
    """Return where an upload is written until it is known to be good."""
    return Path(settings.IMAGE_DIR) / f"{image_id}.part"


@contextmanager
def new_file(image_id: uuid.UUID) -> Iterator[IO[bytes]]:
    """Open the upload's file, locked while the block runs; gone afterwards unless ``publish`` renamed it."""
    folder = Path(settings.IMAGE_DIR)
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    part = part_of(image_id)
    with part.open("w+b") as file:
        part.chmod(0o600)
        fcntl.flock(file, fcntl.LOCK_EX)  # waits only for a glance of upload_is_alive
        try:
            yield file
        finally:
            part.unlink(missing_ok=True)


def publish(image_id: uuid.UUID, file: IO[bytes]) -> None:
    """Bring the written data safely to disk under its final name."""
    file.flush()
    os.fsync(file.fileno())
    part_of(image_id).replace(path_of(image_id))
    folder = os.open(settings.IMAGE_DIR, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def remove(image_id: uuid.UUID) -> None:
    """Remove an image's bits; whoever has them open reads on."""
    path_of(image_id).unlink(missing_ok=True)


def upload_is_alive(image_id: uuid.UUID) -> bool:
    """Whether some process is still writing this image."""
    for path in (part_of(image_id), path_of(image_id)):
        try:
            with path.open("rb") as file:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except FileNotFoundError:
            continue
        except BlockingIOError:
            return True
    return False


def discard(image_id: uuid.UUID) -> None:
    """Remove everything of an upload that died."""
    part_of(image_id).unlink(missing_ok=True)
    remove(image_id)
