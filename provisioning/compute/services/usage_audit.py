"""The audit of usage: for each finished period and host one row that says how many servers ran there."""

from __future__ import annotations

import time
from datetime import datetime

from django.conf import settings
from django.db.models import Count, Q

from provisioning.compute.models import Host, Instance, UsageAudit
from provisioning.compute.periods import completed_before

DONE = "DONE"


def audit_usage(now: datetime) -> int:
    """Write what is missing of the period that ended last, and return how many rows that were.

    Three queries whatever the number of hosts; two workers at once write each row once.
    """
    began = time.monotonic()
    period = completed_before(settings.INSTANCE_USAGE_AUDIT_PERIOD, now)
    written = UsageAudit.objects.filter(period_beginning=period.beginning, period_ending=period.ending)
    missing = list(
        Host.objects.exclude(name__in=written.values("host")).order_by("name").values_list("name", flat=True)
    )
    if not missing:
        return 0
    still = Q(terminated_at=None) | Q(terminated_at__gt=period.beginning)
    ran = Instance.objects.filter(still, launched_at__lt=period.ending, host__name__in=missing)
    counted = dict(ran.values_list("host__name").annotate(many=Count("pk")).order_by())
    seconds = time.monotonic() - began
    rows = [
        UsageAudit(
            host=host,
            period_beginning=period.beginning,
            period_ending=period.ending,
            state=DONE,
            task_items=counted.get(host, 0),
            message=f"Audited {counted.get(host, 0)} servers in {seconds:.2f} seconds.",
        )
        for host in missing
    ]
    return len(UsageAudit.objects.bulk_create(rows, ignore_conflicts=True))
