"""Quota: what is counted against what there is."""

from collections.abc import Iterator
from functools import partial

from provisioning.doctor.finding import Finding, check
from provisioning.quotas.drift import Finding as Drift
from provisioning.quotas.limits import PER_USER
from provisioning.quotas.services.repair import examine, repair


@check("quota")
def quota() -> Iterator[Finding]:
    """Find reservations and counters that differ from the records; the quotas' own check looks twice by itself."""
    for found in examine():
        subject = f"{'user' if found.resource in PER_USER else 'project'} {found.scope_id.hex}"
        yield Finding("error", subject, str(found), "Count anew.", partial(_mend, found))


def _mend(found: Drift) -> str | None:
    """Count everything anew; what was found together is mended together."""
    repair()
    return "Counted anew." if found not in examine() else None
