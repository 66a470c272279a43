"""Periodic tasks for hosts."""

from provisioning.hosts import calls, commands, liveness, refused, rejected, reports
from provisioning.jobs.registry import periodic


@periodic("hosts.prune", every=60)
def prune() -> None:
    """Delete calls whose callers no longer wait, old finished commands, discarded reports and old refusals."""
    calls.prune()
    commands.prune()
    rejected.prune()
    refused.prune()


@periodic("hosts.silent", every=5)
def mark_silent() -> None:
    """Mark hosts that have missed their heartbeats as disconnected."""
    liveness.mark_silent()


@periodic("hosts.rejected_reports", every=5)
def try_rejected_reports() -> None:
    """Retry reports whose processing failed."""
    reports.try_again()
