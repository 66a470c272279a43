"""Everything that writes images: the record, the upload, the end."""

from __future__ import annotations

import datetime
import hashlib
import logging
import uuid
from collections.abc import Iterable, Mapping
from typing import IO, Any

from django.conf import settings
from django.db import IntegrityError, transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotFoundError,
    TooLargeError,
    UnavailableError,
)
from provisioning.identity import policy, presence
from provisioning.images import inspection, store
from provisioning.images.errors import ImageContentError
from provisioning.images.models import Image
from provisioning.images.records import check_values
from provisioning.images.selectors import image_for

log = logging.getLogger(__name__)
HASH_ALGORITHM = "sha512"
SETTLE_TIME = 60
"""Seconds an upload has to open its file before it may be thought dead."""


def create(context: RequestContext, *, image_id: uuid.UUID | None = None, **values: Any) -> Image:
    """Make a record without data, ``queued``.

    ``values``: any of ``records.FIELDS``; ``min_disk`` in GiB, ``min_ram`` in MiB.  Raises InvalidInputError,
    ForbiddenError, ConflictError when the id is taken, NotFoundError when the project went.
    """
    if context.project_id is None:
        msg = "An image needs a project to belong to."
        raise ForbiddenError(msg)
    checked = check_values(context, values)
    try:
        with transaction.atomic():
            presence.hold_project(context.project_id)
            return Image.objects.create(id=image_id or uuid.uuid4(), project_id=context.project_id, **checked)
    except IntegrityError:
        msg = f"Image ID {image_id} already exists!"
        raise ConflictError(msg, field="id") from None


def update(context: RequestContext, image_id: str | uuid.UUID, values: Mapping[str, Any]) -> Image:
    """Change fields of a record; ``tags`` and ``properties`` are replaced whole.

    Raises NotFoundError, InvalidInputError, ForbiddenError.
    """
    with transaction.atomic():
        image = _owned(context, image_id, lock=True)
        checked = check_values(context, values, image)
        for name, value in checked.items():
            setattr(image, name, value)
        image.save(update_fields=[*checked, "updated_at"])
    return image


def set_tag(context: RequestContext, image_id: str | uuid.UUID, tag: str, *, present: bool) -> None:
    """Add or remove one tag.  Removing one that is not there raises NotFoundError."""
    with transaction.atomic():
        image = _owned(context, image_id, lock=True)
        if not present and tag not in image.tags:
            msg = f"The tag {tag} could not be found on image {image_id}."
            raise NotFoundError(msg)
        tags = {*image.tags, tag} if present else set(image.tags) - {tag}
        update(context, image.id, {"tags": sorted(tags)})


def delete(context: RequestContext, image_id: str | uuid.UUID) -> None:
    """End an image; its bits go when the transaction has committed.

    A guest that runs keeps its disk, and a host that is reading the bits reads to their end.  Raises NotFoundError,
    ForbiddenError when the image is protected.
    """
    with transaction.atomic():
        image = _owned(context, image_id, lock=True)
        if image.protected:
            msg = f"Image {image.id} is protected and cannot be deleted."
            raise ForbiddenError(msg)
        now = timezone.now()
        Image.objects.filter(pk=image.pk).update(status=Image.Status.DELETED, deleted_at=now, updated_at=now)
        transaction.on_commit(lambda: store.remove(image.id))


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
    image = _owned(context, image_id)
    if not image.disk_format or not image.container_format:
        msg = "Properties disk_format, container_format must be set prior to saving data."
        raise InvalidInputError(msg, field="disk_format")
    if not _move(image.id, Image.Status.QUEUED, Image.Status.SAVING):
        msg = f"Image status transition from {image.status} to saving is not allowed"
        raise ConflictError(msg)
    try:
        with store.new_file(image.id) as file:
            facts = _receive(file, image.disk_format, chunks, expected_size)
            _publish(image.id, file, facts)
    except BaseException:
        _move(image.id, Image.Status.SAVING, Image.Status.QUEUED)
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
        recovered += _move(image.id, Image.Status.SAVING, Image.Status.QUEUED)
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
        active = _move(image_id, Image.Status.SAVING, Image.Status.ACTIVE, **facts)
    except BaseException:
        store.remove(image_id)
        raise
    if not active:
        store.remove(image_id)
        msg = f"Image {image_id} was deleted while its data was uploaded."
        raise NotFoundError(msg)


def _owned(context: RequestContext, image_id: str | uuid.UUID, *, lock: bool = False) -> Image:
    """Return an image the caller may change: the project's own, or any for an operator; others' are forbidden."""
    image = image_for(context, image_id)
    if image.project_id != context.project_id and not policy.allows(context, "image:images:list:all_projects"):
        msg = "You are not permitted to modify this image."
        raise ForbiddenError(msg)
    if not lock:
        return image
    locked = Image.objects.select_for_update().exclude(status=Image.Status.DELETED).filter(pk=image.pk).first()
    if locked is None:
        msg = f"No image found with ID {image_id}"
        raise NotFoundError(msg)
    return locked


def _move(image_id: uuid.UUID, before: Image.Status, after: Image.Status, **columns: Any) -> bool:
    """Change the status if it is still what it was; whether it was."""
    rows = Image.objects.filter(pk=image_id, status=before)
    return bool(rows.update(status=after, updated_at=timezone.now(), **columns))
