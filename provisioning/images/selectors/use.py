"""Images that servers can boot from."""

import uuid

from django.db.models import Q, QuerySet, UUIDField

from provisioning.common.context import RequestContext
from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import NOBODY
from provisioning.images.models import Image, ImageMember
from provisioning.images.records.formats import BOOTABLE_FORMATS
from provisioning.images.selectors.access import key, own, shared_with, usable


def usable_image_for(context: RequestContext, image_id: str | uuid.UUID) -> Image:
    """Return an image that the project may boot from. A shared image need not have been accepted. Private images of
    other projects are not found, even for operators. Raises InvalidInputError for ``imageRef`` if the image does not
    exist, has no data, is deactivated, or is not a disk.
    """
    image = _USABLE.first(image_id=key(image_id), project_id=context.project_id or NOBODY)
    if image is None:
        raise InvalidInputError(f"Can not find requested image {image_id}", field="imageRef")
    if image.status == Image.Status.DEACTIVATED:
        msg = f"Image {image_id} is deactivated: no server can boot from it until it is reactivated."
        raise InvalidInputError(msg, field="imageRef")
    if image.status != Image.Status.ACTIVE:
        raise InvalidInputError(f"Image {image_id} is not active.", field="imageRef")
    if image.disk_format not in BOOTABLE_FORMATS:
        msg = f"Image {image_id} is unacceptable: {image.disk_format} is not a disk that an instance can boot from."
        raise InvalidInputError(msg, field="imageRef")
    return image


_USABLE = Prepared(
    lambda image_id, project_id: Image.objects.exclude(status=Image.Status.DELETED).filter(
        usable(project_id), pk=image_id
    ),
    image_id=UUIDField(),
    project_id=UUIDField(),
)


def usable_images_for(context: RequestContext) -> list[Image]:
    """Return the images offered for a launch, by name.

    Community images and shared images that are not accepted are omitted; they can be used by id.
    """
    listed = own(context) | Q(visibility=Image.Visibility.PUBLIC) | shared_with(context, ImageMember.Status.ACCEPTED)
    rows = Image.objects.filter(listed, status=Image.Status.ACTIVE, hidden=False, disk_format__in=BOOTABLE_FORMATS)
    return list(rows.order_by("name", "-created_at"))


def images_of_use(project_id: uuid.UUID, *, listed: bool = True) -> QuerySet[Image]:
    """Return all images that a project may use, in any status.

    ``listed``: omit images that can only be used by id: hidden images, community images of other projects, and shared
    images that the project has rejected.
    """
    rows = Image.objects.exclude(status=Image.Status.DELETED).filter(usable(project_id))
    if not listed:
        return rows
    rejected = ImageMember.objects.filter(project_id=project_id, status=ImageMember.Status.REJECTED)
    others = ~Q(project_id=project_id)
    rows = rows.exclude(others & Q(visibility=Image.Visibility.COMMUNITY))
    return rows.filter(hidden=False).exclude(
        others & Q(visibility=Image.Visibility.SHARED, pk__in=rejected.values("image_id"))
    )
