"""Writing to the event log."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.color import no_style
from django.db import connection
from django.db.models import Max
from django.utils import timezone

from provisioning.common.database.prepared import PreparedInsert
from provisioning.events import wake
from provisioning.events.models import Event

Entry = tuple[str, str, dict[str, Any]]
"""Topic, kind and payload of an event to write."""


def record(topic: str, kind: str, payload: dict[str, Any]) -> None:
    """Append an event in the caller's transaction; subscribers of the topic are woken when it commits.

    ``payload`` must be plain JSON (text, numbers, lists, dicts).
    """
    record_all([(topic, kind, payload)])


def record_all(entries: Sequence[Entry]) -> None:
    """Append events in their order, with one statement; otherwise like ``record``."""
    _APPEND(Event(topic=topic, kind=kind, payload=payload) for topic, kind, payload in entries)
    wake.announce(wake.EVENTS)


_APPEND = PreparedInsert(Event)


def prune() -> int:
    """Delete events older than ``EVENT_RETENTION``; returns their number. The newest is kept, so that ids continue from
    it.
    """
    newest = Event.objects.aggregate(newest=Max("id"))["newest"]
    if newest is None:
        return 0
    limit = timezone.now() - timedelta(seconds=settings.EVENT_RETENTION)
    deleted, _ = Event.objects.filter(created_at__lt=limit, id__lt=newest).delete()
    return deleted


def restart(leap: int) -> None:
    """Delete all events and continue ``leap`` ids above the last one, in the caller's transaction.

    Without this, ids that readers have already seen would be assigned again after a restore. Readers that resume from
    an older id reload.
    """
    newest = Event.objects.aggregate(newest=Max("id"))["newest"] or 0
    Event.objects.all().delete()
    Event.objects.create(id=newest + leap, topic="restart", kind="restart")
    for statement in connection.ops.sequence_reset_sql(no_style(), [Event]):
        with connection.cursor() as cursor:
            cursor.execute(statement)
