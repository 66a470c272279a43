"""The format of a notification: Nova's envelope around a versioned object."""

import fnmatch
import functools
import socket
import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Literal

from django.conf import settings
from django.utils import timezone

TOPIC = "notifications"
"""Topic of notifications in the event log."""
NAMESPACE = "nova"
Payload = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Notification:
    """A notification. The notifications of one ``subject`` are delivered in order."""

    event_type: str
    publisher_id: str
    payload: Payload
    subject: str
    priority: Literal["INFO", "ERROR"] = "INFO"

    def message(self) -> dict[str, Any]:
        """Return the message for receivers, with a new id and the current time."""
        return {
            "message_id": str(uuid.uuid4()),
            "event_type": self.event_type,
            "publisher_id": self.publisher_id,
            "priority": self.priority,
            "timestamp": timezone.now().isoformat(),
            "payload": self.payload,
        }


def versioned(name: str, version: str, data: dict[str, Any]) -> Payload:
    """Return a versioned object in Nova's format."""
    return {
        "nova_object.name": name,
        "nova_object.namespace": NAMESPACE,
        "nova_object.version": version,
        "nova_object.data": data,
    }


def when(moment: datetime | None) -> str | None:
    """Return a time in the format of payloads: ISO 8601, UTC, whole seconds."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def publisher(service: str, host: str = "") -> str:
    """Return ``<service>:<host>``; ``host`` defaults to the name of this machine."""
    return f"{service}:{host or _machine()}"


def is_selected(event_type: str) -> bool:
    """Whether NOTIFICATIONS enables this type; the last matching pattern decides."""
    return _is_selected(tuple(settings.NOTIFICATIONS), event_type)


@functools.lru_cache(maxsize=1024)
def _is_selected(patterns: Sequence[str], event_type: str) -> bool:
    result = False
    for pattern in patterns:
        name = pattern.removeprefix("-")
        if name == "all" or fnmatch.fnmatchcase(event_type, name):
            result = not pattern.startswith("-")
        elif name == "none":
            result = False
    return result


@functools.cache
def _machine() -> str:
    return socket.gethostname()
