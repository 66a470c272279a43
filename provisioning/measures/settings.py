"""Measures."""

from provisioning.common.environment import flag

MEASURES = flag("NOVELLA_MEASURES", default=True)
"""Whether hosts send their own usage and their guests' usage, every 10 seconds ([graphs](operator-guide.md#graphs)).
Agents notice a change when they connect again.
"""
