"""The members of shared images that are visible to a caller."""

import uuid

from django.db.models import QuerySet

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, NotFoundError
from provisioning.common.values.ids import NOBODY
from provisioning.images.models import Image, ImageMember
from provisioning.images.selectors.access import image_for, key, owns

NOT_SHARED = "Only shared images have members."


def members_for(context: RequestContext, image_id: str | uuid.UUID) -> list[ImageMember]:
    """Return an image's members, the oldest first. Its owner sees all, a member only itself.

    Raises NotFoundError, ForbiddenError if the image is not shared.
    """
    image = image_for(context, image_id)
    if image.visibility != Image.Visibility.SHARED:
        raise ForbiddenError(f"Not allowed to list members for image {image.id}: {NOT_SHARED}")
    return list(known_members(context, image).order_by("created_at", "id"))


def member_for(context: RequestContext, image_id: str | uuid.UUID, member_id: str | uuid.UUID) -> ImageMember:
    """Return one member. Raises NotFoundError if it does not exist, is not visible, or the image is not shared."""
    image = image_for(context, image_id)
    if image.visibility != Image.Visibility.SHARED:
        raise NotFoundError(NOT_SHARED)
    return find_member(context, image, member_id)


def answers_for(context: RequestContext) -> list[ImageMember]:
    """Return the memberships of the caller's project, with their images, the newest first."""
    rows = ImageMember.objects.filter(
        project_id=context.project_id or NOBODY, image__visibility=Image.Visibility.SHARED
    )
    rows = rows.exclude(image__status=Image.Status.DELETED).select_related("image")
    return list(rows.order_by("-created_at", "-id"))


def known_members(context: RequestContext, image: Image) -> QuerySet[ImageMember]:
    """Return the members of an image that are visible to the caller."""
    members = ImageMember.objects.filter(image=image)
    return members if owns(context, image) else members.filter(project_id=context.project_id or NOBODY)


def find_member(context: RequestContext, image: Image, member_id: str | uuid.UUID) -> ImageMember:
    """Return one member of a visible image.  Raises NotFoundError."""
    image_member = known_members(context, image).filter(project_id=key(member_id)).first()
    if image_member is None:
        raise NotFoundError(f"{str(member_id)[:64]} not found in the member list of the image {image.id}.")
    return image_member
