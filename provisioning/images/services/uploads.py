"""The upload of an image's data."""

import uuid
from collections.abc import Iterable

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.images import store
from provisioning.images.formats import check_container, check_taken
from provisioning.images.models import Image
from provisioning.images.services import intake
from provisioning.images.services.access import move, owned
from provisioning.images.services.announcements import announce


def upload(
    context: RequestContext, image_id: str | uuid.UUID, chunks: Iterable[bytes], *, expected_size: int | None = None
) -> Image:
    """Take the data of a ``queued`` image, as a stream and with constant memory, and make it ``active``.

    1. queued → saving by conditional update, so that one of two uploads gets it; 2. write to a file beside, hashing and
    inspecting on the way; 3. judge format, safety and size; 4. sync and rename; 5. saving → active by conditional
    update.
    Whatever fails in between: no file, and the record is ``queued`` again.  Not to be called in a transaction.

    Raises NotFoundError, ConflictError (has data, or is being uploaded), ImageContentError, TooLargeError (for this
    service or for what the project may keep), UnavailableError (no room), InvalidInputError (formats not set,
    ``expected_size`` bytes not met), GoneError (deleted meanwhile) and whatever ``chunks`` raises.
    """
    image = owned(context, image_id)
    _formats(image)
    if not move(image.id, Image.Status.QUEUED, Image.Status.SAVING):
        raise ConflictError(f"Image status transition from {image.status} to saving is not allowed")
    try:
        image.refresh_from_db()  # the formats stay from here on; a moment ago somebody could change them
        # As in Glance: the standard command line uploads nothing where it has no terminal.
        wanted = intake.Wanted(_formats(image), intake.largest(image.project_id), expected_size, may_be_empty=True)
        with store.new_file(image.id) as file:
            facts = intake.receive(file, wanted, chunks)
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
    """Return the disk format that the data must have; InvalidInputError when the record says none."""
    if not image.disk_format or not image.container_format:
        msg = "Properties disk_format, container_format must be set prior to saving data."
        raise InvalidInputError(msg, field="disk_format")
    check_taken(image.disk_format)
    check_container(image.disk_format, image.container_format)
    return image.disk_format
