"""The lines that ``bin/bench network`` prints: the measurement, its value, the goal, and whether it is met."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from typing import NamedTuple


class Row(NamedTuple):
    """A line of the result."""

    what: str
    measured: str
    goal: str = ""


def p95(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[round(0.95 * (len(ordered) - 1))]


def spread(values: Sequence[float]) -> str:
    """Return the median and the 95th percentile of seconds as text."""
    return f"median {statistics.median(values) * 1000:.1f} ms, p95 {p95(values) * 1000:.1f} ms (n={len(values)})"


def judged(what: str, values: Sequence[float], goal: float) -> Row:
    """Return a row whose 95th percentile should be at most ``goal`` seconds."""
    verdict = "met" if p95(values) <= goal else "missed"
    return Row(what, spread(values), f"p95 at most {goal * 1000:.0f} ms: {verdict}")


def sums(some: Sequence[float], others: Sequence[float]) -> list[float]:
    """Return all sums of a value of ``some`` and a value of ``others``, the durations of two successive steps that are
    measured separately.
    """
    return [one + other for one in some for other in others]
