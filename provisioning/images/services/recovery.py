"""Complete data of images without a current record, and removal of abandoned files."""

import uuid

from provisioning.images.data import store
from provisioning.images.models import Image
from provisioning.images.services.access import move

BEING_WRITTEN = (Image.Status.SAVING, Image.Status.UPLOADING, Image.Status.IMPORTING)


def adopt_complete(image_id: uuid.UUID) -> bool:
    """Set a queued image with complete data to ``saving``, so that the periodic job completes it.

    Returns False if the image is not queued, or has no complete data.
    """
    return store.is_whole(image_id) and move(image_id, Image.Status.QUEUED, Image.Status.SAVING)


def sweep() -> int:
    """Remove unfinished files of images that are not being written; return the number of files."""
    unfinished = store.unfinished()
    being_written = set(
        Image.objects.filter(pk__in={image_id for image_id, _ in unfinished}, status__in=BEING_WRITTEN).values_list(
            "pk", flat=True
        )
    )
    orphans = [
        path for image_id, path in unfinished if image_id not in being_written and not store.upload_is_alive(image_id)
    ]
    for path in orphans:
        path.unlink(missing_ok=True)
    return len(orphans)
