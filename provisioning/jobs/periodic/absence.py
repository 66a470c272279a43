"""Detects time in which no periodic jobs ran: the cloud was down, the machine was suspended, or its clock was set."""

import logging
from datetime import timedelta

from django.utils import timezone

from provisioning.jobs.models import Lease
from provisioning.jobs.registry import periodic_jobs
from provisioning.jobs.selectors import last_finished

log = logging.getLogger(__name__)

AWAY = timedelta(seconds=30)
"""An absence is assumed if the time since a job's last run differs from its interval by more than this, in either
direction.
"""


def begin_again() -> None:
    """Set the last run of every job to now, because the times in a restored backup have no meaning."""
    Lease.objects.exclude(last_finished_at=None).update(last_finished_at=timezone.now())


def absence(name: str) -> timedelta | None:
    """Return the time beyond its interval in which the periodic job ``name`` did not run; None without an absence.

    The result is negative after the clock was set back. The job moves the deadlines that it checks by this time,
    because reports of hosts may still be queued.
    """
    last = last_finished(name)
    if last is None:
        return None
    gap = timezone.now() - last - timedelta(seconds=periodic_jobs[name].every)
    if abs(gap) <= AWAY:
        return None
    log.warning("%s was not run for %.0f seconds: deadlines are extended by that time.", name, gap.total_seconds())
    return gap
