"""Work of compute by the clock."""

from django.utils import timezone

from provisioning.compute.services import remote_consoles
from provisioning.compute.services.totals import fold
from provisioning.compute.services.usage_audit import audit_usage
from provisioning.jobs.registry import periodic

EVERY = 600.0
"""Seconds after which a period that ended is noticed."""


@periodic("compute.usage_audit", every=EVERY)
def audit() -> None:
    """Audit the period that ended last, once for each host."""
    audit_usage(timezone.now())


@periodic("compute.console_tokens", every=300)
def flush_console_tokens() -> None:
    """Remove console tokens that have expired."""
    remote_consoles.flush()


@periodic("compute.totals", every=15.0)
def fold_totals() -> None:
    """Fold what has ended into the totals of the metrics."""
    fold()
