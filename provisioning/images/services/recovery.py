"""What died in the middle, or was left lying: looked for by the clock."""

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
"""Seconds an upload has to open its file before it may be thought dead."""
LOST_AFTER = 900
"""Seconds without a sign after which an import is cast anew: its message may have been lost."""
BEING_WRITTEN = (Image.Status.SAVING, Image.Status.UPLOADING, Image.Status.IMPORTING)

log = logging.getLogger(__name__)


def recover_interrupted_uploads() -> int:
    """Make images ``queued`` again whose upload died with its process; return how many.  For a periodic job."""
    recovered = 0
    for image in Image.objects.filter(status=Image.Status.SAVING, updated_at__lt=_ago(SETTLE_TIME)):
        if store.upload_is_alive(image.id) or _complete(image):
            continue
        store.discard(image.id)
        recovered += move(image.id, Image.Status.SAVING, Image.Status.QUEUED)
        log.warning("The upload of image %s had died; the image is queued again.", image.id)
    return recovered


def take_up_whole(image_id: uuid.UUID) -> bool:
    """Let an image that waits for data, and has all of it, be completed by the clock; whether it waited."""
    return store.is_whole(image_id) and move(image_id, Image.Status.QUEUED, Image.Status.SAVING)


def _complete(image: Image) -> bool:
    """Make an image ``active`` whose data has its final name, so that it is whole: only its record is behind.

    Its process died in between, or the records are a copy from before.
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
    except TooLargeError as error:  # nothing is removed for the want of a record
        log.error("The data of image %s is whole, and cannot be kept: %s", image.id, error.message)  # noqa: TRY400
    except NovellaError as error:
        log.warning("The data of image %s is no use: %s", image.id, error.message)
        return False
    return True


def forgive(gap: datetime.timedelta) -> None:
    """Let time in which nobody looked not count for images that are written, staged or imported."""
    Image.objects.filter(status__in=BEING_WRITTEN).update(updated_at=F("updated_at") + gap)
    ImageTask.objects.filter(status__in=tasks.OPEN).update(updated_at=F("updated_at") + gap)


def clear_staging() -> int:
    """Give up data that was staged and never imported, or that never became complete; return of how many images."""
    cleared = 0
    for image in Image.objects.filter(status=Image.Status.UPLOADING, updated_at__lt=_ago(SETTLE_TIME)):
        waits = store.is_waiting(image.id) and image.updated_at > _ago(settings.STAGING_TIMEOUT)
        if waits or store.upload_is_alive(image.id):
            continue
        if unstage(image.id):
            store.part_of(image.id).unlink(missing_ok=True)
            cleared += 1
            log.warning("What was staged for image %s was given up; the image is queued again.", image.id)
    return cleared


def sweep() -> int:
    """Remove unfinished files that belong to no image which is being written; return how many."""
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
    """Cast imports again of which nothing was heard for long; return how many."""
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
