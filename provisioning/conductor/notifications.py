"""Nova's notifications of a launch: facts for programs, beside the state events that pages follow."""

from __future__ import annotations

from typing import Literal

from provisioning.compute.models import Instance
from provisioning.events.services import Entry

TOPIC = "notifications"


def notification(
    event: Literal["create.start", "create.end", "create.error"], instance: Instance, *, reason: str = ""
) -> Entry:
    """Return ``compute.instance.<event>`` as an event to be written."""
    return (
        TOPIC,
        f"compute.instance.{event}",
        {
            "instance_id": str(instance.id),
            "project_id": str(instance.project_id),
            "user_id": str(instance.user_id),
            "request_id": instance.request_id,
            "attempt": instance.attempt,
            "reason": reason,
        },
    )
