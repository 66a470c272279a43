"""Runs an examination and stores its report."""

from collections import Counter
from collections.abc import Collection
from typing import Literal

from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.doctor.examinations import examination
from provisioning.doctor.models import DoctorRun
from provisioning.identity import policy

MOST_RUNS = 100
RULE = "novella:doctor:run"
Trigger = Literal["clock", "command", "operator"]


def run(
    trigger: Trigger,
    *,
    asked_by: str = "",
    names: Collection[str] | None = None,
    repair: bool = False,
    pause: float | None = None,
) -> DoctorRun:
    """Examine the cloud, repair findings if ``repair`` is set, and store the report. The last ``MOST_RUNS`` reports are
    kept.

    May run at any time, also concurrently with another run. Raises InvalidInputError for an unknown check.
    """
    made = examination.chosen(names)
    started = timezone.now()
    findings = examination.examine(made, pause=examination.PAUSE if pause is None else pause)
    treated = examination.treat(findings, repair=repair)
    counts = Counter(finding.severity for finding in findings)
    row = DoctorRun.objects.create(
        started_at=started,
        finished_at=timezone.now(),
        trigger=trigger,
        asked_by=asked_by[:255],
        checks=made,
        findings=[
            {
                "check": each.finding.check,
                "severity": each.finding.severity,
                "subject": each.finding.subject,
                "sentence": each.finding.sentence,
                "repair": each.finding.remedy,
                "repaired": each.repaired,
            }
            for each in treated
        ],
        errors=counts["error"],
        warnings=counts["warning"],
        notes=counts["note"],
        repaired=sum(each.repaired is not None for each in treated),
        repair=repair,
    )
    kept = DoctorRun.objects.order_by("-started_at", "-id").values_list("id", flat=True)[:MOST_RUNS]
    DoctorRun.objects.exclude(id__in=list(kept)).delete()
    return row


def run_for(context: RequestContext, *, repair: bool) -> DoctorRun:
    """Examine the cloud for an operator.  Raises ForbiddenError."""
    policy.enforce(context, RULE)
    return run("operator", asked_by=context.user_name, repair=repair)


def left(row: DoctorRun) -> int:
    """Return the number of errors and warnings of a run that were not repaired."""
    return sum(each["severity"] != "note" and each["repaired"] is None for each in row.findings)
