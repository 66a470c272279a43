"""How much of the image store projects use."""

from __future__ import annotations

import uuid

from django.conf import settings
from django.db.models import Sum

from provisioning.images.models import Image


def storage_used(project_id: uuid.UUID) -> int:
    """Return the bytes of a project's images."""
    rows = Image.objects.filter(project_id=project_id).exclude(status=Image.Status.DELETED)
    return int(rows.aggregate(total=Sum("size"))["total"] or 0)


def storage_left(project_id: uuid.UUID) -> int | None:
    """Return the bytes that a project may still store, from 0; None when ``IMAGE_STORAGE_QUOTA`` sets no limit."""
    if not settings.IMAGE_STORAGE_QUOTA:
        return None
    return max(int(settings.IMAGE_STORAGE_QUOTA) - storage_used(project_id), 0)
