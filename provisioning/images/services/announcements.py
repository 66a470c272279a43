"""Changes of images as events, for the project's open pages and scripts."""

import uuid

from provisioning.events import services as events


def announce(project_id: uuid.UUID, image_id: uuid.UUID, status: str, percent: int | None = None) -> None:
    """Write that an image changed, in the caller's transaction; ``percent`` of an import that is under way."""
    payload = {"id": str(image_id), "status": status, **({} if percent is None else {"percent": percent})}
    events.record(f"project:{project_id}", "image", payload)
