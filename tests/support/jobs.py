"""Running the queue without workers, for tests."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

from django.utils import timezone
from django_q.models import OrmQ

from provisioning.common.database.prepared import Prepared
from provisioning.common.processes import tracing
from provisioning.jobs import registry
from provisioning.jobs.models import Lease
from provisioning.jobs.queue import rows
from provisioning.jobs.queue.cast import verify

_FIRST = Prepared(lambda: OrmQ.objects.order_by("id")[:1])


def add(*extra: registry.Job[Any]) -> None:
    """Let ``cast`` and workers know jobs of tests."""
    registry.jobs._entries = {**registry.jobs, **{each.name: each for each in extra}}


def nobody_looked(name: str, seconds: float) -> None:
    """Let the last round of a periodic job be so long ago."""
    ended = timezone.now() - timedelta(seconds=seconds)
    values = {"holder": "test", "expires_at": ended, "last_run_at": ended, "last_finished_at": ended}
    Lease.objects.update_or_create(name=name, defaults=values)


def drain(*, limit: int = 1000) -> int:
    """Run the queued jobs in this process, oldest first, until none is left; returns how many ran.

    An exception of a job comes out here, and its message is gone.  Raises RuntimeError when jobs keep coming after
    ``limit`` of them.
    """
    for count in range(limit):
        row = _FIRST.first()
        if row is None:
            return count
        rows.finish(row.pk)
        message = verify(row.payload)
        mark = tracing.request_id.set(message.request_id)
        try:
            registry.jobs[message.job].run(**message.payload)
        finally:
            tracing.request_id.reset(mark)
    text = f"The queue is not empty after {limit} jobs."
    raise RuntimeError(text)


def run_periodic(name: str) -> None:
    """Do the periodic work of that name once, now."""
    registry.periodic_jobs[name].run()
