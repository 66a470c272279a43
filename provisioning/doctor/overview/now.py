"""The present faults of the cloud, for the operators' pages: the immediate checks, conditions outside of the records,
and the unrepaired findings of the doctor's last report.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta

from django.utils import timezone

from provisioning.doctor.checks import CHECKS
from provisioning.doctor.examinations.examination import findings
from provisioning.doctor.finding import SEVERITIES, Finding
from provisioning.doctor.models import DoctorRun
from provisioning.hosts import refused
from provisioning.volumes.models import Backup, StoragePool
from provisioning.volumes.states import BackupStatus

FULL, NEARLY_FULL = 0.95, 0.8
"""Used shares of a pool from which it is an error and a warning."""
RECENT = timedelta(days=7)
"""Age up to which failed backups are listed."""
MOST = 100
"""Maximum number of findings of one kind."""
IMMEDIATE = [name for name, check in CHECKS.items() if check.at_once]


def faults() -> list[Finding]:
    """Return the present faults, worst first, without notes; a few queries for each check."""
    result = [each for each in findings(IMMEDIATE) if each.severity != "note"]
    for condition in CONDITIONS:
        result += condition()
    return sorted(result, key=lambda each: SEVERITIES.index(each.severity))


def reported(run: DoctorRun | None) -> list[Finding]:
    """Return the errors and warnings of a report that were not repaired, without findings of the immediate checks."""
    return [
        Finding(each["severity"], each["subject"], each["sentence"], check=each["check"])
        for each in (run.findings if run else ())
        if each["severity"] != "note" and each["repaired"] is None and each["check"] not in IMMEDIATE
    ]


def full_pools() -> Iterator[Finding]:
    """Find pools that are nearly full, as their hosts measure them."""
    for pool in StoragePool.objects.filter(total_gb__gt=0).order_by("name", "id"):
        share = 1 - pool.free_gb / pool.total_gb
        if share >= NEARLY_FULL:
            sentence = f"It is {min(share, 1):.0%} full: {pool.free_gb:.0f} of {pool.total_gb:.0f} GiB are free."
            yield Finding("error" if share >= FULL else "warning", f"pool {pool.name}", sentence)


def refused_agents() -> Iterator[Finding]:
    """Find agents that were refused lately and were not admitted since."""
    for row in refused.lately()[:MOST]:
        at = f" at {row.address}" if row.address else ""
        times = "once" if row.attempts == 1 else f"{row.attempts} times, last"
        sentence = f"Its agent{at} was refused {times} at {row.refused_at:%Y-%m-%d %H:%M:%S}: {row.reason}"
        yield Finding("warning", f"agent {row.host_name}", sentence)


def failed_backups() -> Iterator[Finding]:
    """Find backups that failed lately and were not deleted."""
    rows = Backup.objects.filter(status=BackupStatus.ERROR, created_at__gt=timezone.now() - RECENT)
    for backup in rows.order_by("-created_at", "-id")[:MOST]:
        sentence = f"It failed: {backup.fail_reason}" if backup.fail_reason else "It failed."
        yield Finding("error", f"backup {backup.id}", sentence)


def _named(condition: Callable[[], Iterator[Finding]]) -> Callable[[], list[Finding]]:
    return lambda: [replace(each, check=condition.__name__) for each in condition()]


CONDITIONS = tuple(map(_named, (full_pools, refused_agents, failed_backups)))
"""Conditions that need an operator, although the records are consistent."""
