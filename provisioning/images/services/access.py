"""Images that a caller may change, and transitions of an image's status."""

import uuid
from typing import Any

from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, ForbiddenError, NotFoundError
from provisioning.images.data.file_tasks import FileTask
from provisioning.images.models import Image
from provisioning.images.selectors import image_for
from provisioning.images.selectors.access import owns

NOT_YOURS = "You are not permitted to modify this image."


def owned(context: RequestContext, image_id: str | uuid.UUID, *, lock: bool = False, refusal: str = NOT_YOURS) -> Image:
    """Return an image that the caller may change: an image of the caller's project, or any image for an operator.

    Raises NotFoundError, ForbiddenError for a visible image of another project.
    """
    image = image_for(context, image_id)
    if not owns(context, image):
        raise ForbiddenError(refusal)
    return locked(image.id) if lock else image


def locked(image_id: uuid.UUID) -> Image:
    """Return the current row of an image and lock it until the transaction ends. Raises NotFoundError if it was
    deleted.
    """
    image = Image.objects.select_for_update().exclude(status=Image.Status.DELETED).filter(pk=image_id).first()
    if image is None:
        raise NotFoundError(f"No image found with ID {image_id}")
    return image


def begin(task: type[FileTask], image: Image, **columns: Any) -> None:
    """Start a task by a conditional update, so that only one of two requests starts it.

    Raises ConflictError for an image whose status is not in ``legal_from``.
    """
    if not any(move(image.id, Image.Status(status), task.status, **columns) for status in task.legal_from):
        raise ConflictError(f"Image status transition from {image.status} to {task.status} is not allowed")


def move(image_id: uuid.UUID, before: Image.Status, after: Image.Status, **columns: Any) -> bool:
    """Change the status from ``before`` to ``after`` by a conditional update; return whether it was changed."""
    rows = Image.objects.filter(pk=image_id, status=before)
    return bool(rows.update(status=after, updated_at=timezone.now(), **columns))
