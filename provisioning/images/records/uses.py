"""Services that use images or follow imports, which register here. An image in use cannot be deleted."""

import uuid
from collections.abc import Callable, Collection

from provisioning.common.errors import ConflictError
from provisioning.common.wired import Wired
from provisioning.images.models import Image, ImageTask

User = Callable[[Image], str | None]
"""Returns the user of an image, such as ``the shelved server web-1 (ID)``; None: not in use."""

USERS = Wired[User]("The users of images")
Launched = Callable[[Collection[uuid.UUID]], set[uuid.UUID]]
"""Returns the ids among those given that servers were launched from."""
LAUNCHED = Wired[Launched]("The servers that were launched from images")
Follower = Callable[[ImageTask, str], None]
"""Called in the transaction that ends an import, with the reason of a failure; empty on success."""
FOLLOWERS = Wired[Follower]("The services that follow imports")


def check_unused(image: Image) -> None:
    """Raise ConflictError if the image is in use."""
    for user in USERS:
        named = user(image)
        if named is not None:
            raise ConflictError(f"Image {image.id} could not be deleted because it is in use: {named} uses it.")
