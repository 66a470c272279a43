"""Background tasks on images that are visible to a caller."""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any

from django.db.models import Q, QuerySet
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.lists.listing import Listing, Part, Sort
from provisioning.images.models import Image, ImageTask
from provisioning.images.selectors.access import key, own, sees_all

SORT_KEYS = frozenset({"created_at", "expires_at", "id", "status", "type", "updated_at"})
TASKS = Listing[ImageTask](
    order=(Sort("created_at"), Sort("id")), no_marker="Invalid marker {marker}: there is no such task."
)
MOST_OF_AN_IMAGE = 1000


def tasks_for(
    context: RequestContext,
    filters: Mapping[str, Any],
    *,
    limit: int,
    marker: str | None = None,
    sort: Sequence[Sort] = (),
) -> list[ImageTask]:
    """Return one page of tasks, by default the newest first. ``filters``: ``type``, ``status``, ``project_id``.

    Raises InvalidInputError for an unknown marker.
    """
    known = [(name, filters[name]) for name in ("type", "status", "project_id") if name in filters]
    return TASKS.page(_visible(context), Part(known, sort, limit, marker))


def task_for(context: RequestContext, task_id: str | uuid.UUID) -> ImageTask:
    """Return one task. Raises NotFoundError if it does not exist or belongs to another project."""
    image_task = _visible(context).filter(pk=key(task_id)).first()
    if image_task is None:
        raise NotFoundError(f"No task found with ID {str(task_id)[:64]}")
    return image_task


def tasks_of_image(context: RequestContext, image: Image) -> list[ImageTask]:
    """Return the tasks of a visible image that belong to the caller's project, the newest first."""
    return TASKS.page(_visible(context), Part([("image_id", image.id)], limit=MOST_OF_AN_IMAGE))


def newest_tasks(context: RequestContext, image_ids: Sequence[uuid.UUID]) -> dict[uuid.UUID, ImageTask]:
    """Return image → its newest task, for tasks of the caller's project."""
    if not image_ids:
        return {}
    rows = _visible(context).filter(image_id__in=image_ids).order_by("created_at", "id")
    return {row.image_id: row for row in rows if row.image_id is not None}


def _visible(context: RequestContext) -> QuerySet[ImageTask]:
    """Return the unexpired tasks of the caller's project; operators see all."""
    rows = ImageTask.objects.filter(Q(expires_at=None) | Q(expires_at__gt=timezone.now()))
    return rows if sees_all(context) else rows.filter(own(context))
