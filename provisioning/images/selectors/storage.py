"""How much of the image store projects use."""

import uuid
from typing import Any

from django.conf import settings
from django.db.models import Count, Q, Sum

from compute_agent.disk_formats.reading import PIECE
from provisioning.common.context import RequestContext
from provisioning.common.ids import NOBODY
from provisioning.images.models import Image
from provisioning.images.selectors.access import own
from provisioning.quotas import selectors as quotas
from provisioning.quotas.limits import UNLIMITED


def storage_used(project_id: uuid.UUID, *, but: uuid.UUID | None = None) -> int:
    """Return the bytes of a project's images, without one of them where ``but`` names it."""
    rows = Image.objects.filter(project_id=project_id).exclude(status=Image.Status.DELETED).exclude(pk=but or NOBODY)
    return int(rows.aggregate(total=Sum("size"))["total"] or 0)


def storage_left(project_id: uuid.UUID) -> int | None:
    """Return the bytes that a project may still store, from 0; None without a limit."""
    limit = storage_limit(project_id)
    return None if limit is None else max(limit - storage_used(project_id), 0)


def storage_limit(project_id: uuid.UUID) -> int | None:
    """Return the bytes that a project may store: its quota ``image_size_total``, else ``IMAGE_STORAGE_QUOTA``; None
    without a limit.
    """
    set_by_operator = quotas.own_limit(project_id, "image_size_total")
    if set_by_operator is not None:
        return None if set_by_operator == UNLIMITED else set_by_operator << 20
    return int(settings.IMAGE_STORAGE_QUOTA) or None


def images_of(project_id: uuid.UUID) -> int:
    """Return how many images a project has, with data or without."""
    return Image.objects.filter(project_id=project_id).exclude(status=Image.Status.DELETED).count()


def measured(project_id: uuid.UUID) -> dict[str, int]:
    """Return what a project has of what quotas limit, sizes in MiB."""
    return {"image_size_total": storage_used(project_id) >> 20, "image_count_total": images_of(project_id)}


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
    limits = quotas.limits_of(context.project_id or NOBODY)
    limit = limits["image_size_total"]
    return {
        "image_size_total": ((found["stored"] or 0) >> 20, limit),
        "image_stage_total": ((found["staging"] or 0) >> 20, limit),
        "image_count_total": (found["count"], limits["image_count_total"]),
        "image_count_uploading": (found["moving"], -1),
    }


def store_properties() -> dict[str, Any]:
    """Return where and how images are kept, for operators; ``chunk_size`` in bytes."""
    return {"data_dir": str(settings.IMAGE_DIR), "chunk_size": PIECE, "thin_provisioning": False}
