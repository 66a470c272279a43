"""Time in which nobody looked: the cloud was down, the machine was suspended, or its clock was set."""

import logging
from datetime import timedelta

from django.utils import timezone

from provisioning.jobs.models import Lease
from provisioning.jobs.registry import periodic_jobs
from provisioning.jobs.selectors import last_finished

log = logging.getLogger(__name__)

AWAY = timedelta(seconds=30)
"""Nobody looked when a job's last round is longer ago, or further ahead, than this."""


def begin_again() -> None:
    """Let every job count as having run just now: how long ago a restored copy says that it ran means nothing."""
    Lease.objects.exclude(last_finished_at=None).update(last_finished_at=timezone.now())


def absence(name: str) -> timedelta | None:
    """Return for how long the periodic job ``name`` was not run beyond its interval, None when it was.

    Negative after a clock was set back.  The deadlines that the job watches over are moved by this time, because hosts
    may have reports that wait for the portal.
    """
    last = last_finished(name)
    if last is None:
        return None
    gap = timezone.now() - last - timedelta(seconds=periodic_jobs[name].every)
    if abs(gap) <= AWAY:
        return None
    log.warning("%s was not run for %.0f seconds: that time does not count for deadlines.", name, gap.total_seconds())
    return gap
