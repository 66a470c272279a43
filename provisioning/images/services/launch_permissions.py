"""EC2 launch permissions: changes an image's visibility and members in one request."""

import uuid
from collections.abc import Collection, Iterable

from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.images.models import Image, ImageMember
from provisioning.images.selectors.access import FOR_ALL
from provisioning.images.services import records
from provisioning.images.services.access import owned
from provisioning.images.services.members import add_member, remove_member

PUBLIC, PRIVATE, SHARED = Image.Visibility.PUBLIC, Image.Visibility.PRIVATE, Image.Visibility.SHARED


@transaction.atomic
def change_permissions(
    context: RequestContext,
    image_id: uuid.UUID,
    *,
    add: Collection[uuid.UUID] = (),
    remove: Collection[uuid.UUID] = (),
    for_all: bool | None = None,
) -> Image:
    """Add and remove projects that may use an image. ``for_all``: whether it is public; None: unchanged.

    Adding a project that is a member, or removing one that is not, changes nothing. Raises NotFoundError,
    ForbiddenError if the image is not the caller's or may not become public, InvalidInputError for an unknown project
    or for members of a public image, TooLargeError for too many members.
    """
    image = owned(context, image_id, lock=True)
    if for_all is not None:
        image = _for_all(context, image, requested=for_all)
    added = set(add) - {image.project_id}
    if added and image.visibility in FOR_ALL:
        msg = f"All projects may use image {image.id}: it can only be shared with single projects if it is not public."
        raise InvalidInputError(msg, field="visibility")
    if added and image.visibility == PRIVATE:
        image = records.update(context, image.id, {"visibility": SHARED.value})
        _remove(context, image, _members(image))  # members from an earlier time when it was shared
    for project in sorted(added - _members(image)):
        add_member(context, image.id, str(project))
    if image.visibility == SHARED:
        _remove(context, image, _members(image) & set(remove))
    return image


@transaction.atomic
def reset_permissions(context: RequestContext, image_id: uuid.UUID) -> Image:
    """Set an image to private and remove all members.  Raises NotFoundError, ForbiddenError."""
    image = owned(context, image_id, lock=True)
    if image.visibility != SHARED:
        image = records.update(context, image.id, {"visibility": SHARED.value})
    _remove(context, image, _members(image))
    return records.update(context, image.id, {"visibility": PRIVATE.value})


def _for_all(context: RequestContext, image: Image, *, requested: bool) -> Image:
    if requested and image.visibility != PUBLIC:
        return records.update(context, image.id, {"visibility": PUBLIC.value})
    if not requested and image.visibility in FOR_ALL:
        return records.update(context, image.id, {"visibility": SHARED.value})
    return image


def _members(image: Image) -> set[uuid.UUID]:
    return set(ImageMember.objects.filter(image=image).values_list("project_id", flat=True))


def _remove(context: RequestContext, image: Image, projects: Iterable[uuid.UUID]) -> None:
    for project in sorted(projects):
        remove_member(context, image.id, project)
