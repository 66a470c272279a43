"""Uses of images by other services, which register here. An image in use cannot be deleted."""

from collections.abc import Callable

from provisioning.common.errors import ConflictError
from provisioning.common.wired import Wired
from provisioning.images.models import Image

User = Callable[[Image], str | None]
"""Returns the user of an image, such as ``the shelved server web-1 (ID)``; None: not in use."""

USERS = Wired[User]("The users of images")


def check_unused(image: Image) -> None:
    """Raise ConflictError if the image is in use."""
    for user in USERS:
        named = user(image)
        if named is not None:
            raise ConflictError(f"Image {image.id} could not be deleted because it is in use: {named} uses it.")
