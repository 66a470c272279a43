"""Uploads in parts: after an interruption, the client resumes at the byte where the received data ends.

The image becomes ``uploading`` at the start, which reserves the announced size in the project's quota, and ``active``
with the last byte. If no part arrives for ``STAGING_TIMEOUT`` seconds, the data is removed and the image is ``queued``
again.
"""

import os
import uuid
from collections.abc import Iterable
from typing import IO, Any

from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.images.data import store
from provisioning.images.errors import ImageContentError, UploadOffsetError
from provisioning.images.models import Image
from provisioning.images.records.formats import check_container, check_taken
from provisioning.images.services import intake
from provisioning.images.services.access import move, owned
from provisioning.images.services.announcements import announce
from provisioning.images.services.records import create
from provisioning.images.services.storage import hold_storage, too_large

UPLOADING = Image.Status.UPLOADING


def begin_upload(context: RequestContext, size: int, **values: Any) -> Image:
    """Create an image of ``size`` bytes and reserve this size in the quota; ``append`` receives the data.

    ``values``: as for ``create``; both formats are required. Raises the errors of ``create``, TooLargeError,
    ImageContentError for a size of 0, UnavailableError if the store has no space.
    """
    if size <= 0:
        raise ImageContentError("Image content is empty.", field="file")
    with transaction.atomic():
        image = create(context, **values)
        check_taken(str(image.disk_format))
        check_container(str(image.disk_format), str(image.container_format))
        limit = intake.largest(image.project_id)
        if size > limit:
            raise too_large(limit)
        intake.check_room(size)
        hold_storage(image.id, size)
        move(image.id, Image.Status.QUEUED, UPLOADING, size=size)
        announce(image.project_id, image.id, UPLOADING, 0)
        with store.arriving_file(image.id, create=True):
            pass  # an empty file shows that this image waits for parts
    image.refresh_from_db()
    return image


def append(context: RequestContext, image_id: str | uuid.UUID, offset: int, chunks: Iterable[bytes]) -> Image:
    """Add a part that begins at byte ``offset``; return the image, which is ``active`` after the last part.

    Received data is kept if ``chunks`` raises an error. If the process died before complete data was published, an
    empty part publishes it. Must not be called in a transaction.

    Raises NotFoundError, UploadOffsetError if the received data ends at another byte, ConflictError if the image
    accepts no parts or another part is being received, InvalidInputError for more data than announced, UnavailableError
    (no space), ImageContentError and GoneError as in ``upload``, and the errors of ``chunks``.
    """
    image = owned(context, image_id)
    try:
        with store.arriving_file(image.id) as file:
            image.refresh_from_db()
            if image.status != UPLOADING or image.size is None:
                raise _takes_none(image)
            arrived = file.seek(0, os.SEEK_END)
            if offset != arrived:
                raise UploadOffsetError(arrived)
            try:
                _write(file, image.size, chunks)
            finally:
                _note(image, file.tell())
            if file.tell() == image.size:
                _finish(image, file)
    except FileNotFoundError:
        raise _takes_none(image) from None
    image.refresh_from_db()
    return image


def _write(file: IO[bytes], size: int, chunks: Iterable[bytes]) -> None:
    for chunk in chunks:
        if file.tell() + len(chunk) > size:
            raise InvalidInputError(f"More than the {size} bytes that were announced arrived.", field="file")
        intake.check_room(len(chunk))
        file.write(chunk)


def _note(image: Image, arrived: int) -> None:
    """Report the progress of the upload to the project's pages, and restart its time limit."""
    with transaction.atomic():
        if move(image.id, UPLOADING, UPLOADING):
            announce(image.project_id, image.id, UPLOADING, 100 * arrived // (image.size or 1))


def _finish(image: Image, file: IO[bytes]) -> None:
    file.flush()
    file.seek(0)
    expected = intake.Expected(str(image.disk_format), limit=image.size or 0, size=image.size)
    facts = intake.receive(file, expected, intake.pieces(file), keep=False)
    intake.publish(
        image.id,
        file,
        facts,
        before=UPLOADING,
        source=store.arriving_of(image.id),
        also=lambda: announce(image.project_id, image.id, Image.Status.ACTIVE),
    )


def _takes_none(image: Image) -> ConflictError:
    return ConflictError(f"Image {image.id} is {image.status} and does not accept data.")
