"""Use of the image store by projects."""

import uuid
from typing import Any

from django.conf import settings
from django.db.models import Count, Q, Sum

from compute_agent.disk_formats.reading import PIECE
from provisioning.common.context import RequestContext
from provisioning.common.values.ids import NOBODY
from provisioning.images.models import Image
from provisioning.images.selectors.access import own
from provisioning.quotas import selectors as quotas
from provisioning.quotas.limits import UNLIMITED


def storage_used(project_id: uuid.UUID, *, but: uuid.UUID | None = None) -> int:
    """Return the size in bytes of a project's images, except the image ``but``."""
    rows = Image.objects.filter(project_id=project_id).exclude(status=Image.Status.DELETED).exclude(pk=but or NOBODY)
    return int(rows.aggregate(total=Sum("size"))["total"] or 0)


def storage_left(project_id: uuid.UUID) -> int | None:
    """Return the number of bytes that a project may still store, at least 0; None: unlimited."""
    limit = storage_limit(project_id)
    return None if limit is None else max(limit - storage_used(project_id), 0)


def storage_limit(project_id: uuid.UUID) -> int | None:
    """Return the number of bytes that a project may store; None: unlimited.

    The limit is the quota ``image_size_total``, otherwise ``IMAGE_STORAGE_QUOTA``.
    """
    set_by_operator = quotas.own_limit(project_id, "image_size_total")
    if set_by_operator is not None:
        return None if set_by_operator == UNLIMITED else set_by_operator << 20
    return int(settings.IMAGE_STORAGE_QUOTA) or None


def images_of(project_id: uuid.UUID) -> int:
    """Return the number of a project's images, with or without data."""
    return Image.objects.filter(project_id=project_id).exclude(status=Image.Status.DELETED).count()


def measured(project_id: uuid.UUID) -> dict[str, int]:
    """Return a project's use of the quotas for images, sizes in MiB."""
    return {"image_size_total": storage_used(project_id) >> 20, "image_count_total": images_of(project_id)}


def usage_of(context: RequestContext) -> dict[str, tuple[int, int]]:
    """Return (used, limit) for the caller's project, with Glance's names. Sizes are in MiB; limit -1: unlimited."""
    staged = Q(status__in=(Image.Status.UPLOADING, Image.Status.IMPORTING))
    moving = Q(status__in=(Image.Status.SAVING, Image.Status.UPLOADING, Image.Status.IMPORTING))
    rows = Image.objects.filter(own(context)).exclude(status=Image.Status.DELETED)
    sums = rows.aggregate(
        stored=Sum("size", filter=~staged),
        staging=Sum("size", filter=staged),
        count=Count("id"),
        moving=Count("id", filter=moving),
    )
    limits = quotas.limits_of(context.project_id or NOBODY)
    limit = limits["image_size_total"]
    return {
        "image_size_total": ((sums["stored"] or 0) >> 20, limit),
        "image_stage_total": ((sums["staging"] or 0) >> 20, limit),
        "image_count_total": (sums["count"], limits["image_count_total"]),
        "image_count_uploading": (sums["moving"], -1),
    }


def store_properties() -> dict[str, Any]:
    """Return the configuration of the store for operators; ``chunk_size`` is in bytes."""
    return {"data_dir": str(settings.IMAGE_DIR), "chunk_size": PIECE, "thin_provisioning": False}
