"""Changes of images as events, for the project's open pages and scripts."""

import uuid

from provisioning.events import services as events
from provisioning.images.models import Image


def announce(project_id: uuid.UUID, image_id: uuid.UUID, status: str, percent: int | None = None) -> None:
    """Write that an image changed, in the caller's transaction; ``percent`` of an import that is under way."""
    payload = {"id": str(image_id), "status": status, **({} if percent is None else {"percent": percent})}
    events.record(f"project:{project_id}", "image", payload)


def announce_record(image: Image) -> None:
    """Write that a record was created, edited, deactivated, reactivated or deleted, in the caller's transaction.

    ``image`` is as before the change when its project changes: its list loses the image.
    """
    payload = {"id": str(image.id), "status": image.status, "record": True}
    events.record(f"project:{image.project_id}", "image", payload)
