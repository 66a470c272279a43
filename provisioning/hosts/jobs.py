"""What is done for hosts by the clock."""

from __future__ import annotations

from provisioning.hosts import calls, commands, liveness
from provisioning.jobs.registry import periodic


@periodic("hosts.prune", every=60)
def prune() -> None:
    """Remove questions nobody waits for and commands finished long ago."""
    calls.prune()
    commands.prune()


@periodic("hosts.silent", every=5)
def mark_silent() -> None:
    """Call the links ended of hosts that have missed their heartbeats."""
    liveness.mark_silent()
