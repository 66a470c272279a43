"""The queue, the workers and the work by the clock."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta

from django.utils import timezone

from provisioning.conductor.doctor.finding import Finding, Mend, check
from provisioning.rpc import queue, registry
from provisioning.rpc.models import Lease, WorkerBeat
from provisioning.rpc.periodic import LEASE
from provisioning.rpc.selectors import ALIVE_WITHIN, live_workers
from provisioning.rpc.waiting import Foreign, depth, foreign_messages

OLD = timedelta(minutes=5)
"""A message that nobody began with for so long waits too long."""
DEEP = 5_000
MISSED = 3
"""Rounds that periodic work may miss."""


@check("workers")
def workers() -> Iterator[Finding]:
    """Find that nobody works, and groups of workers that fell silent."""
    if not live_workers():
        yield Finding("error", "workers", "No worker is alive: nothing that waits in the queue is done.")
    since = timezone.now() - timedelta(seconds=ALIVE_WITHIN)
    for row in WorkerBeat.objects.filter(beat_at__lt=since).order_by("name"):
        sentence = f"This group of workers was last heard of at {row.beat_at:%Y-%m-%d %H:%M:%S}."
        yield Finding("warning", f"workers {row.name}", sentence, evidence=row.beat_at)


@check("queue")
def depth_of_queue() -> Iterator[Finding]:
    """Find a queue that grows, or stands still."""
    found = depth()
    if found.waiting > DEEP:
        sentence = f"{found.waiting} messages wait: there are too few workers, or they are too slow."
        yield Finding("warning", "queue", sentence, evidence="deep")
    if found.oldest is not None and timezone.now() - found.oldest > OLD:
        minutes = round((timezone.now() - found.oldest).total_seconds() / 60)
        sentence = f"The oldest message waits for {minutes} minutes; nobody has begun with it."
        yield Finding("warning", "queue", sentence, evidence=found.oldest)


@check("foreign_messages")
def strangers() -> Iterator[Finding]:
    """Find messages that no worker would run."""
    for found in foreign_messages():
        sentence = f"It is none of ours: {found.reason}. It is never run."
        yield Finding("error", f"message {found.id}", sentence, "Remove it.", _remove(found), found.id)


def _remove(found: Foreign) -> Mend:
    def mend() -> str | None:
        if not any(each.id == found.id for each in foreign_messages()):
            return None
        queue.finish(found.id)
        return "It is removed."

    return mend


@check("periodic")
def periodic_work() -> Iterator[Finding]:
    """Find work by the clock that is not done, although there are workers."""
    now = timezone.now()
    if not live_workers():  # said already
        return
    rows = {row.name: row for row in Lease.objects.all()}
    for name, job in sorted(registry.periodic_jobs.items()):
        row, late = rows.get(name), timedelta(seconds=job.every * MISSED) + LEASE
        if row is not None and (row.last_run_at is None or now - row.last_run_at > late) and row.expires_at < now:
            last = f"{row.last_run_at:%Y-%m-%d %H:%M:%S}" if row.last_run_at else "never"
            sentence = f"It is done every {job.every:.0f} seconds, and was last done: {last}."
            yield Finding("warning", f"periodic work {name}", sentence, evidence=row.last_run_at)
