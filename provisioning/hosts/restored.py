"""Recovery after the database was restored from a backup: the hosts may be newer than the records.

Hosts compare generations: they ignore a command with an older generation than the newest that they have seen. Each
service that sends generations has a step, which raises its generations by ``LEAP`` and ends operations that were in
progress in the backup. Generations between the backup's and the raised one are never used again: a host that reports
such a generation has seen changes that the records have lost.
"""

import time
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta

from django.db import transaction
from django.db.models import Max
from django.utils import timezone

from provisioning.common.errors import ConflictError
from provisioning.common.wired import Wired
from provisioning.events import services as events
from provisioning.hosts.models import Host, Restore
from provisioning.jobs.periodic.absence import begin_again
from provisioning.jobs.selectors import ALIVE_WITHIN, newest_beat

LEAP = 1 << 20
"""Increment of every generation: far more than the changes since a backup, and small enough for 2,000 restores in a
32-bit column.
"""
LOOK_AGAIN = 12.0
"""Seconds within which running processes send a heartbeat: workers every 5 s, hosts every ``HEARTBEAT_INTERVAL``."""
WORKING = "Web or worker processes are running. Stop them first: they work with records that this command changes."

Step = Callable[[], Iterable[str]]
"""Corrects the records of one service, in the caller's transaction; returns sentences for the operator."""
STEPS = Wired[Step]("The steps after a restore")
"""Steps of higher layers run first, because they lock their rows before those of lower layers."""


def after_restore() -> Restore:
    """Run every step in one transaction, and record their results.

    Safe to run twice or without need: generations are raised again. Raises ConflictError while web or worker processes
    run.
    """
    if _is_anybody_working():
        raise ConflictError(WORKING)
    with transaction.atomic():
        lines = [line for run in STEPS for line in run()]
        events.restart(LEAP)
        begin_again()
        return Restore.objects.create(at=timezone.now(), lines=lines)


def _is_anybody_working() -> bool:
    """Return whether workers or connected hosts are still reporting that they are alive.

    A recent backup contains recent reports of processes that have ended since; those reports do not change.
    """
    before = _newest_sign()
    if before is None or before < timezone.now() - timedelta(seconds=ALIVE_WITHIN):
        return False
    time.sleep(LOOK_AGAIN)
    return _newest_sign() != before


def _newest_sign() -> datetime | None:
    heard = Host.objects.aggregate(newest=Max("last_seen_at"))["newest"]
    return max((moment for moment in (heard, newest_beat()) if moment is not None), default=None)


def latest() -> Restore | None:
    """Return the last restore, or None."""
    return Restore.objects.order_by("-at", "-id").first()
