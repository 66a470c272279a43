"""Transfers of image data for volumes. A host may only transfer images that its unfinished commands refer to."""

import uuid

from compute_agent.contract.commands import images_of
from compute_agent.contract.messages import decode_command_body
from compute_agent.contract.volume import VOLUME, VOLUME_COPY
from provisioning.common.errors import NotFoundError
from provisioning.hosts import commands
from provisioning.images.models import Image
from provisioning.volumes.models import Volume

NO_IMAGE = "The host has no command that needs this image."


def image_to_get(host_id: uuid.UUID, volume_id: uuid.UUID, image_id: uuid.UUID) -> Image:
    """Return an image whose data the host may download for a command that creates a volume from it.

    Raises NotFoundError otherwise.
    """
    volume = Volume.objects.filter(id=volume_id).first()
    if volume is not None:
        rows = commands.unfinished(VOLUME, volume.id).filter(host_id=host_id, generation=volume.generation)
        needed = set[str]().union(*(images_of(decode_command_body(row.body)) for row in rows))
        image = Image.objects.filter(id=image_id, status=Image.Status.ACTIVE).first()
        if image is not None and str(image_id) in needed:
            return image
    raise NotFoundError(NO_IMAGE)


def image_to_send(host_id: uuid.UUID, subject_id: uuid.UUID, image_id: uuid.UUID) -> Image:
    """Return an image that the host may upload as a copy of a volume. ``subject_id`` must be the image's id.

    Raises NotFoundError otherwise, or if the image was deleted.
    """
    rows = commands.unfinished(VOLUME_COPY, image_id).filter(host_id=host_id, kind="upload_volume_request")
    image = Image.objects.filter(id=image_id).exclude(status=Image.Status.DELETED).first()
    if image is None or subject_id != image_id or not rows.exists():
        raise NotFoundError(NO_IMAGE)
    return image
