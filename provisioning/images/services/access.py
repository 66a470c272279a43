"""Which images a caller may change, and moves of an image's status."""

import uuid
from typing import Any

from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, NotFoundError
from provisioning.images.models import Image
from provisioning.images.selectors import image_for
from provisioning.images.selectors.access import owns

NOT_YOURS = "You are not permitted to modify this image."


def owned(context: RequestContext, image_id: str | uuid.UUID, *, lock: bool = False, refusal: str = NOT_YOURS) -> Image:
    """Return an image the caller may change: the project's own, or any for an operator; others' are forbidden."""
    image = image_for(context, image_id)
    if not owns(context, image):
        raise ForbiddenError(refusal)
    return locked(image.id) if lock else image


def locked(image_id: uuid.UUID) -> Image:
    """Return an image as it is now, kept from others until the transaction ends; NotFoundError when it is gone."""
    found = Image.objects.select_for_update().exclude(status=Image.Status.DELETED).filter(pk=image_id).first()
    if found is None:
        raise NotFoundError(f"No image found with ID {image_id}")
    return found


def move(image_id: uuid.UUID, before: Image.Status, after: Image.Status, **columns: Any) -> bool:
    """Change the status if it is still what it was; whether it was."""
    rows = Image.objects.filter(pk=image_id, status=before)
    return bool(rows.update(status=after, updated_at=timezone.now(), **columns))
