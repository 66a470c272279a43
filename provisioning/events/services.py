"""Writing the live log."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.conf import settings
from django.core.management.color import no_style
from django.db import connection
from django.db.models import Max
from django.utils import timezone

from provisioning.common.prepared import PreparedInsert
from provisioning.events import wake
from provisioning.events.models import Event

Entry = tuple[str, str, dict[str, Any]]
"""Topic, kind and payload of an event that is to be written."""


def record(topic: str, kind: str, payload: dict[str, Any]) -> None:
    """Append one event in the caller's transaction; whoever follows the topic is woken when it commits.

    ``payload`` must be plain JSON (text, numbers, lists, dicts).
    """
    record_all([(topic, kind, payload)])


def record_all(entries: Sequence[Entry]) -> None:
    """Append events in their order, in one statement; else as ``record``."""
    _APPEND(Event(topic=topic, kind=kind, payload=payload) for topic, kind, payload in entries)
    wake.announce(wake.EVENTS)


_APPEND = PreparedInsert(Event)


def prune() -> int:
    """Remove events older than ``EVENT_RETENTION``; returns how many.  The newest stays: numbers go on from it."""
    newest = Event.objects.aggregate(newest=Max("id"))["newest"]
    if newest is None:
        return 0
    limit = timezone.now() - timedelta(seconds=settings.EVENT_RETENTION)
    deleted, _ = Event.objects.filter(created_at__lt=limit, id__lt=newest).delete()
    return deleted


def restart(leap: int) -> None:
    """Drop what is kept and go on ``leap`` numbers above it, in the caller's transaction.

    After a restore numbers would be given out again that readers have seen: whoever resumes from one reloads.
    """
    newest = Event.objects.aggregate(newest=Max("id"))["newest"] or 0
    Event.objects.all().delete()
    Event.objects.create(id=newest + leap, topic="restart", kind="restart")
    for statement in connection.ops.sequence_reset_sql(no_style(), [Event]):
        with connection.cursor() as cursor:
            cursor.execute(statement)
