"""The shape of a notification: Nova's envelope around a versioned object."""

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
"""Where they stand in the event log."""
NAMESPACE = "nova"
Payload = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Notification:
    """One notification; those of one ``subject`` reach the webhook in their order."""

    event_type: str
    publisher_id: str
    payload: Payload
    subject: str
    priority: Literal["INFO", "ERROR"] = "INFO"

    def message(self) -> dict[str, Any]:
        """Return what programs get, with an id and a time of its own."""
        return {
            "message_id": str(uuid.uuid4()),
            "event_type": self.event_type,
            "publisher_id": self.publisher_id,
            "priority": self.priority,
            "timestamp": timezone.now().isoformat(),
            "payload": self.payload,
        }


def versioned(name: str, version: str, data: dict[str, Any]) -> Payload:
    """Return a versioned object as Nova writes one."""
    return {
        "nova_object.name": name,
        "nova_object.namespace": NAMESPACE,
        "nova_object.version": version,
        "nova_object.data": data,
    }


def when(moment: datetime | None) -> str | None:
    """Return a moment as payloads have it: ISO 8601, UTC, whole seconds."""
    return None if moment is None else moment.strftime("%Y-%m-%dT%H:%M:%SZ")


def publisher(service: str, host: str = "") -> str:
    """Return ``nova-compute:<host>``; without a host, the machine that this process runs on."""
    return f"{service}:{host or _machine()}"


def is_wanted(event_type: str) -> bool:
    """Whether the operator wants notifications of this type (NOTIFICATIONS); the last pattern that fits says so."""
    return _is_wanted(tuple(settings.NOTIFICATIONS), event_type)


@functools.lru_cache(maxsize=1024)
def _is_wanted(patterns: Sequence[str], event_type: str) -> bool:
    wanted = False
    for pattern in patterns:
        name = pattern.removeprefix("-")
        if name == "all" or fnmatch.fnmatchcase(event_type, name):
            wanted = not pattern.startswith("-")
        elif name == "none":
            wanted = False
    return wanted


@functools.cache
def _machine() -> str:
    return socket.gethostname()
