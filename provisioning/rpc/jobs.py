"""Pruning of commands and calls."""

from __future__ import annotations

from provisioning.jobs import registry
from provisioning.rpc import hosts


@registry.periodic("rpc.prune", every=60)
def prune_hosts() -> None:
    """Remove questions nobody waits for and commands finished long ago."""
    hosts.prune()
