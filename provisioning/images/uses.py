"""What needs an image's data for longer than a moment, told by the services above: such an image is not deleted."""

from collections.abc import Callable

from provisioning.common.errors import ConflictError
from provisioning.common.wired import Wired
from provisioning.images.models import Image

User = Callable[[Image], str | None]
"""Names what needs an image, such as ``the shelved server web-1 (ID)``; None: nothing does."""

USERS = Wired[User]("The users of images")


def check_unused(image: Image) -> None:
    """Raise ConflictError when something needs the image."""
    for user in USERS:
        named = user(image)
        if named is not None:
            raise ConflictError(f"Image {image.id} could not be deleted because it is in use: {named} needs it.")
