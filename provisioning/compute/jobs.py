"""Periodic jobs of compute."""

from django.utils import timezone

from provisioning.compute.services import remote_consoles
from provisioning.compute.services.totals import fold
from provisioning.compute.services.usage_audit import audit_usage
from provisioning.jobs.registry import periodic

EVERY = 600.0
"""Interval in seconds, and so the maximum delay until an ended period is audited."""


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
