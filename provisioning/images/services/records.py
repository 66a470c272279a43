"""Creates, updates, deletes, deactivates and reactivates the records of images."""

import uuid
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from django.db import IntegrityError, transaction
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, ForbiddenError, NotFoundError
from provisioning.ec2 import ids as ec2_ids
from provisioning.identity.models import Project
from provisioning.identity.records import owner_locks
from provisioning.images.data import store
from provisioning.images.models import Image, ImageProperty, ImageTag
from provisioning.images.records.changes import Change, apply
from provisioning.images.records.fields import check_values
from provisioning.images.records.properties import digest, text_of
from provisioning.images.records.uses import check_unused
from provisioning.images.services.access import move, owned
from provisioning.images.services.announcements import announce_record
from provisioning.images.services.storage import check_count


def create(context: RequestContext, *, image_id: uuid.UUID | None = None, **values: Any) -> Image:
    """Create a ``queued`` image without data.

    ``values``: any of ``records.FIELDS``; ``min_disk`` in GiB, ``min_ram`` in MiB. Raises InvalidInputError,
    TooLargeError, ForbiddenError, ConflictError if the id is in use, NotFoundError if the project was deleted,
    OverQuotaError.
    """
    if context.project_id is None:
        raise ForbiddenError("An image needs a project to belong to.")
    checked = {"project_id": context.project_id, **check_values(context, values)}
    try:
        with transaction.atomic():
            if checked["project_id"] == context.project_id:
                owner_locks.lock_project(context.project_id)
            else:
                owner_locks.lock_rows(Project, [checked["project_id"]])  # an operator may specify an unknown project
            check_count(checked["project_id"])
            image = Image.objects.create(id=image_id or uuid.uuid4(), **checked)
            if image_id is not None:
                ec2_ids.keep("ami", [image_id])
            _write_filter_rows(image, checked)
            announce_record(image)
    except IntegrityError:
        raise ConflictError(f"Image ID {image_id} already exists!", field="id") from None
    return image


def update(context: RequestContext, image_id: str | uuid.UUID, values: Mapping[str, Any]) -> Image:
    """Update fields of an image; ``tags`` and ``properties`` are replaced completely.

    Raises NotFoundError, InvalidInputError, TooLargeError, ForbiddenError.
    """
    return _rewrite(context, image_id, lambda _: values)


def patch(context: RequestContext, image_id: str | uuid.UUID, changes: Sequence[Change]) -> Image:
    """Apply changes in order, all or none.

    Raises NotFoundError, InvalidInputError, TooLargeError, ForbiddenError, ConflictError for a missing property.
    """
    return _rewrite(context, image_id, lambda image: apply(context, image, changes))


def set_tag(context: RequestContext, image_id: str | uuid.UUID, tag: str, *, present: bool) -> None:
    """Add or remove one tag.  Raises NotFoundError when a missing tag is removed."""

    def tagged(image: Image) -> Mapping[str, Any]:
        if not present and tag not in image.tags:
            raise NotFoundError(f"The tag {tag[:80]} could not be found on image {image.id}.")
        return {"tags": [*image.tags, tag] if present else [each for each in image.tags if each != tag]}

    _rewrite(context, image_id, tagged)


def delete(context: RequestContext, image_id: str | uuid.UUID, *, though_used: bool = False) -> None:
    """Delete an image. Its data is deleted after the commit; its record is kept for servers that refer to it.

    Running guests keep their disks, and a host that is reading the data can finish. ``though_used``: also delete an
    image that is in use, for the service that uses it. Raises NotFoundError, ForbiddenError if the image is protected,
    ConflictError if it is in use.
    """
    with transaction.atomic():
        image = owned(context, image_id, lock=True)
        if image.protected:
            raise ForbiddenError(f"Image {image.id} is protected and cannot be deleted.")
        if not though_used:
            check_unused(image)
        now = timezone.now()
        Image.objects.filter(pk=image.pk).update(status=Image.Status.DELETED, deleted_at=now, updated_at=now)
        _remove_filter_rows(image)
        image.status = Image.Status.DELETED
        announce_record(image)
        transaction.on_commit(lambda: store.remove(image.id))


def deactivate(context: RequestContext, image_id: str | uuid.UUID) -> None:
    """Deny access to the data of an ``active`` image. A deactivated image is not changed.

    Raises NotFoundError, ForbiddenError in any other status.
    """
    _toggle(context, image_id, Image.Status.ACTIVE, Image.Status.DEACTIVATED, "deactivate")


def reactivate(context: RequestContext, image_id: str | uuid.UUID) -> None:
    """Allow access to the data of a ``deactivated`` image. An active image is not changed.

    Raises NotFoundError, ForbiddenError in any other status.
    """
    _toggle(context, image_id, Image.Status.DEACTIVATED, Image.Status.ACTIVE, "reactivate")


def _rewrite(
    context: RequestContext, image_id: str | uuid.UUID, values_of: Callable[[Image], Mapping[str, Any]]
) -> Image:
    """Lock the image and write the values that ``values_of`` returns for it."""
    with transaction.atomic():
        image = owned(context, image_id, lock=True)
        checked = check_values(context, values_of(image), image)
        if checked.get("project_id", image.project_id) != image.project_id:
            announce_record(image)
            owner_locks.lock_rows(Project, [checked["project_id"]])
            check_count(checked["project_id"])
        for name, value in checked.items():
            setattr(image, name, value)
        if checked:
            image.save(update_fields=[*checked, "updated_at"])
            _write_filter_rows(image, checked)
            announce_record(image)
    return image


def _write_filter_rows(image: Image, written: Mapping[str, Any]) -> None:
    if "tags" in written:
        _write_tags(image)
    if "properties" in written:
        _write_properties(image)


def _toggle(
    context: RequestContext, image_id: str | uuid.UUID, before: Image.Status, after: Image.Status, verb: str
) -> None:
    image = owned(context, image_id)
    with transaction.atomic():
        if move(image.id, before, after):
            image.status = after
            announce_record(image)
            return
    status = Image.objects.filter(pk=image.id).values_list("status", flat=True).get()
    if status == Image.Status.DELETED:
        raise NotFoundError(f"No image found with ID {image.id}")
    if status != after:
        raise ForbiddenError(f"Not allowed to {verb} image in status '{status}'")


def _write_tags(image: Image) -> None:
    """Write the ``ImageTag`` rows for ``image.tags``, in the transaction that writes the image."""
    there = set(ImageTag.objects.filter(image=image).values_list("tag", flat=True))
    expected = set(image.tags)
    if there - expected:
        ImageTag.objects.filter(image=image, tag__in=there - expected).delete()
    ImageTag.objects.bulk_create([ImageTag(image=image, tag=tag) for tag in sorted(expected - there)])


def _write_properties(image: Image) -> None:
    """Write the ``ImageProperty`` rows for ``image.properties``, in the transaction that writes the image."""
    there = dict(ImageProperty.objects.filter(image=image).values_list("name", "digest"))
    expected = {name: digest(value) for name, value in text_of(image.properties).items()}
    stale = {name for name, mark in there.items() if expected.get(name) != mark}
    if stale:
        ImageProperty.objects.filter(image=image, name__in=stale).delete()
    new = sorted(name for name, mark in expected.items() if there.get(name) != mark)
    ImageProperty.objects.bulk_create([ImageProperty(image=image, name=name, digest=expected[name]) for name in new])


def _remove_filter_rows(image: Image) -> None:
    ImageTag.objects.filter(image=image).delete()
    ImageProperty.objects.filter(image=image).delete()
