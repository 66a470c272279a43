"""Periodic jobs of compute: the usage audit, expired console tokens, and totals for the metrics."""

import time
from datetime import datetime

from django.conf import settings
from django.db import transaction
from django.db.models import Count, Q
from django.utils import timezone

from provisioning.common.values.ids import NOBODY
from provisioning.compute import notifications
from provisioning.compute.models import Instance, UsageAudit
from provisioning.compute.selectors.usage_audit import AuditPeriod, completed_before
from provisioning.compute.services import remote_consoles
from provisioning.compute.services.totals import fold
from provisioning.hosts.models import Host
from provisioning.jobs.registry import periodic
from provisioning.notifications.messages import is_selected

EVERY = 600.0
"""Interval in seconds, and so the maximum delay until an ended period is audited."""

DONE = "DONE"
BATCH = 500
"""Servers in one batch of notifications."""


@periodic("compute.usage_audit", every=EVERY)
def audit() -> None:
    """Audit the usage of the last ended period, once for each host."""
    audit_usage(timezone.now())


@periodic("compute.console_tokens", every=300)
def flush_console_tokens() -> None:
    remote_consoles.flush()


@periodic("compute.totals", every=15.0)
def fold_totals() -> None:
    """Add finished actions to the totals of the metrics."""
    fold()


def audit_usage(now: datetime) -> int:
    """Write the missing rows of the last ended period, and return their number.

    Sends ``instance.exists`` for each server of the period. Runs three queries regardless of the number of hosts, and
    two for each ``BATCH`` servers. Concurrent workers write each row once.
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
    with transaction.atomic():
        _send(period, missing)
        return len(UsageAudit.objects.bulk_create(rows, ignore_conflicts=True))


def _send(period: AuditPeriod, hosts: list[str]) -> None:
    """Send ``instance.exists`` for every server that existed on one of the hosts."""
    if not is_selected("instance.exists"):
        return
    still = Q(deleted_at=None) | Q(deleted_at__gt=period.beginning)
    there = Instance.objects.filter(still, created_at__lt=period.ending, host__name__in=hosts).select_related("host")
    last = NOBODY
    while instances := list(there.filter(id__gt=last).order_by("id")[:BATCH]):
        notifications.usage(instances, period.beginning, period.ending)
        last = instances[-1].id
