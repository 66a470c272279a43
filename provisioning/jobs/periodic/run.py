"""Runs the registered periodic jobs at their intervals, each in one worker group of the cloud at a time.

A group has two lanes, which are threads: a job that hangs blocks one of them, and the other runs the rest until the
watchdog ends the group.
"""

import logging
import threading
import time
from collections.abc import Iterable
from datetime import datetime, timedelta

from django.db import close_old_connections, connection
from django.db.models import Q
from django.utils import timezone

from provisioning.common.context import new_request_id
from provisioning.common.processes import tracing
from provisioning.jobs.models import Lease
from provisioning.jobs.queue import worker_groups
from provisioning.jobs.registry import PeriodicJob
from provisioning.jobs.selectors import LEASE

LANES = 2
"""Jobs that a group runs concurrently."""
LONGEST_WAIT = 1.0
EARLY = 0.9
"""Fraction of a job's interval that must have passed since its last run in any group began."""
LONGEST_ERROR = 500

logger = logging.getLogger(__name__)


class PeriodicLoop:
    """Runs due jobs by the monotonic clock, one after the other in each lane; missed runs are skipped."""

    def __init__(self, holder: str, jobs: Iterable[PeriodicJob]) -> None:
        """All jobs are due immediately."""
        self._holder = holder
        self._lock = threading.Lock()
        self._due = {job: time.monotonic() for job in jobs}
        self._running: dict[str, float] = {}
        self._leasing = threading.Lock()
        self._closed = False

    @property
    def running(self) -> tuple[str, float] | None:
        """The running job with the earliest start, and the monotonic time of its start."""
        return min(self._running.copy().items(), key=lambda each: each[1], default=None)

    def run(self, stop: threading.Event) -> None:
        """Run jobs until ``stop`` is set; called in its own thread, which starts the other lanes."""
        lanes = [threading.Thread(target=self._lane, args=[stop], daemon=True) for _ in range(LANES - 1)]
        for lane in lanes:
            lane.start()
        self._lane(stop)
        for lane in lanes:
            lane.join(LONGEST_WAIT)

    def close(self) -> None:
        """Start no more jobs: no lease is acquired after this returns."""
        with self._leasing:
            self._closed = True

    def run_due(self) -> None:
        """Run the due jobs in this thread, except those that another lane is running."""
        seen: set[str] = set()
        while (job := self._next(seen)) is not None:
            seen.add(job.name)
            self._run_once(job)

    def _lane(self, stop: threading.Event) -> None:
        while not stop.is_set():
            self.run_due()
            with self._lock:
                next_due = min((due for job, due in self._due.items() if job.name not in self._running), default=None)
            wait = LONGEST_WAIT if next_due is None else next_due - time.monotonic()
            stop.wait(min(max(wait, 0.01), LONGEST_WAIT))
        connection.close()

    def _next(self, seen: set[str]) -> PeriodicJob | None:
        """Claim a due job that is neither running in this group nor in ``seen``."""
        with self._lock:
            if self._closed:
                return None
            now = time.monotonic()
            for job, due in self._due.items():
                if now >= due and job.name not in seen and job.name not in self._running:
                    self._due[job] = max(due + job.every, now)
                    self._running[job.name] = now
                    return job
        return None

    def _run_once(self, job: PeriodicJob) -> None:
        mark = tracing.request_id.set(new_request_id())
        try:
            close_old_connections()
            started = timezone.now()
            with self._leasing:
                acquired = not self._closed and _acquire(job, self._holder)
            if acquired:
                _run_leased(job, self._holder, started)
        except Exception:
            logger.exception("The lease of %s cannot be acquired.", job.name)
            connection.close()
        finally:
            self._running.pop(job.name, None)
            tracing.request_id.reset(mark)


def _run_leased(job: PeriodicJob, holder: str, started: datetime) -> None:
    error, began = "", time.monotonic()
    try:
        job.run()
    except Exception as caught:
        logger.exception("The periodic job %s failed.", job.name)
        error = _text_of(caught)
        worker_groups.count_failure(holder)
    finally:
        _note(job, holder, started, time.monotonic() - began, error)


def _note(job: PeriodicJob, holder: str, started: datetime, seconds: float, error: str) -> None:
    """Record the result of a run, and release the lease."""
    now = timezone.now()
    Lease.objects.filter(name=job.name, holder=holder).update(
        expires_at=now, last_run_at=started, last_finished_at=now, last_seconds=seconds, last_error=error
    )


def _text_of(error: BaseException) -> str:
    return " ".join(f"{type(error).__name__}: {error}".replace("\0", " ").split())[:LONGEST_ERROR]


def _acquire(job: PeriodicJob, holder: str) -> bool:
    """Acquire the lease, unless another group has it or has just run the job."""
    now = timezone.now()
    nobody_has_it = Q(expires_at__lte=now) | Q(holder=holder)
    is_due = Q(last_run_at=None) | Q(last_run_at__lte=now - timedelta(seconds=job.every * EARLY))
    leases = Lease.objects.filter(name=job.name)
    if leases.filter(nobody_has_it, is_due).update(holder=holder, expires_at=now + LEASE):
        return True
    if leases.exists():
        return False
    return Lease.objects.get_or_create(name=job.name, defaults={"holder": holder, "expires_at": now + LEASE})[1]
