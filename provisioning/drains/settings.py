"""Drains of hosts."""

from provisioning.common.environment import integer

DRAIN_MOVES = integer("NOVELLA_DRAIN_MOVES", 2, 1, 100)
"""Number of servers of a host that a drain moves or stops at the same time."""
