"""Finds out whether a repeatedly measured number still grows at the end of a run."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

FEWEST = 6
"""The minimum number of samples in the second half for a verdict."""


@dataclass(frozen=True)
class Floor:
    """Limits below which a rise over the second half counts as flat: ``share`` of the mean, or ``least`` if that is
    more.
    """

    share: float
    least: float


@dataclass(frozen=True)
class Trend:
    """The trend of a number: the values at the beginning and end of the second half, on a fitted straight line.

    ``flat`` is None if there were too few samples.
    """

    first: float
    last: float
    flat: bool | None

    @property
    def verdict(self) -> str:
        return "too short to say" if self.flat is None else "flat" if self.flat else "GROWS"


def trend(samples: Sequence[tuple[float, float]], floor: Floor) -> Trend:
    """Judge (time, value) pairs, in order of time, by the slope of their second half (least squares)."""
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
