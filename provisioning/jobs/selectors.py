"""Queries of the queue, the workers and the periodic jobs; they change nothing."""

import contextlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from django.db.models import Count, Max, Min, QuerySet
from django.utils import timezone
from django_q.models import OrmQ

from provisioning.jobs.jobs import PING_TOPIC
from provisioning.jobs.models import JobRun, Lease, WorkerBeat
from provisioning.jobs.queue.cast import JobMessage, MessageError, verify
from provisioning.jobs.registry import jobs, periodic_jobs

LEASE = timedelta(seconds=300)
"""Duration of a lease, after which another group may run the job of a lost holder. If the holder died on the same
machine, another group may run the job immediately.
"""
PATIENCE = 60.0
"""Seconds that a periodic job may be late, in addition to three intervals."""
ALIVE_WITHIN = 20.0
"""A worker group counts as alive for this many seconds after its last beat."""

PINGS = f"{PING_TOPIC}:"
LOOK_AT = 100
"""Maximum number of messages, oldest first, that are read to find a valid one."""


def live_workers() -> int:
    """Return the number of worker groups that are alive."""
    return _alive().count()


def live_groups() -> Iterator[tuple[str, frozenset[str], datetime]]:
    """Yield the machine, the topics and the last beat of each live worker group, oldest beat first."""
    for name, topics, beat_at in _alive().order_by("beat_at").values_list("name", "topics", "beat_at"):
        yield name.partition(":")[0], frozenset(topics.split(",")), beat_at


def newest_beat() -> datetime | None:
    """Return the last heartbeat of any worker group; None if there is none."""
    newest: datetime | None = WorkerBeat.objects.aggregate(newest=Max("beat_at"))["newest"]
    return newest


def last_finished(name: str) -> datetime | None:
    """Return when a periodic job last ended in any group; None when it never did."""
    return Lease.objects.filter(name=name).values_list("last_finished_at", flat=True).first()


def depths() -> dict[str, tuple[int, float]]:
    """Return topic → number of unfinished messages, and seconds since the oldest was sent."""
    result = {job.topic: (0, 0.0) for job in jobs.values()}
    rows = OrmQ.objects.filter(key__in=list(result)).values_list("key").annotate(many=Count("pk"), oldest=Min("pk"))
    first = {oldest: (key, many) for key, many, oldest in rows.order_by()}
    for number, text in OrmQ.objects.filter(id__in=list(first)).values_list("id", "payload"):
        topic, many = first[number]
        result[topic] = (many, _age(text))
    return result


def _age(text: str) -> float:
    try:
        return max(time.time() - verify(text).sent_at, 0.0)
    except MessageError:
        return 0.0


@dataclass(frozen=True, slots=True)
class Periodic:
    """A periodic job: its interval in seconds, and the state of its runs.

    ``holder`` is the worker group that runs it or ran it last; ``running_since`` None: it is not running.
    """

    name: str
    every: float
    last_run_at: datetime | None
    last_finished_at: datetime | None
    last_seconds: float | None
    last_error: str
    holder: str
    running_since: datetime | None
    overdue: bool


def periodic_work(now: datetime) -> list[Periodic]:
    """Return all registered periodic jobs, by name; one query.

    A job is overdue if it has not begun for three intervals and a minute: no worker is running, or the job hangs.
    """
    leases = {lease.name: lease for lease in Lease.objects.all()}
    return [periodic(job.name, job.every, leases.get(job.name), now) for _, job in sorted(periodic_jobs.items())]


def periodic(name: str, every: float, lease: Lease | None, now: datetime) -> Periodic:
    """Return the state of a job by its lease; ``lease`` is None if the job has never run."""
    if lease is None:
        return Periodic(name, every, None, None, None, "", "", None, overdue=True)
    held = lease.holder and lease.expires_at > now and lease.expires_at != lease.last_finished_at
    running = lease.expires_at - LEASE if held else None
    patience = timedelta(seconds=3 * every + PATIENCE)
    overdue = lease.last_run_at is None or lease.last_run_at < now - patience
    if running is not None:
        overdue = running < now - patience
    return Periodic(
        name,
        every,
        lease.last_run_at,
        lease.last_finished_at,
        lease.last_seconds,
        lease.last_error,
        lease.holder,
        running,
        overdue,
    )


def _alive() -> QuerySet[WorkerBeat]:
    return WorkerBeat.objects.filter(beat_at__gte=timezone.now() - timedelta(seconds=ALIVE_WITHIN))


@dataclass(frozen=True, slots=True)
class Foreign:
    """A message that no worker will run, with the reason."""

    id: int
    topic: str
    reason: str


def waiting_jobs(name: str) -> Iterator[JobMessage]:
    """Yield the messages for a job, including those that are being run."""
    known = jobs[name]
    for text in OrmQ.objects.filter(key=known.topic).order_by("id").values_list("payload", flat=True).iterator():
        try:
            message = verify(text)
        except MessageError:
            continue
        if message.job == name:
            yield message


def foreign_messages() -> Iterator[Foreign]:
    """Yield invalid messages in the queue: not signed with this cloud's key, or for an unknown job or topic."""
    topics = {job.topic for job in jobs.values()}
    for number, key, text in OrmQ.objects.order_by("id").values_list("id", "key", "payload").iterator():
        reason = _trouble(key, text, topics)
        if reason:
            yield Foreign(number, key, reason)


def _trouble(key: str, text: str, topics: set[str]) -> str:
    try:
        message = verify(text)
    except MessageError:
        return "it is not signed with this cloud's key"
    if message.job not in jobs:
        return f"it is for the job {message.job[:80]!r}, which is unknown"
    if key not in topics and not key.startswith(PINGS):
        return f"no worker serves the topic {key[:80]!r}"
    return ""


@dataclass(frozen=True, slots=True)
class Depth:
    """Number of messages that are not started, and the time when the oldest was sent."""

    waiting: int
    oldest: datetime | None


def depth() -> Depth:
    """Return the depth of the queue, without the pings of groups."""
    begun = JobRun.objects.exclude(worker="").values("message_id")
    rows = OrmQ.objects.exclude(key__startswith=PINGS).exclude(id__in=begun).order_by("id")
    oldest = None
    for text in rows.values_list("payload", flat=True)[:LOOK_AT]:
        with contextlib.suppress(MessageError):
            oldest = datetime.fromtimestamp(verify(text).sent_at, UTC)
            break
    return Depth(rows.count(), oldest)
