"""What of images is purged, and when."""

from datetime import datetime

from django.db.models import QuerySet

from provisioning.images.models import Image
from provisioning.jobs import retention
from provisioning.jobs.retention import Purged

_OF_IMAGE = "Goes with its image."


def register() -> None:
    """Say what of images is kept how long."""
    retention.purge_kind(Purged("deleted images", Image, _images))
    retention.keep(
        {
            "images.ImageTag": _OF_IMAGE,
            "images.ImageProperty": _OF_IMAGE,
            "images.ImageMember": _OF_IMAGE,
            "images.ImageTask": "Goes NOVELLA_IMAGE_TASK_RETENTION seconds after its end.",
        }
    )


def _images(before: datetime) -> QuerySet[Image]:
    return Image.objects.filter(status=Image.Status.DELETED, deleted_at__lt=before)
