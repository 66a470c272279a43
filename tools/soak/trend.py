"""Whether a number that was looked at again and again still grows at the end."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST = 6
"""The fewest samples in the second half for a result."""


@dataclass(frozen=True)
class Floor:
    """The limits for a flat result: a rise over the second half of at most ``share`` of the mean, or of ``least``."""

    share: float
    least: float


@dataclass(frozen=True)
class Trend:
    """How a number went: at the beginning of the second half and at the end of it, along a straight line.

    ``flat`` None: there were too few samples.
    """

    first: float
    last: float
    flat: bool | None

    @property
    def verdict(self) -> str:
        return "too short to say" if self.flat is None else "flat" if self.flat else "GROWS"


def trend(samples: Sequence[tuple[float, float]], floor: Floor) -> Trend:
    """Judge (moment, value) pairs, in order of time, by the slope of their second half (least squares)."""
    middle = (samples[0][0] + samples[-1][0]) / 2
    half = [(moment, value) for moment, value in samples if moment >= middle]
    values = [value for _, value in half]
    if len(half) < 2:
        return Trend(values[0], values[-1], None)
    slope, start = statistics.linear_regression([moment for moment, _ in half], values)
    first, last = (start + slope * moment for moment in (half[0][0], half[-1][0]))
    if len(half) < FEWEST:
        return Trend(first, last, None)
    return Trend(first, last, last - first <= max(floor.share * statistics.fmean(values), floor.least))
