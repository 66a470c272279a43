"""Which images a caller may change, and moves of an image's status."""

from __future__ import annotations

import uuid
from typing import Any

from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, NotFoundError
from provisioning.identity import policy
from provisioning.images.models import Image
from provisioning.images.selectors import image_for


def owned(context: RequestContext, image_id: str | uuid.UUID, *, lock: bool = False) -> Image:
    """Return an image the caller may change: the project's own, or any for an operator; others' are forbidden."""
    image = image_for(context, image_id)
    if image.project_id != context.project_id and not policy.allows(context, "image:images:list:all_projects"):
        msg = "You are not permitted to modify this image."
        raise ForbiddenError(msg)
    if not lock:
        return image
    locked = Image.objects.select_for_update().exclude(status=Image.Status.DELETED).filter(pk=image.pk).first()
    if locked is None:
        msg = f"No image found with ID {image_id}"
        raise NotFoundError(msg)
    return locked


def move(image_id: uuid.UUID, before: Image.Status, after: Image.Status, **columns: Any) -> bool:
    """Change the status if it is still what it was; whether it was."""
    rows = Image.objects.filter(pk=image_id, status=before)
    return bool(rows.update(status=after, updated_at=timezone.now(), **columns))
