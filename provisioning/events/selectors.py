"""Queries of the event log."""

import uuid
from collections.abc import Iterable, Mapping
from datetime import timedelta
from typing import Any, NamedTuple

from django.db import connection
from django.db.models import Min, Q
from django.utils import timezone

from provisioning.common.database.prepared import Prepared
from provisioning.events.models import Event

EVERYBODY = "everybody"
"""Topic of events for the pages of all projects."""
OPERATORS = "operators"
"""Topic of events for the lists of operators, which have records of all projects."""
LATE = timedelta(seconds=60)
"""Maximum time from the assignment of an event's number to the commit of its transaction."""


def of_user(user_id: uuid.UUID | None) -> str:
    """Return the topic of events for the pages of one user."""
    return f"user:{user_id}"


class LoggedEvent(NamedTuple):
    """A committed event; ``id`` increases, but on PostgreSQL not strictly in the order of commits."""

    id: int
    topic: str
    kind: str
    payload: dict[str, Any]


def since(topics: Iterable[str], after: int, limit: int = 500) -> list[LoggedEvent]:
    """Return the oldest ``limit`` events of the topics with an id above ``after``, by id."""
    rows = Event.objects.filter(topic__in=list(topics), id__gt=after).order_by("id")
    return [LoggedEvent(*row) for row in rows.values_list("id", "topic", "kind", "payload")[:limit]]


def since_for_reader(
    topics: Iterable[str], after: int, limit: int = 500, *, where: Mapping[str, Any] | None = None
) -> list[LoggedEvent]:
    """Return the events that a reader which has read up to the id ``after`` may have missed; it may already know some
    of them.

    These are the events of ``since``, and on PostgreSQL also recent ones with lower ids, which may have been committed
    later. ``where`` filters by the payloads, with Django's lookups.
    """
    late = connection.vendor == "postgresql"
    lacking = Q(id__gt=after) | Q(created_at__gt=timezone.now() - LATE) if late else Q(id__gt=after)
    more = {f"payload__{name}": value for name, value in (where or {}).items()}
    rows = Event.objects.filter(lacking, topic__in=list(topics), **more).order_by("id")
    return [LoggedEvent(*row) for row in rows.values_list("id", "topic", "kind", "payload")[:limit]]


def latest_id() -> int:
    """Return the highest id so far; 0 for an empty log."""
    return _LATEST.first() or 0


_LATEST = Prepared(lambda: Event.objects.order_by("-id").values_list("id", flat=True)[:1])


def oldest_id() -> int:
    """Return the lowest remaining id; 0 for an empty log."""
    return Event.objects.aggregate(oldest=Min("id"))["oldest"] or 0


def oldest_recent_id() -> int | None:
    """Return the lowest id of the events written within ``LATE``; None if there are no such events."""
    recent = Event.objects.filter(created_at__gt=timezone.now() - LATE)
    oldest: int | None = recent.aggregate(oldest=Min("id"))["oldest"]
    return oldest
