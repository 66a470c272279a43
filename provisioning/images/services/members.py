"""Sharing of images: the owner adds and removes member projects; each member accepts or rejects the image."""

import uuid

from django.conf import settings
from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError, NotFoundError, TooLargeError
from provisioning.common.values.ids import read_id
from provisioning.identity.models import Project
from provisioning.identity.records import owner_locks
from provisioning.images.models import Image, ImageMember
from provisioning.images.selectors import image_for
from provisioning.images.selectors.access import key, sees_all
from provisioning.images.selectors.members import NOT_SHARED, find_member
from provisioning.images.services.access import locked, owned


def add_member(context: RequestContext, image_id: str | uuid.UUID, project_id: object) -> ImageMember:
    """Share a ``shared`` image with a project. The project may use it immediately; it is listed once accepted.

    Raises NotFoundError, ForbiddenError if the image is not the caller's or not shared, InvalidInputError for an
    unknown project, ConflictError if the project is already a member, TooLargeError beyond ``IMAGE_MEMBER_LIMIT``.
    """
    refusal = f"Not allowed to create members for image {str(image_id)[:64]}."
    with transaction.atomic():
        image = _shared(owned(context, image_id, lock=True, refusal=refusal))
        member = read_id(project_id)
        if member is None or not owner_locks.lock_rows(Project, [member]):
            raise InvalidInputError(f"There is no project {str(project_id)[:64]}.", field="member")
        there = set(ImageMember.objects.filter(image=image).values_list("project_id", flat=True))
        if member in there:
            raise ConflictError(f"Member {member.hex} is duplicated for image {image.id}", field="member")
        if len(there) >= settings.IMAGE_MEMBER_LIMIT:
            msg = (
                f"Image member limit exceeded for image {image.id}: Attempted: {len(there) + 1},"
                f" Maximum: {settings.IMAGE_MEMBER_LIMIT}"
            )
            raise TooLargeError(msg, field="member")
        return ImageMember.objects.create(image=image, project_id=member)


def set_member_status(
    context: RequestContext, image_id: str | uuid.UUID, member_id: str | uuid.UUID, status: object
) -> ImageMember:
    """Accept or reject an image for the caller's project, or reset it to ``pending``; operators may do so for any
    project.

    Raises NotFoundError, ForbiddenError for the image's owner or an image that is not shared, InvalidInputError for an
    unknown status.
    """
    with transaction.atomic():
        image = _shared(image_for(context, image_id))
        if image.project_id == context.project_id and not sees_all(context):
            raise ForbiddenError(f"Not allowed to update members for image {image.id}.")
        image = locked(image.id)
        member = find_member(context, image, member_id)
        if status not in ImageMember.Status.values:
            msg = f"Incorrect request: Status must be one of {', '.join(ImageMember.Status.values)}."
            raise InvalidInputError(msg, field="status")
        member.status = str(status)
        member.save(update_fields=["status", "updated_at"])
        return member


def remove_member(context: RequestContext, image_id: str | uuid.UUID, member_id: str | uuid.UUID) -> None:
    """Remove a member.

    Raises NotFoundError if the project is not a member, ForbiddenError if the image is not the caller's or not shared.
    """
    refusal = f"Not allowed to delete members for image {str(image_id)[:64]}."
    with transaction.atomic():
        image = _shared(owned(context, image_id, refusal=refusal))
        if not ImageMember.objects.filter(image=image, project_id=key(member_id)).delete()[0]:
            raise NotFoundError(f"{str(member_id)[:64]} not found in the member list of the image {image.id}.")


def _shared(image: Image) -> Image:
    if image.visibility != Image.Visibility.SHARED:
        raise ForbiddenError(NOT_SHARED)
    return image
