"""Reading the state of queue and workers."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.db.models import Count, Min, QuerySet
from django.utils import timezone
from django_q.models import OrmQ

from provisioning.jobs.message import MessageError, verify
from provisioning.jobs.models import Lease, WorkerBeat
from provisioning.jobs.registry import jobs, periodic_jobs

LEASE = timedelta(seconds=300)
"""How long a holder that vanished keeps others from a job; a dead one of the same machine is noticed at once."""
PATIENCE = 60.0
"""Seconds that a periodic job may be late beside some of its intervals."""
ALIVE_WITHIN = 20.0
"""Seconds since the last beat of a worker group that counts as alive."""


def live_workers() -> int:
    """How many worker groups are alive."""
    return _alive().count()


def live_groups() -> Iterator[tuple[str, frozenset[str], datetime]]:
    """Yield of each live worker group its machine, the topics it serves and when it was last heard of, oldest first."""
    for name, topics, beat_at in _alive().order_by("beat_at").values_list("name", "topics", "beat_at"):
        yield name.partition(":")[0], frozenset(topics.split(",")), beat_at


def depths() -> dict[str, tuple[int, float]]:
    """Return of each topic how many messages are not done with, and how many seconds ago the oldest was sent."""
    found = {job.topic: (0, 0.0) for job in jobs.values()}
    rows = OrmQ.objects.filter(key__in=list(found)).values_list("key").annotate(many=Count("pk"), oldest=Min("pk"))
    first = {oldest: (key, many) for key, many, oldest in rows.order_by()}
    for number, text in OrmQ.objects.filter(id__in=list(first)).values_list("id", "payload"):
        topic, many = first[number]
        found[topic] = (many, _age(text))
    return found


def _age(text: str) -> float:
    try:
        return max(time.time() - verify(text).sent_at, 0.0)
    except MessageError:
        return 0.0


@dataclass(frozen=True, slots=True)
class Periodic:
    """A job done by the clock: every how many seconds, and how it goes.

    ``holder`` is the worker group that does it now, or did it last; ``running_since`` None: nobody does it now.
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
    """Return every periodic job that is registered, by name; one query.

    One is overdue that has not begun for three times its interval, and a minute: nobody works, or it hangs.
    """
    leases = {lease.name: lease for lease in Lease.objects.all()}
    return [periodic(job.name, job.every, leases.get(job.name), now) for _, job in sorted(periodic_jobs.items())]


def periodic(name: str, every: float, lease: Lease | None, now: datetime) -> Periodic:
    """Return how one job goes, by its lease; None: it was never done."""
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
