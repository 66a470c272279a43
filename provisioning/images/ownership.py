"""What projects own in images, and that no quota limits it."""

from __future__ import annotations

from provisioning.identity import ownership
from provisioning.identity.ownership import Ids
from provisioning.images.models import Image
from provisioning.quotas import registry


def register() -> None:
    """Keep projects with images, and say why they are not limited."""
    ownership.register("images", _images)
    registry.leave_free(
        {
            "images.Image": "Not limited in Glance's defaults; room on the disk is looked after by the store.",
            "images.ImageTask": "One import of an image at a time, and removed some time after its end.",
        }
    )


def _images(project_ids: Ids) -> int:
    return Image.objects.filter(project_id__in=project_ids, deleted_at=None).count()
