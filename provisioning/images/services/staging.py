"""The staging area: uploaded data that waits for its import."""

import logging
import uuid
from collections.abc import Iterable
from datetime import timedelta

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import GoneError, NotFoundError
from provisioning.images.data import store
from provisioning.images.data.file_tasks import FileTask, timeout
from provisioning.images.models import Image
from provisioning.images.services import intake
from provisioning.images.services.access import begin, move, owned
from provisioning.images.services.announcements import announce
from provisioning.images.services.storage import hold_storage

log = logging.getLogger(__name__)


def stage(
    context: RequestContext, image_id: str | uuid.UUID, chunks: Iterable[bytes], *, expected_size: int | None = None
) -> Image:
    """Store the data of a ``queued`` image, which becomes ``uploading``, for a later import. The data is not inspected.

    After an error the file is removed and the image is ``queued`` again. Must not be called in a transaction. Raises
    NotFoundError, ConflictError, TooLargeError, UnavailableError, InvalidInputError (size is not ``expected_size``),
    GoneError (deleted in the meantime) and the errors of ``chunks``.
    """
    if "glance-direct" not in settings.IMPORT_METHODS:
        raise NotFoundError("'glance-direct' method is not available at this site.")
    image = owned(context, image_id)
    begin(Stage, image, size=None)
    try:
        with store.new_file(image.id) as file:
            size = intake.write(file, intake.largest(image.project_id), chunks, expected_size)
            store.stage(image.id, file)
        _keep(image, size)
    except BaseException:
        unstage(image.id)
        raise
    image.refresh_from_db()
    return image


def unstage(image_id: uuid.UUID) -> bool:
    """Remove staged data and set its image to ``queued``; return False if the image was not ``uploading``."""
    with transaction.atomic():
        moved = move(image_id, Image.Status.UPLOADING, Image.Status.QUEUED, size=None)
        if moved:
            transaction.on_commit(lambda: store.remove_waiting(image_id))
    return moved


def _keep(image: Image, size: int) -> None:
    with transaction.atomic():
        hold_storage(image.id, size)
        kept = move(image.id, Image.Status.UPLOADING, Image.Status.UPLOADING, size=size)
        if kept:
            announce(image.project_id, image.id, Image.Status.UPLOADING)
    if not kept:
        store.remove(image.id)
        msg = f"Image {image.id} could not be found after staging. The image may have been deleted in the meantime."
        raise GoneError(msg)


class Stage(FileTask):
    """Receive data that waits for its import, or for its next part."""

    legal_from = (Image.Status.QUEUED,)
    status = Image.Status.UPLOADING
    timeouts = {Image.Status.UPLOADING: timeout("uploading", 60)}
    when_overdue = (
        "if no process receives the data, and it has waited for `NOVELLA_STAGING_TIMEOUT`, the data is discarded"
    )

    def in_progress(self, image: Image) -> bool:
        kept_until = image.updated_at + timedelta(seconds=settings.STAGING_TIMEOUT)
        return (store.is_waiting(image.id) and kept_until > timezone.now()) or super().in_progress(image)

    def overdue(self, image: Image) -> None:
        """Discard data that was never imported or completed."""
        if unstage(image.id):
            store.part_of(image.id).unlink(missing_ok=True)
            log.warning("The staged data of image %s was discarded; the image is queued again.", image.id)
