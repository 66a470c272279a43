"""Histograms of durations."""

from bisect import bisect_left
from collections.abc import Iterable
from dataclasses import dataclass, field

BOUNDS = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)
"""Upper bounds of the buckets in seconds; another bucket counts longer durations."""


@dataclass(slots=True)
class Tally:
    """Count, total seconds, and count in each bucket."""

    count: int = 0
    seconds: float = 0.0
    buckets: list[int] = field(default_factory=lambda: [0] * (len(BOUNDS) + 1))

    def record(self, seconds: float) -> None:
        self.count += 1
        self.seconds += seconds
        self.buckets[bisect_left(BOUNDS, seconds)] += 1

    def add(self, count: int, seconds: float, buckets: Iterable[int]) -> None:
        """Add the counts of another tally."""
        self.count += count
        self.seconds += seconds
        self.buckets = [mine + theirs for mine, theirs in zip(self.buckets, buckets, strict=True)]
