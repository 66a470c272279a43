"""Steps after an import: an image that could not be fetched is deleted, one that arrived replaces earlier versions."""

from datetime import timedelta

from django.db import transaction
from django.db.models import Q
from django.utils import timezone

from provisioning.catalogue.models import CatalogueImage
from provisioning.catalogue.services.adding import announce
from provisioning.common.context import system_context
from provisioning.common.errors import NovellaError
from provisioning.images import services as images
from provisioning.images.models import Image, ImageTask
from provisioning.images.records.uses import LAUNCHED
from provisioning.images.services.announcements import announce_record

GRACE = timedelta(hours=1)
"""Time for which a replaced image is kept for launches that have already chosen it."""
FAULTS_KEPT = timedelta(days=7)
LONGEST_FAULT = 1000


def import_ended(task: ImageTask, reason: str) -> None:
    """Follow the end of an import, in its transaction; ``reason`` is empty on success."""
    row = CatalogueImage.objects.filter(task_id=task.pk).first()
    if row is None or row.image_id is None:
        return
    if reason:
        image_id = row.image_id
        CatalogueImage.objects.filter(pk=row.pk).update(
            image=None, fault=reason[:LONGEST_FAULT], updated_at=timezone.now()
        )
        images.delete(system_context(), image_id, though_used=True)
    else:
        _replace_earlier(row)
    announce(row.project_id, row.entry)


def remove_replaced() -> int:
    """Delete replaced images that no server was launched from; return their number. For a periodic job.

    Images that are protected, or that were shown again, are kept. The rows of old failures are deleted.
    """
    now = timezone.now()
    gone = Q(image=None, updated_at__lt=now - FAULTS_KEPT) | Q(image__status=Image.Status.DELETED)
    CatalogueImage.objects.filter(gone).delete()
    rows = CatalogueImage.objects.filter(replaced_at__lt=now - GRACE, image__hidden=True, image__protected=False)
    waiting = list(rows.values_list("image_id", flat=True))
    used = LAUNCHED.only()(waiting) if waiting else set()
    removed = 0
    for image_id in waiting:
        if image_id in used or image_id is None:
            continue
        try:
            images.delete(system_context(), image_id)
        except NovellaError:  # in use by another service, or already deleted
            continue
        removed += 1
    return removed


def _replace_earlier(row: CatalogueImage) -> None:
    """Hide the earlier versions of an image, so that they are no longer offered for launches."""
    earlier = CatalogueImage.objects.filter(project_id=row.project_id, entry=row.entry, replaced_at=None)
    with transaction.atomic():
        for each in earlier.exclude(pk=row.pk).exclude(image=None).select_related("image"):
            image = each.image
            if image is None or image.status == Image.Status.DELETED:
                continue
            Image.objects.filter(pk=image.pk).update(hidden=True, updated_at=timezone.now())
            CatalogueImage.objects.filter(pk=each.pk).update(replaced_at=timezone.now())
            announce_record(image)
