"""The data of images, for callers that may read it."""

import os
import uuid
from pathlib import Path
from typing import Any

from django.conf import settings

from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError
from provisioning.identity import policy
from provisioning.images.data import store
from provisioning.images.errors import NoImageDataError
from provisioning.images.models import Image
from provisioning.images.selectors.access import image_for

WITH_DATA = (Image.Status.ACTIVE, Image.Status.DEACTIVATED)


def open_data(image: Image) -> Path:
    """Return the file with an image's data. Raises NoImageDataError if it has none."""
    path = store.path_of(image.id)
    if image.status not in WITH_DATA or not path.exists():
        raise NoImageDataError(f"Image {image.id} has no data.")
    return path


def locations_for(context: RequestContext, image_id: str | uuid.UUID) -> list[dict[str, Any]]:
    """Return the locations of an image's data as Glance shows them: ``url`` and the name of the store.

    Raises NotFoundError.
    """
    image = image_for(context, image_id)
    try:
        path = open_data(image)
    except NoImageDataError:
        return []
    return [{"url": path.absolute().as_uri(), "metadata": {"store": settings.IMAGE_STORE_ID}}]


def data_for(context: RequestContext, image: Image) -> Path:
    """Return the file with the data of a visible image. Raises ForbiddenError if the image is deactivated."""
    if image.status == Image.Status.DEACTIVATED and not policy.allows(context, "novella:download_deactivated_image"):
        raise ForbiddenError("The requested image has been deactivated. Image data download is forbidden.")
    return open_data(image)


def arrived_of(image: Image) -> int | None:
    """Return the number of bytes that an upload in parts has received; None if there is no such upload."""
    if image.status != Image.Status.UPLOADING:
        return None
    try:
        return store.arriving_of(image.id).stat().st_size
    except FileNotFoundError:
        return None


def end_of_arrived(image: Image, most: int) -> bytes:
    """Return the last received bytes, at most ``most``.

    A client compares them with its file before it resumes the upload.
    """
    with store.arriving_of(image.id).open("rb") as file:
        file.seek(-min(most, file.seek(0, os.SEEK_END)), os.SEEK_END)
        return file.read(most)
