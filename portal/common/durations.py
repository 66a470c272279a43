"""Estimated durations for people, rounded to the precision that estimates have."""

STEPS = ((60, 1, 5, "s"), (90, 1, 10, "s"), (90 * 60, 60, 1, "min"))
"""Seconds below which a step holds, seconds of its unit, units that it is rounded to, and the unit."""


def about(seconds: float) -> str:
    """Format an estimate: ``5 s``, ``30 s``, ``2 min``, ``3 h``; at least ``5 s``."""
    for below, unit, step, word in STEPS:
        if seconds < below:
            return f"{max(round(seconds / unit / step), 1) * step} {word}"
    return f"{round(seconds / 3600)} h"
