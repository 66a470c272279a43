"""Recovery of interrupted uploads and imports, and removal of abandoned files, by periodic jobs."""

import datetime
import logging
import uuid

from django.conf import settings
from django.db import transaction
from django.db.models import F
from django.utils import timezone

from provisioning.common.errors import NovellaError, TooLargeError
from provisioning.images import store
from provisioning.images.models import Image, ImageTask
from provisioning.images.services import imports, intake, tasks
from provisioning.images.services.access import move
from provisioning.images.services.announcements import announce
from provisioning.images.services.staging import unstage
from provisioning.images.services.storage import hold_storage
from provisioning.jobs.cast import cast

SETTLE_TIME = 60
"""Seconds that an upload has to open its file before it is considered dead."""
LOST_AFTER = 900
"""Seconds without progress after which an import is queued again, because its message may be lost."""
BEING_WRITTEN = (Image.Status.SAVING, Image.Status.UPLOADING, Image.Status.IMPORTING)

log = logging.getLogger(__name__)


def recover_interrupted_uploads() -> int:
    """Complete images whose upload was interrupted after all data had arrived, and set other images back to ``queued``.

    An upload is interrupted if its process has died. For a periodic job; returns the number of images set back.
    """
    recovered = 0
    for image in Image.objects.filter(status=Image.Status.SAVING, updated_at__lt=_ago(SETTLE_TIME)):
        if store.upload_is_alive(image.id) or _complete(image):
            continue
        store.discard(image.id)
        recovered += move(image.id, Image.Status.SAVING, Image.Status.QUEUED)
        log.warning("The upload of image %s was interrupted; the image is queued again.", image.id)
    return recovered


def take_up_whole(image_id: uuid.UUID) -> bool:
    """Set a queued image with complete data to ``saving``, so that the periodic job completes it.

    Returns False if the image is not queued, or has no complete data.
    """
    return store.is_whole(image_id) and move(image_id, Image.Status.QUEUED, Image.Status.SAVING)


def _complete(image: Image) -> bool:
    """Set an image to ``active`` if its data has its final name and is therefore complete; otherwise return False.

    Such data exists if the process of the upload died before it updated the record, or if the database was restored
    from an older backup. Data that exceeds a limit is kept, and the image stays ``saving``.
    """
    try:
        with store.path_of(image.id).open("rb") as file:
            wanted = intake.Wanted(image.disk_format or "", settings.MAX_IMAGE_SIZE, may_be_empty=True)
            facts = intake.receive(file, wanted, intake.pieces(file), keep=False)
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


def forgive(gap: datetime.timedelta) -> None:
    """Extend the time limits of images that are being written, staged or imported.

    ``gap``: the time in which the periodic job did not run.
    """
    Image.objects.filter(status__in=BEING_WRITTEN).update(updated_at=F("updated_at") + gap)
    ImageTask.objects.filter(status__in=tasks.OPEN).update(updated_at=F("updated_at") + gap)


def clear_staging() -> int:
    """Discard staged data that was never imported or completed; return the number of images."""
    cleared = 0
    for image in Image.objects.filter(status=Image.Status.UPLOADING, updated_at__lt=_ago(SETTLE_TIME)):
        waits = store.is_waiting(image.id) and image.updated_at > _ago(settings.STAGING_TIMEOUT)
        if waits or store.upload_is_alive(image.id):
            continue
        if unstage(image.id):
            store.part_of(image.id).unlink(missing_ok=True)
            cleared += 1
            log.warning("The staged data of image %s was discarded; the image is queued again.", image.id)
    return cleared


def sweep() -> int:
    """Remove unfinished files of images that are not being written; return the number of files."""
    found = store.unfinished()
    being_written = set(
        Image.objects.filter(pk__in={image_id for image_id, _ in found}, status__in=BEING_WRITTEN).values_list(
            "pk", flat=True
        )
    )
    orphans = [
        path for image_id, path in found if image_id not in being_written and not store.upload_is_alive(image_id)
    ]
    for path in orphans:
        path.unlink(missing_ok=True)
    return len(orphans)


def find_lost_imports() -> int:
    """Queue imports again that have made no progress for ``LOST_AFTER`` seconds; return how many."""
    lost = 0
    for task in ImageTask.objects.filter(status__in=tasks.OPEN, updated_at__lt=_ago(LOST_AFTER)):
        if not tasks.has_turn(task) or (task.image_id is not None and store.upload_is_alive(task.image_id)):
            continue
        with transaction.atomic():
            rows = ImageTask.objects.filter(pk=task.pk, updated_at=task.updated_at, status__in=tasks.OPEN)
            if rows.update(updated_at=timezone.now()):
                cast(imports.TOPIC, imports.JOB, task_id=str(task.id))
                lost += 1
    return lost


def _ago(seconds: float) -> datetime.datetime:
    return timezone.now() - datetime.timedelta(seconds=seconds)
