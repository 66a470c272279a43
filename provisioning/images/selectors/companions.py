"""The kernel and ramdisk images that an image boots with."""

import uuid

from django.db.models import Q

from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import read_id
from provisioning.images.models import Image, ImageMember

KINDS = {"kernel_id": "aki", "ramdisk_id": "ari"}
"""Property of an image → the disk format of the image it refers to, as in Glance."""


def companions(image: Image, project_id: uuid.UUID) -> dict[str, Image]:
    """Return property → kernel or ramdisk image; empty for an image that boots from its own disk.

    Raises InvalidInputError if one of these images does not exist, may not be used by the project, has no data, or has
    another format.
    """
    named = {name: read_id(str(image.properties[name])) for name in KINDS if image.properties.get(name)}
    if not named:
        return {}
    usable = (
        Q(project_id=project_id)
        | Q(visibility__in=(Image.Visibility.PUBLIC, Image.Visibility.COMMUNITY))
        | Q(
            visibility=Image.Visibility.SHARED,
            pk__in=ImageMember.objects.filter(project_id=project_id).values("image_id"),
        )
    )
    needed = [each for each in named.values() if each is not None]
    rows = {row.id: row for row in Image.objects.filter(usable, pk__in=needed, status=Image.Status.ACTIVE)}
    result: dict[str, Image] = {}
    for name, identity in named.items():
        row = rows.get(identity) if identity is not None else None
        if row is None or row.disk_format != KINDS[name]:
            what = name.removesuffix("_id")
            text = str(image.properties[name])[:64]
            msg = f"Image {image.id} names a {what} {text}, which does not exist or is not a {what}."
            raise InvalidInputError(msg, field="imageRef")
        result[name] = row
    return result
