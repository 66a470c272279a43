"""What is done for hosts by the clock."""

from provisioning.hosts import calls, commands, liveness, rejected, reports
from provisioning.jobs.registry import periodic


@periodic("hosts.prune", every=60)
def prune() -> None:
    """Remove questions nobody waits for, commands finished long ago, reports given up long ago."""
    calls.prune()
    commands.prune()
    rejected.prune()


@periodic("hosts.silent", every=5)
def mark_silent() -> None:
    """Call the links ended of hosts that have missed their heartbeats."""
    liveness.mark_silent()


@periodic("hosts.rejected_reports", every=5)
def try_rejected_reports() -> None:
    """Deal with the reports that could not be dealt with before."""
    reports.try_again()
