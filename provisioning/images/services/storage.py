"""Enforces the storage limits of projects, under a lock of the project."""

import uuid

from django.conf import settings

from provisioning.common.errors import OverQuotaError, TooLargeError
from provisioning.identity.models import Project
from provisioning.identity.records import owner_locks
from provisioning.images.models import Image
from provisioning.images.selectors.storage import images_of, storage_limit, storage_used
from provisioning.quotas import selectors as quotas
from provisioning.quotas.limits import UNLIMITED


def check_count(project_id: uuid.UUID) -> None:
    """Raise OverQuotaError if a project has reached its number of images; the caller has locked the project."""
    limit = quotas.limits_of(project_id)["image_count_total"]
    used = 0 if limit == UNLIMITED else images_of(project_id)
    if UNLIMITED < limit <= used:
        raise OverQuotaError("image_count_total", limit=limit, used=used, requested=1)


def hold_storage(image_id: uuid.UUID, size: int) -> None:
    """Raise TooLargeError if an image's ``size`` bytes exceed the limit of its project.

    Locks the project until the transaction ends, so that concurrent uploads cannot exceed the limit together.
    """
    image = Image.objects.get(pk=image_id)
    limit = storage_limit(image.project_id)
    if limit is None:
        return
    owner_locks.lock_rows(Project, [image.project_id])
    others = storage_used(image.project_id, but=image_id)
    if others + size > limit:
        raise too_large(max(limit - others, 0))


def too_large(limit: int) -> TooLargeError:
    if limit < settings.MAX_IMAGE_SIZE:
        return TooLargeError(f"The image is larger than the {limit} bytes that the project's storage quota has left.")
    return TooLargeError(f"The image is larger than the {limit} bytes that are allowed.")
