"""Writing the live log."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.conf import settings
from django.db.models import Max
from django.utils import timezone

from provisioning.events import wake
from provisioning.events.models import Event


def record(topic: str, kind: str, payload: dict[str, Any]) -> None:
    """Append one event in the caller's transaction; whoever follows the topic is woken when it commits.

    ``payload`` must be plain JSON (text, numbers, lists, dicts).
    """
    Event.objects.create(topic=topic, kind=kind, payload=payload)
    wake.announce(wake.EVENTS)


def prune() -> int:
    """Remove events older than ``EVENT_RETENTION``; returns how many.  The newest stays: numbers go on from it."""
    newest = Event.objects.aggregate(newest=Max("id"))["newest"]
    if newest is None:
        return 0
    limit = timezone.now() - timedelta(seconds=settings.EVENT_RETENTION)
    deleted, _ = Event.objects.filter(created_at__lt=limit, id__lt=newest).delete()
    return deleted
