"""Events about changes of images, for the project's open pages and scripts."""

import uuid

from provisioning.events import services as events
from provisioning.images.models import Image


def announce(project_id: uuid.UUID, image_id: uuid.UUID, status: str, percent: int | None = None) -> None:
    """Record a change of an image in the caller's transaction; ``percent``: the progress of an import."""
    payload = {"id": str(image_id), "status": status, **({} if percent is None else {"percent": percent})}
    events.record(f"project:{project_id}", "image", payload)


def announce_record(image: Image) -> None:
    """Record in the caller's transaction that an image was created, edited, deactivated, reactivated or deleted.

    A caller that moves an image to another project also calls this with the image's previous state before, so that the
    list of the previous project is updated.
    """
    payload = {"id": str(image.id), "status": image.status, "record": True}
    events.record(f"project:{image.project_id}", "image", payload)
