"""Access to images: which images exist for a caller."""

import uuid
from collections.abc import Iterable

from django.db.models import Q, QuerySet, Value

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.identity import policy
from provisioning.images.models import Image, ImageMember

FOR_ALL = (Image.Visibility.PUBLIC, Image.Visibility.COMMUNITY)


def sees_all(context: RequestContext) -> bool:
    """Return whether the caller may see the images of all projects."""
    return policy.allows(context, "novella:get_images:all_projects")


def owns(context: RequestContext, image: Image) -> bool:
    """Return whether the caller has the rights of the image's owner."""
    return image.project_id == context.project_id or sees_all(context)


def own(context: RequestContext) -> Q:
    """Match the images of the caller's project; without a project, none."""
    return Q(project_id=context.project_id or NOBODY)


def shared_with(context: RequestContext, status: str | None = None) -> Q:
    """Match images that are shared with the caller's project; ``status``: the member status, None: any status."""
    members = _members(context.project_id or NOBODY)
    return _shared(members if status is None else members.filter(status=status))


def usable(project_id: uuid.UUID | Value) -> Q:
    """Match the images that a project may use: its own, shared with it, public and community images."""
    return Q(project_id=project_id) | Q(visibility__in=FOR_ALL) | _shared(_members(project_id))


def _members(project_id: uuid.UUID | Value) -> QuerySet[ImageMember]:
    return ImageMember.objects.filter(project_id=project_id)


def _shared(members: QuerySet[ImageMember]) -> Q:
    return Q(visibility=Image.Visibility.SHARED, pk__in=members.values("image_id"))


def visible_images(context: RequestContext) -> QuerySet[Image]:
    """Return all images that the caller may use; operators may use all."""
    every = Image.objects.exclude(status=Image.Status.DELETED)
    return every if sees_all(context) else every.filter(usable(context.project_id or NOBODY))


def images_by_id(context: RequestContext, ids: Iterable[uuid.UUID]) -> list[Image]:
    """Return the images with these ids that the caller may use."""
    return list(visible_images(context).filter(pk__in=list(ids)))


def image_for(context: RequestContext, image_id: str | uuid.UUID) -> Image:
    """Return one image. Raises NotFoundError if it does not exist or is not visible to the caller."""
    image = visible_images(context).filter(pk=key(image_id)).first()
    if image is None:
        raise NotFoundError(f"No image found with ID {str(image_id)[:64]}")
    return image


def key(identity: str | uuid.UUID) -> uuid.UUID:
    """Parse an id. Returns ``NOBODY``, which is not the id of any image, for text that is not a UUID."""
    return read_id(identity) or NOBODY
