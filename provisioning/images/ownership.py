"""What projects own in images."""

from __future__ import annotations

from provisioning.identity import ownership
from provisioning.identity.ownership import Ids
from provisioning.images.models import Image


def register() -> None:
    """Keep projects with images."""
    ownership.register("images", _images)


def _images(project_ids: Ids) -> int:
    return Image.objects.filter(project_id__in=project_ids, deleted_at=None).count()
