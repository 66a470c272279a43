"""Uploads of image data."""

import logging
import uuid
from collections.abc import Iterable

from django.conf import settings
from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NovellaError, TooLargeError
from provisioning.images.data import store
from provisioning.images.data.file_tasks import FileTask, timeout
from provisioning.images.models import Image
from provisioning.images.records.formats import check_container, check_taken
from provisioning.images.services import intake
from provisioning.images.services.access import begin, move, owned
from provisioning.images.services.announcements import announce
from provisioning.images.services.storage import hold_storage

log = logging.getLogger(__name__)


def upload(
    context: RequestContext, image_id: str | uuid.UUID, chunks: Iterable[bytes], *, expected_size: int | None = None
) -> Image:
    """Receive the data of a ``queued`` image as a stream, with constant memory, and set it to ``active``.

    1. Set the image from queued to saving by a conditional update, so that only one of two uploads proceeds.
    2. Write to a temporary file; hash and inspect the data.
    3. Check format, safety and size.
    4. Sync and rename the file.
    5. Set the image from saving to active by a conditional update.

    After an error the file is removed and the image is ``queued`` again. Must not be called in a transaction.

    Raises NotFoundError, ConflictError (the image has data, or is being uploaded), ImageContentError, TooLargeError
    (limit of the service, or quota of the project), UnavailableError (no space), InvalidInputError (formats not set, or
    the size is not ``expected_size``), GoneError (the image was deleted concurrently) and the errors of ``chunks``.
    """
    image = owned(context, image_id)
    _formats(image)
    begin(Upload, image)
    try:
        image.refresh_from_db()  # the formats cannot change from here on
        # As in Glance: the standard command line uploads nothing where it has no terminal.
        expected = intake.Expected(_formats(image), intake.largest(image.project_id), expected_size, may_be_empty=True)
        with store.new_file(image.id) as file:
            facts = intake.receive(file, expected, chunks)
            intake.publish(
                image.id,
                file,
                facts,
                before=Image.Status.SAVING,
                also=lambda: announce(image.project_id, image.id, Image.Status.ACTIVE),
            )
    except BaseException:
        move(image.id, Image.Status.SAVING, Image.Status.QUEUED)
        raise
    image.refresh_from_db()
    return image


def _formats(image: Image) -> str:
    """Return the disk format that the data must have. Raises InvalidInputError if the formats are not set."""
    if not image.disk_format or not image.container_format:
        msg = "Properties disk_format, container_format must be set prior to saving data."
        raise InvalidInputError(msg, field="disk_format")
    check_taken(image.disk_format)
    check_container(image.disk_format, image.container_format)
    return image.disk_format


class Upload(FileTask):
    """Receive the data of an image in one stream."""

    legal_from = (Image.Status.QUEUED,)
    status = Image.Status.SAVING
    timeouts = {Image.Status.SAVING: timeout("saving", 60)}
    when_overdue = "if no process receives the data, the image is completed or `queued` again"

    def overdue(self, image: Image) -> None:
        """Set the image to ``active`` if all of its data has arrived, else to ``queued``."""
        if not complete(image):
            store.discard(image.id)
            move(image.id, Image.Status.SAVING, Image.Status.QUEUED)
            log.warning("The upload of image %s was interrupted; the image is queued again.", image.id)


def complete(image: Image) -> bool:
    """Set an image to ``active`` if its data has its final name and is therefore complete; otherwise return False.

    Such data exists if the process of the upload died before it updated the record, or if the database was restored
    from an older backup. Data that exceeds a limit is kept, and the image stays ``saving``.
    """
    try:
        with store.path_of(image.id).open("rb") as file:
            expected = intake.Expected(image.disk_format or "", settings.MAX_IMAGE_SIZE, may_be_empty=True)
            facts = intake.receive(file, expected, intake.pieces(file), keep=False)
        with transaction.atomic():
            hold_storage(image.id, int(facts["size"]))
            if move(image.id, Image.Status.SAVING, Image.Status.ACTIVE, **facts):
                announce(image.project_id, image.id, Image.Status.ACTIVE)
    except FileNotFoundError:
        return False
    except TooLargeError as error:  # data is not deleted because its record cannot be updated
        log.error("The data of image %s is complete, but exceeds a limit: %s", image.id, error.message)  # noqa: TRY400
    except NovellaError as error:
        log.warning("The data of image %s is invalid: %s", image.id, error.message)
        return False
    return True
