"""Retention of images."""

from datetime import datetime

from django.db.models import QuerySet

from provisioning.images.models import Image
from provisioning.jobs.retention import Purged

_OF_IMAGE = "Deleted with its image."


def _images(before: datetime) -> QuerySet[Image]:
    return Image.objects.filter(status=Image.Status.DELETED, deleted_at__lt=before)


PURGED = (Purged("deleted images", Image, _images),)
UNPURGED = {
    "images.ImageTag": _OF_IMAGE,
    "images.ImageProperty": _OF_IMAGE,
    "images.ImageMember": _OF_IMAGE,
    "images.ImageTask": "Deleted NOVELLA_IMAGE_TASK_RETENTION seconds after its end.",
}
