"""Reading the live log."""

from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Max, Min, Q
from django.utils import timezone

from provisioning.events.models import Event

EVERYBODY = "everybody"
"""The topic of what the pages of all projects may show."""
LATE = timedelta(seconds=60)
"""How long a transaction that has drawn a number may take to commit."""


class LoggedEvent(NamedTuple):
    """One committed event; ``id`` rises, but on PostgreSQL not strictly in the order of commits."""

    id: int
    topic: str
    kind: str
    payload: dict[str, Any]


def since(topics: Iterable[str], after: int, limit: int = 500) -> list[LoggedEvent]:
    """The oldest ``limit`` events of the topics with an id above ``after``, by id."""
    found = Event.objects.filter(topic__in=list(topics), id__gt=after).order_by("id")
    return [LoggedEvent(*row) for row in found.values_list("id", "topic", "kind", "payload")[:limit]]


def since_for_reader(
    topics: Iterable[str], after: int, limit: int = 500, *, where: Mapping[str, Any] | None = None
) -> list[LoggedEvent]:
    """The events that a reader who has come to ``after`` may lack; it may have seen some of them.

    Those of ``since``, and on PostgreSQL the recent ones below the number too: they may have been committed late.
    ``where`` is what their payloads must say, by Django's lookups.
    """
    late = connection.vendor == "postgresql"
    lacking = Q(id__gt=after) | Q(created_at__gt=timezone.now() - LATE) if late else Q(id__gt=after)
    more = {f"payload__{name}": value for name, value in (where or {}).items()}
    found = Event.objects.filter(lacking, topic__in=list(topics), **more).order_by("id")
    return [LoggedEvent(*row) for row in found.values_list("id", "topic", "kind", "payload")[:limit]]


def latest_id() -> int:
    """The highest id so far; 0 when nothing ever happened."""
    return Event.objects.aggregate(latest=Max("id"))["latest"] or 0


def oldest_id() -> int:
    """The lowest id still kept; 0 when nothing is kept."""
    return Event.objects.aggregate(oldest=Min("id"))["oldest"] or 0


def oldest_recent_id() -> int | None:
    """The lowest id of what was written within ``LATE``; None when that is nothing."""
    recent = Event.objects.filter(created_at__gt=timezone.now() - LATE)
    oldest: int | None = recent.aggregate(oldest=Min("id"))["oldest"]
    return oldest
