"""Receives image data: hashes, inspects, limits and publishes it, for all kinds of uploads."""

import hashlib
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from django.conf import settings
from django.db import transaction

from compute_agent.disk_formats import inspection
from compute_agent.disk_formats.firmware import firmware_of
from compute_agent.disk_formats.reading import DiskFormatError
from provisioning.common.errors import GoneError, InvalidInputError, UnavailableError
from provisioning.images.data import store
from provisioning.images.errors import ImageContentError
from provisioning.images.models import Image
from provisioning.images.selectors.storage import storage_left
from provisioning.images.services.access import move
from provisioning.images.services.storage import hold_storage, too_large

HASH_ALGORITHM = "sha512"
PIECE = 1 << 20
Progress = Callable[[int], None]
"""Called with the number of bytes received so far; an exception ends the transfer."""

RAW = "raw"
"""The only format in which an empty file is a valid disk."""


@dataclass(frozen=True)
class Expected:
    """Requirements for the data."""

    disk_format: str
    limit: int
    """Maximum number of bytes."""
    size: int | None = None
    """Announced number of bytes."""
    may_be_empty: bool = False
    """Whether a raw image may be empty."""


def largest(project_id: uuid.UUID) -> int:
    """Return the maximum size in bytes of a project's next image: the limit of the service, or the unused quota if that
    is less.
    """
    left = storage_left(project_id)
    return int(settings.MAX_IMAGE_SIZE) if left is None else min(left, int(settings.MAX_IMAGE_SIZE))


def receive(
    file: IO[bytes],
    expected: Expected,
    chunks: Iterable[bytes],
    *,
    progress: Progress | None = None,
    keep: bool = True,
) -> dict[str, Any]:
    """Write the data to the file, and return the columns of the active image.

    ``keep`` False: the data is read from the file itself and only inspected. Raises ImageContentError, TooLargeError,
    UnavailableError, InvalidInputError.
    """
    md5, sha512 = hashlib.md5(usedforsecurity=False), hashlib.new(HASH_ALGORITHM)
    size = 0
    inspector = inspection.Inspector(_bounded(chunks, expected, keep=keep))
    for piece in inspector:
        size += len(piece)
        if keep:
            file.write(piece)
        md5.update(piece)
        sha512.update(piece)
        if progress is not None:
            progress(size)
    if not size and not (expected.may_be_empty and expected.disk_format == RAW):
        raise ImageContentError("Image content is empty.")
    check_announced(size, expected.size)
    file.flush()
    try:
        virtual_size = inspector.check(expected.disk_format, file, size) if size else 0
    except DiskFormatError as error:
        raise ImageContentError(f"Image content {error}.", field="disk_format") from None
    if size and not 0 < virtual_size <= settings.MAX_IMAGE_SIZE:
        msg = f"The virtual size of the image, {virtual_size} bytes, is not from 1 to {settings.MAX_IMAGE_SIZE}."
        raise ImageContentError(msg)
    return {
        "size": size,
        "virtual_size": virtual_size,
        "checksum": md5.hexdigest(),
        "os_hash_algo": HASH_ALGORITHM,
        "os_hash_value": sha512.hexdigest(),
        "found_firmware": firmware_of(expected.disk_format, file, virtual_size),
    }


def write(file: IO[bytes], limit: int, chunks: Iterable[bytes], expected_size: int | None) -> int:
    """Write the data without inspecting it; return its size in bytes. Raises the errors of ``receive``."""
    size = 0
    for piece in _bounded(chunks, Expected("", limit=limit, size=expected_size), keep=True):
        file.write(piece)
        size += len(piece)
    check_announced(size, expected_size)
    return size


def check_announced(size: int, announced: int | None) -> None:
    """Raise InvalidInputError if the size differs from the announced size."""
    if announced is not None and size != announced:
        msg = f"The size of the data, {size} bytes, is not the {announced} bytes that were announced."
        raise InvalidInputError(msg, field="size")


def publish(
    image_id: uuid.UUID,
    file: IO[bytes],
    facts: Mapping[str, Any],
    *,
    before: Image.Status,
    source: Path | None = None,
    also: Callable[[], None] | None = None,
) -> None:
    """Move the file to its final name and the record to ``active``, both or neither.

    ``source``: the file with the data; default: the file of the upload. ``also`` runs in the transaction of the record.
    Raises GoneError if the image was deleted, TooLargeError if other images have filled the project's storage
    concurrently.
    """
    try:
        store.publish(image_id, file, source)
        with transaction.atomic():
            hold_storage(image_id, int(facts["size"]))
            active = move(image_id, before, Image.Status.ACTIVE, **facts)
            if active and also is not None:
                also()
    except FileNotFoundError:  # staged data is deleted with its image
        raise _gone(image_id) from None
    except BaseException:
        store.remove(image_id)
        raise
    if not active:
        store.remove(image_id)
        raise _gone(image_id)


def pieces(file: IO[bytes]) -> Iterator[bytes]:
    """Yield the data of a file from its current position."""
    while piece := file.read(PIECE):
        yield piece


def _gone(image_id: uuid.UUID) -> GoneError:
    msg = f"Image {image_id} could not be found after upload. The image may have been deleted during the upload."
    return GoneError(msg)


def _bounded(chunks: Iterable[bytes], expected: Expected, *, keep: bool) -> Iterator[bytes]:
    """Yield the data. Raises TooLargeError beyond ``expected.limit``, UnavailableError if the store has no space."""
    size = 0
    if keep:
        check_room(expected.size or 0)
    if expected.size is not None and expected.size > expected.limit:
        raise too_large(expected.limit)
    for chunk in chunks:
        size += len(chunk)
        if size > expected.limit:
            raise too_large(expected.limit)
        if keep:
            check_room(len(chunk))
        yield chunk


def check_room(more: int) -> None:
    """Raise UnavailableError if the store has no space for ``more`` bytes."""
    if not store.has_room(more):
        raise UnavailableError(store.NO_ROOM)
