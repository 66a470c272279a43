"""Compares quota counters and reservations with the records."""

from collections.abc import Iterator
from functools import partial

from provisioning.doctor.finding import Finding, check
from provisioning.quotas.limits import PER_USER
from provisioning.quotas.recounts.drift import Finding as Drift
from provisioning.quotas.services.repair import examine, repair


@check("quota")
def quota() -> Iterator[Finding]:
    """Find reservations and counters that differ from the records. ``examine`` reads twice to omit concurrent
    changes.
    """
    for drift in examine():
        subject = f"{'user' if drift.resource in PER_USER else 'project'} {drift.scope_id.hex}"
        yield Finding("error", subject, str(drift), "Count again.", partial(_repair, drift))


def _repair(drift: Drift) -> str | None:
    """Count all quotas again; the first repaired finding also repairs the others."""
    repair()
    return "Counted again." if drift not in examine() else None
