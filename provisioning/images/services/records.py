"""Writes of an image's record: made, changed, tagged, ended."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, ForbiddenError, NotFoundError
from provisioning.identity import presence
from provisioning.images import store
from provisioning.images.models import Image
from provisioning.images.records import check_values
from provisioning.images.services.access import owned


def create(context: RequestContext, *, image_id: uuid.UUID | None = None, **values: Any) -> Image:
    """Make a record without data, ``queued``.

    ``values``: any of ``records.FIELDS``; ``min_disk`` in GiB, ``min_ram`` in MiB.  Raises InvalidInputError,
    ForbiddenError, ConflictError when the id is taken, NotFoundError when the project went.
    """
    if context.project_id is None:
        msg = "An image needs a project to belong to."
        raise ForbiddenError(msg)
    checked = check_values(context, values)
    try:
        with transaction.atomic():
            presence.hold_project(context.project_id)
            return Image.objects.create(id=image_id or uuid.uuid4(), project_id=context.project_id, **checked)
    except IntegrityError:
        msg = f"Image ID {image_id} already exists!"
        raise ConflictError(msg, field="id") from None


def update(context: RequestContext, image_id: str | uuid.UUID, values: Mapping[str, Any]) -> Image:
    """Change fields of a record; ``tags`` and ``properties`` are replaced whole.

    Raises NotFoundError, InvalidInputError, ForbiddenError.
    """
    with transaction.atomic():
        image = owned(context, image_id, lock=True)
        checked = check_values(context, values, image)
        for name, value in checked.items():
            setattr(image, name, value)
        image.save(update_fields=[*checked, "updated_at"])
    return image


def set_tag(context: RequestContext, image_id: str | uuid.UUID, tag: str, *, present: bool) -> None:
    """Add or remove one tag.  Removing one that is not there raises NotFoundError."""
    with transaction.atomic():
        image = owned(context, image_id, lock=True)
        if not present and tag not in image.tags:
            msg = f"The tag {tag} could not be found on image {image_id}."
            raise NotFoundError(msg)
        tags = {*image.tags, tag} if present else set(image.tags) - {tag}
        update(context, image.id, {"tags": sorted(tags)})


def delete(context: RequestContext, image_id: str | uuid.UUID) -> None:
    """End an image; its bits go when the transaction has committed.

    A guest that runs keeps its disk, and a host that is reading the bits reads to their end.  Raises NotFoundError,
    ForbiddenError when the image is protected.
    """
    with transaction.atomic():
        image = owned(context, image_id, lock=True)
        if image.protected:
            msg = f"Image {image.id} is protected and cannot be deleted."
            raise ForbiddenError(msg)
        now = timezone.now()
        Image.objects.filter(pk=image.pk).update(status=Image.Status.DELETED, deleted_at=now, updated_at=now)
        transaction.on_commit(lambda: store.remove(image.id))
