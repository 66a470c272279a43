"""The upload of an image's data, and what is left of one that died."""

from __future__ import annotations

import datetime
import hashlib
import logging
import uuid
from collections.abc import Iterable, Mapping
from typing import IO, Any

from django.conf import settings
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError, TooLargeError, UnavailableError
from provisioning.images import inspection, store
from provisioning.images.errors import ImageContentError
from provisioning.images.models import Image
from provisioning.images.services.access import move, owned

log = logging.getLogger(__name__)
HASH_ALGORITHM = "sha512"
SETTLE_TIME = 60
"""Seconds an upload has to open its file before it may be thought dead."""


def upload(
    context: RequestContext, image_id: str | uuid.UUID, chunks: Iterable[bytes], *, expected_size: int | None = None
) -> Image:
    """Take the data of a ``queued`` image, as a stream and with constant memory, and make it ``active``.

    1. queued → saving by conditional update, so that one of two uploads gets it; 2. write to a file beside, hashing and
    inspecting on the way; 3. judge format, safety and size; 4. sync and rename; 5. saving → active by conditional
    update.
    Whatever fails in between: no file, and the record is ``queued`` again.  Not to be called in a transaction.

    Raises NotFoundError, ConflictError (has data, or is being uploaded), ImageContentError, TooLargeError,
    UnavailableError (no room), InvalidInputError (formats not set, ``expected_size`` bytes not met) and whatever
    ``chunks`` raises.
    """
    image = owned(context, image_id)
    if not image.disk_format or not image.container_format:
        msg = "Properties disk_format, container_format must be set prior to saving data."
        raise InvalidInputError(msg, field="disk_format")
    if not move(image.id, Image.Status.QUEUED, Image.Status.SAVING):
        msg = f"Image status transition from {image.status} to saving is not allowed"
        raise ConflictError(msg)
    try:
        with store.new_file(image.id) as file:
            facts = _receive(file, image.disk_format, chunks, expected_size)
            _publish(image.id, file, facts)
    except BaseException:
        move(image.id, Image.Status.SAVING, Image.Status.QUEUED)
        raise
    image.refresh_from_db()
    return image


def recover_interrupted_uploads() -> int:
    """Make images ``queued`` again whose upload died with its process; return how many.  For a periodic job."""
    settled = timezone.now() - datetime.timedelta(seconds=SETTLE_TIME)
    recovered = 0
    for image in Image.objects.filter(status=Image.Status.SAVING, updated_at__lt=settled):
        if store.upload_is_alive(image.id):
            continue
        store.discard(image.id)
        recovered += move(image.id, Image.Status.SAVING, Image.Status.QUEUED)
        log.warning("The upload of image %s had died; the image is queued again.", image.id)
    return recovered


def _receive(file: IO[bytes], disk_format: str, chunks: Iterable[bytes], expected_size: int | None) -> dict[str, Any]:
    """Write the data, and return what is known of it: the columns of an active image."""
    md5, sha512 = hashlib.md5(usedforsecurity=False), hashlib.new(HASH_ALGORITHM)
    size = 0
    _check_room(expected_size or 0)
    inspector = inspection.Inspector(chunks)
    for piece in inspector:
        size += len(piece)
        _check_room(len(piece))
        if size > settings.MAX_IMAGE_SIZE:
            msg = f"The image is larger than the {settings.MAX_IMAGE_SIZE} bytes that are allowed."
            raise TooLargeError(msg)
        file.write(piece)
        md5.update(piece)
        sha512.update(piece)
    if not size:
        msg = "Image content is empty."
        raise ImageContentError(msg)
    if expected_size is not None and size != expected_size:
        msg = f"The size of the data, {size} bytes, is not the {expected_size} bytes that were announced."
        raise InvalidInputError(msg, field="size")
    virtual_size = inspector.check(disk_format)
    file.flush()
    inspection.check_structure(file, size, disk_format)
    if virtual_size is not None and not 0 < virtual_size <= settings.MAX_IMAGE_SIZE:
        msg = f"The virtual size of the image, {virtual_size} bytes, is not from 1 to {settings.MAX_IMAGE_SIZE}."
        raise ImageContentError(msg)
    return {
        "size": size,
        "virtual_size": size if virtual_size is None else virtual_size,
        "checksum": md5.hexdigest(),
        "os_hash_algo": HASH_ALGORITHM,
        "os_hash_value": sha512.hexdigest(),
    }


def _check_room(more: int) -> None:
    if not store.has_room(more):
        raise UnavailableError("There is no room for the image now. Tell your operator.")


def _publish(image_id: uuid.UUID, file: IO[bytes], facts: Mapping[str, Any]) -> None:
    """Bring file and record to their final state, both or none."""
    try:
        store.publish(image_id, file)
        active = move(image_id, Image.Status.SAVING, Image.Status.ACTIVE, **facts)
    except BaseException:
        store.remove(image_id)
        raise
    if not active:
        store.remove(image_id)
        msg = f"Image {image_id} was deleted while its data was uploaded."
        raise NotFoundError(msg)
