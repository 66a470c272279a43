"""Instances that events change."""

import uuid
from collections.abc import Sequence

from provisioning.events.selectors import LoggedEvent

INSTANCE, NETWORK, HOST = "instance", "network", "host"
"""Kinds of events that change instances or their rows."""


def changed_instances(events: Sequence[LoggedEvent]) -> dict[uuid.UUID, str]:
    """Return the instances that events change, with their names; events of networks and hosts have no name."""
    affected = {
        key: "" for event in events if event.kind in {NETWORK, HOST} for key in event.payload.get("instances", ())
    }
    own = {event.payload["id"]: event.payload["name"] for event in events if event.kind == INSTANCE}
    return {uuid.UUID(key): name for key, name in (affected | own).items()}
