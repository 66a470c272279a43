"""How much of the image store projects use."""

import uuid
from typing import Any

from django.conf import settings
from django.db.models import Count, Q, Sum

from compute_agent.disk_formats.reading import PIECE
from provisioning.common.context import RequestContext
from provisioning.images.models import Image
from provisioning.images.selectors.access import own


def storage_used(project_id: uuid.UUID) -> int:
    """Return the bytes of a project's images."""
    rows = Image.objects.filter(project_id=project_id).exclude(status=Image.Status.DELETED)
    return int(rows.aggregate(total=Sum("size"))["total"] or 0)


def storage_left(project_id: uuid.UUID) -> int | None:
    """Return the bytes that a project may still store, from 0; None when ``IMAGE_STORAGE_QUOTA`` sets no limit."""
    if not settings.IMAGE_STORAGE_QUOTA:
        return None
    return max(int(settings.IMAGE_STORAGE_QUOTA) - storage_used(project_id), 0)


def usage_of(context: RequestContext) -> dict[str, tuple[int, int]]:
    """Return what the caller's project uses and may use by Glance's names: sizes in MiB, -1 for no limit."""
    staged = Q(status__in=(Image.Status.UPLOADING, Image.Status.IMPORTING))
    moving = Q(status__in=(Image.Status.SAVING, Image.Status.UPLOADING, Image.Status.IMPORTING))
    rows = Image.objects.filter(own(context)).exclude(status=Image.Status.DELETED)
    found = rows.aggregate(
        stored=Sum("size", filter=~staged),
        staging=Sum("size", filter=staged),
        count=Count("id"),
        moving=Count("id", filter=moving),
    )
    limit = int(settings.IMAGE_STORAGE_QUOTA) >> 20 if settings.IMAGE_STORAGE_QUOTA else -1
    return {
        "image_size_total": ((found["stored"] or 0) >> 20, limit),
        "image_stage_total": ((found["staging"] or 0) >> 20, limit),
        "image_count_total": (found["count"], -1),
        "image_count_uploading": (found["moving"], -1),
    }


def store_properties() -> dict[str, Any]:
    """Return where and how images are kept, for operators; ``chunk_size`` in bytes."""
    return {"data_dir": str(settings.IMAGE_DIR), "chunk_size": PIECE, "thin_provisioning": False}
