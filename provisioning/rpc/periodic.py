"""Work by the clock: every registered periodic job at its interval, in one worker group of the cloud at a time."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable
from datetime import timedelta

from django.db import close_old_connections, connection
from django.db.models import Q
from django.utils import timezone

from provisioning.common import tracing
from provisioning.common.context import new_request_id
from provisioning.rpc import groups
from provisioning.rpc.models import Lease
from provisioning.rpc.registry import PeriodicJob

LEASE = timedelta(seconds=300)
"""How long a holder that vanished keeps others from a job; a dead one of the same machine is noticed at once."""
LONGEST_WAIT = 1.0
EARLY = 0.9
"""A job may run this part of its interval after another group's run."""

logger = logging.getLogger(__name__)


class PeriodicLoop:
    """Runs due jobs one after the other, by the monotonic clock; a run that was missed is not made up for."""

    def __init__(self, holder: str, jobs: Iterable[PeriodicJob]) -> None:
        """All jobs are due at once."""
        self._holder = holder
        self._due = {job: time.monotonic() for job in jobs}
        self.running: tuple[str, float] | None = None
        """The job that runs now and the monotonic time of its start."""

    def run(self, stop: threading.Event) -> None:
        """Work until told to stop; in a thread of its own."""
        while not stop.is_set():
            self.run_due()
            wait = min(self._due.values(), default=time.monotonic() + LONGEST_WAIT) - time.monotonic()
            stop.wait(min(max(wait, 0.01), LONGEST_WAIT))
        connection.close()

    def run_due(self) -> None:
        """Run what is due now."""
        for job, due in self._due.items():
            now = time.monotonic()
            if now >= due:
                self._due[job] = max(due + job.every, now)
                self._run_once(job, now)

    def _run_once(self, job: PeriodicJob, now: float) -> None:
        mark = tracing.request_id.set(new_request_id())
        self.running = (job.name, now)
        try:
            close_old_connections()
            _run_leased(job, self._holder)
        except Exception:
            logger.exception("The lease of %s cannot be had.", job.name)
            connection.close()
        finally:
            self.running = None
            tracing.request_id.reset(mark)


def _run_leased(job: PeriodicJob, holder: str) -> None:
    started = timezone.now()
    if not _acquire(job, holder):
        return
    try:
        job.run()
    except Exception:
        logger.exception("The periodic job %s failed.", job.name)
        groups.count_failure(holder)
    finally:
        Lease.objects.filter(name=job.name, holder=holder).update(expires_at=timezone.now(), last_run_at=started)


def _acquire(job: PeriodicJob, holder: str) -> bool:
    """Take the lease if nobody has it and nobody has just done the work."""
    now = timezone.now()
    nobody_has_it = Q(expires_at__lte=now) | Q(holder=holder)
    is_due = Q(last_run_at=None) | Q(last_run_at__lte=now - timedelta(seconds=job.every * EARLY))
    leases = Lease.objects.filter(name=job.name)
    if leases.filter(nobody_has_it, is_due).update(holder=holder, expires_at=now + LEASE):
        return True
    if leases.exists():
        return False
    return Lease.objects.get_or_create(name=job.name, defaults={"holder": holder, "expires_at": now + LEASE})[1]
