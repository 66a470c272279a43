"""After the records were restored from a copy: the hosts may know more than they do.

Hosts compare numbers: they ignore a command whose generation is older than the newest that they have seen.  Each
service that sends such numbers has a step, which raises them by ``LEAP`` and ends what the copy says is under
way.  No number between that of the copy and the raised one is ever used again, so that a host which reports such a
number proves that it has seen changes which the records have lost.
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
from provisioning.jobs.absence import begin_again
from provisioning.jobs.selectors import ALIVE_WITHIN, newest_beat

LEAP = 1 << 20
"""How far each number leaps: far more than a copy can be behind, and room for two thousand restores."""
LOOK_AGAIN = 12.0
"""Seconds after which whoever works has shown it: workers beat every 5 seconds, hosts every ``HEARTBEAT_INTERVAL``."""
WORKING = "Web or worker processes are running. Stop them first: they work with records that this command changes."

Step = Callable[[], Iterable[str]]
"""Brings the records of one service up to date, in the caller's transaction; returns sentences for the operator."""
STEPS = Wired[Step]("The steps after a restore")
"""Steps of higher layers run first, as their locks come first."""


def after_restore() -> Restore:
    """Run every step in one transaction, and record what they did.

    Running it twice, or without need, does no harm: numbers leap again.  Raises ConflictError while web or worker
    processes run.
    """
    if _is_anybody_working():
        raise ConflictError(WORKING)
    with transaction.atomic():
        lines = [line for run in STEPS for line in run()]
        events.restart(LEAP)
        begin_again()
        return Restore.objects.create(at=timezone.now(), lines=lines)


def _is_anybody_working() -> bool:
    """Return whether signs of life of workers, or of hosts that a web process hears, go on.

    A copy that is seconds old has fresh ones of processes that have ended since: those do not move.
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
    """Return the last restore, None when there was none."""
    return Restore.objects.order_by("-at", "-id").first()
