"""Checks of the flavor and the image of a request; errors contain the field name of the Compute API."""

import math
from collections.abc import Mapping
from typing import Any

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.compute import selectors
from provisioning.compute.flavors.guest_hardware import check_demands
from provisioning.compute.flavors.sizes import GIB, root_gb
from provisioning.compute.models import Flavor
from provisioning.identity import policy
from provisioning.images import selectors as images
from provisioning.images.models import Image
from provisioning.images.selectors.companions import companions

ENCRYPTED = "cinder_encryption_key_id"
ZERO_DISK_RULE = "os_compute_api:servers:create:zero_disk_flavor"
ZERO_DISK = "Only volume-backed servers are allowed for flavors with zero disk."


def check_flavor(context: RequestContext, ref: str) -> Flavor:
    """Return a flavor that the caller may use. Raises InvalidInputError."""
    try:
        return selectors.flavor_for(context, ref)
    except NotFoundError as error:
        raise InvalidInputError(f"Flavor {ref!r} could not be found.", field="flavorRef") from error


def check_image(context: RequestContext, image_id: str) -> Image:
    """Return an image from which the project may boot; checks its kernel and ramdisk. Raises InvalidInputError."""
    try:
        image = images.usable_image_for(context, image_id)
        companions(image, context.project_id or image.project_id)
    except NotFoundError as error:
        raise InvalidInputError(f"Image {image_id!r} could not be found.", field="imageRef") from error
    except InvalidInputError as error:
        raise InvalidInputError(error.message, field="imageRef") from error
    if image.properties.get(ENCRYPTED):
        raise InvalidInputError(f"The image has {ENCRYPTED}: create an encrypted volume from it.", field="imageRef")
    return image


def may_be_without_disk(context: RequestContext, flavor: Flavor) -> bool:
    """Whether the caller may launch a server with a local root disk from a flavor without a disk size.

    Such a root disk has the size of the image. The policy rule is Nova's.
    """
    return flavor.root_gb > 0 or policy.allows(context, ZERO_DISK_RULE)


def needs_config_drive(properties: Mapping[str, object]) -> bool:
    return properties.get("img_config_drive") == "mandatory"


def check_memory(flavor: Flavor, image: Image) -> None:
    """Raise InvalidInputError for ``flavorRef`` when the image needs more memory than the flavor has."""
    if image.min_ram > flavor.memory_mb:
        raise InvalidInputError(
            f"The image needs {image.min_ram} MiB of memory; flavor {flavor.name} has {flavor.memory_mb} MiB.",
            field="flavorRef",
            others=("imageRef",),
        )


def check_fit(flavor: Flavor, image: Image) -> None:
    """Raise InvalidInputError for ``flavorRef`` when the image needs more memory or disk than the flavor has."""
    check_memory(flavor, image)
    if flavor.root_gb == 0:
        return
    if image.min_disk > flavor.root_gb:
        raise InvalidInputError(
            f"The image needs a disk of {image.min_disk} GiB; flavor {flavor.name} has {flavor.root_gb} GiB.",
            field="flavorRef",
            others=("imageRef",),
        )
    bytes_needed = size_of(image)
    if bytes_needed > flavor.root_gb * GIB:
        raise InvalidInputError(
            f"The image is {math.ceil(bytes_needed / GIB)} GiB large; the disk of"
            f" flavor {flavor.name} has {flavor.root_gb} GiB.",
            field="flavorRef",
            others=("imageRef",),
        )


def misfit(flavor: Flavor, image: Image | None) -> str:
    """Return why a launch of this image with this flavor would be rejected; empty: it would be accepted."""
    try:
        if image is not None:
            check_fit(flavor, image)
        check_demands(image.properties if image is not None else {}, flavor)
    except InvalidInputError as error:
        return error.message
    return ""


def size_of(image: Image | None) -> int:
    """Return the bytes of a disk with the data of the image; 0 without an image."""
    return max(image.virtual_size or 0, image.size or 0) if image is not None else 0


def check_disk(flavor: Mapping[str, Any], image: Image) -> None:
    """Raise InvalidInputError for ``imageRef`` when the image's disk is larger than the root disk of the instance,
    given by its copy of the flavor.
    """
    room, needed = root_gb(flavor), math.ceil(size_of(image) / GIB)
    if needed > room:
        raise InvalidInputError(
            f"The image is {needed} GiB large; the server has a disk of {room} GiB.", field="imageRef"
        )
