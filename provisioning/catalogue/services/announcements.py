"""Events about the catalogue, for open pages."""

import uuid

from provisioning.events import services as events
from provisioning.events.selectors import EVERYBODY


def announce(project_id: uuid.UUID | None, entry: str) -> None:
    """Record in the caller's transaction that the state of an entry changed; ``project_id`` None: for all projects."""
    events.record(EVERYBODY if project_id is None else f"project:{project_id}", "catalogue", {"entry": entry})
