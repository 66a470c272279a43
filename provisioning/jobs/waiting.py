"""What lies in the queue, read without taking it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from django_q.models import OrmQ

from provisioning.jobs import registry
from provisioning.jobs.jobs import PING_TOPIC
from provisioning.jobs.message import JobMessage, MessageError, verify
from provisioning.jobs.models import JobRun

PINGS = f"{PING_TOPIC}:"
LOOK_AT = 100
"""Messages among which the oldest of ours is looked for."""


@dataclass(frozen=True, slots=True)
class Foreign:
    """A message that no worker would run, and why."""

    id: int
    topic: str
    reason: str


def waiting_jobs(name: str) -> Iterator[JobMessage]:
    """Yield the messages for one job, those that are being run among them."""
    known = registry.jobs[name]
    for text in OrmQ.objects.filter(key=known.topic).order_by("id").values_list("payload", flat=True).iterator():
        try:
            message = verify(text)
        except MessageError:
            continue
        if message.job == name:
            yield message


def foreign_messages() -> Iterator[Foreign]:
    """Yield what lies in the queue and is none of ours: not signed with our key, or for a job that nobody knows."""
    topics = {job.topic for job in registry.jobs.values()}
    for number, key, text in OrmQ.objects.order_by("id").values_list("id", "key", "payload").iterator():
        reason = _trouble(key, text, topics)
        if reason:
            yield Foreign(number, key, reason)


def _trouble(key: str, text: str, topics: set[str]) -> str:
    try:
        message = verify(text)
    except MessageError:
        return "it is not signed with this cloud's key"
    if message.job not in registry.jobs:
        return f"it is for the job {message.job[:80]!r}, which nobody knows"
    if key not in topics and not key.startswith(PINGS):
        return f"no worker serves the topic {key[:80]!r}"
    return ""


@dataclass(frozen=True, slots=True)
class Depth:
    """How many messages nobody has begun with, and when the oldest of them was sent."""

    waiting: int
    oldest: datetime | None


def depth() -> Depth:
    """Measure what waits, the groups' own pings aside."""
    begun = JobRun.objects.exclude(worker="").values("message_id")
    rows = OrmQ.objects.exclude(key__startswith=PINGS).exclude(id__in=begun).order_by("id")
    oldest = None
    for text in rows.values_list("payload", flat=True)[:LOOK_AT]:
        with contextlib.suppress(MessageError):
            oldest = datetime.fromtimestamp(verify(text).sent_at, UTC)
            break
    return Depth(rows.count(), oldest)
