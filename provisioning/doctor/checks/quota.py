"""Quota: what is counted against what there is."""

from collections.abc import Iterator

from provisioning.doctor.finding import Finding, check
from provisioning.quotas.limits import PER_USER
from provisioning.quotas.services.repair import examine, repair


@check("quota")
def quota() -> Iterator[Finding]:
    """Find reservations and counters that differ from the records; the quotas' own check looks twice by itself."""
    for found in examine():
        subject = f"{'user' if found.resource in PER_USER else 'project'} {found.scope_id.hex}"
        yield Finding("error", subject, str(found), "Count anew.", _mend)


def _mend() -> str | None:
    return "Counted anew." if repair() else None
