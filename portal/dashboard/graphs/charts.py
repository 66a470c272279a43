"""A chart: its lines as SVG paths, and the same values in words and as a table."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from provisioning.measures.selectors import Measures, Series

POINTS = 180
"""Most points of a line."""
HEIGHT = 200
ROWS = 12
"""Rows of the table that has the same values."""
TICKS = 4
NOW = 150
"""Seconds for which a value counts as current: sums of projects are more than two minutes late at times."""
TONES = ("first", "second")

JOINED = "\N{NO-BREAK SPACE}"


@dataclass(frozen=True, slots=True)
class Unit:
    """Names of a unit and of its multiples, smallest first."""

    steps: tuple[tuple[float, str], ...]

    def text(self, value: float | None) -> str:
        """Format a value with three digits and the largest unit that it reaches."""
        if value is None:
            return "\N{EN DASH}"
        size, name = next((step for step in reversed(self.steps) if value >= step[0]), self.steps[0])
        amount = value / size
        digits = 0 if amount >= 99.95 or amount == 0 else 1 if amount >= 9.995 else 2
        text = f"{amount:.{digits}f}"
        text = text.rstrip("0").rstrip(".") if digits else text
        return f"{text}{JOINED}{name}" if name else text

    @property
    def table(self) -> str:
        """The sizes and names of the steps as text, ``1 MiB|1024 GiB``: graphs.js reads it from the page."""
        return "|".join(f"{size:g} {name}" for size, name in self.steps)

    def above(self, value: float) -> float:
        """Return a round number of the unit that is not below the value, as the end of an axis."""
        if value <= 0:
            return self.steps[0][0]
        size = next((step[0] for step in reversed(self.steps) if value >= step[0]), self.steps[0][0])
        power = 10.0 ** math.floor(math.log10(value / size))
        return next(size * power * each for each in (1, 2, 2.5, 5, 10) if value <= size * power * each * 1.0001)


PERCENT = Unit(((1, "%"),))
MEBIBYTES = Unit(((1, "MiB"), (1024, "GiB"), (1024**2, "TiB")))
GIBIBYTES = Unit(((1, "GiB"), (1024, "TiB")))
BYTES = Unit(((1, "B/s"), (1e3, "kB/s"), (1e6, "MB/s"), (1e9, "GB/s")))
PER_SECOND = Unit(((1, "/s"), (1e3, "k/s"), (1e6, "M/s")))
PLAIN = Unit(((1, ""),))
VCPUS = Unit(((1, "vCPUs"),))


@dataclass(frozen=True, slots=True)
class Drawn:
    """A line of a chart: a series whose values are multiplied by ``factor``."""

    label: str
    series: str
    factor: float = 1.0


@dataclass(frozen=True, slots=True)
class Line:
    """A line of a chart; ``peaks`` is the line of the maximums, empty if they are the same."""

    label: str
    tone: str
    path: str
    peaks: str
    now: str
    mean: str
    maximum: str


@dataclass(frozen=True, slots=True)
class Row:
    """A row of the table: the begin of a time span, and average and maximum of each line."""

    at: datetime
    cells: Sequence[str]


@dataclass(frozen=True, slots=True)
class Chart:
    """``top`` is the end of the axis in the unit; ``start`` and ``step`` are the start and the step of the measures."""

    key: str
    title: str
    unit: Unit
    top: float
    start: int
    step: int
    width: int
    lines: Sequence[Line]
    rows: Sequence[Row]

    @property
    def axis(self) -> list[str]:
        """Labels of the axis, from the top."""
        return [self.unit.text(self.top), self.unit.text(self.top / 2), self.unit.text(0)]

    @property
    def height(self) -> int:
        return HEIGHT

    @property
    def ticks(self) -> list[datetime]:
        """Times below the chart, at equal distances from its begin to its end."""
        seconds = self.width * self.step
        return [_moment(self.start + seconds * tick / (TICKS - 1)) for tick in range(TICKS)]


def chart(
    measures: Measures, key: str, title: str, unit: Unit, drawn: Sequence[Drawn], *, top: float | None = None
) -> Chart:
    """Draw series in one chart; ``top`` is the end of the axis, unless a value is above it."""
    scaled = [_scaled(measures.series[each.series], each.factor) for each in drawn]
    highest = max((value for each in scaled for value in each.maximums if value is not None), default=0.0)
    newest = 1 + -(-NOW // measures.step)
    end = top if top and highest <= top else unit.above(highest)
    lines = [
        _line(each.label, tone, series, unit, end, newest)
        for each, tone, series in zip(drawn, TONES, scaled, strict=False)
    ]
    width = len(scaled[0].means)
    return Chart(key, title, unit, end, measures.start, measures.step, width, lines, _rows(measures, scaled, unit))


def path(values: Sequence[float | None], top: float) -> str:
    """Return the path of values at x = 0, 1, 2 …; a missing one interrupts it."""
    parts, pen = [], False
    for x, value in enumerate(values):
        if value is not None:
            y = HEIGHT - round(min(value / top, 1.0) * HEIGHT)
            parts.append(f"L{x} {y}" if pen else f"M{x} {y}h0")
        pen = value is not None
    return "".join(parts)


def _scaled(series: Series, factor: float) -> Series:
    if factor == 1:
        return series
    means, maximums = (
        [None if value is None else value * factor for value in each] for each in (series.means, series.maximums)
    )
    return Series(series.name, means, maximums)


def _line(label: str, tone: str, series: Series, unit: Unit, top: float, newest: int) -> Line:
    """Draw a line. Its current value is the last known one of the ``newest`` last points."""
    means = [value for value in series.means if value is not None]
    maximum = max((value for value in series.maximums if value is not None), default=None)
    return Line(
        label,
        tone,
        path(series.means, top),
        "" if series.means == series.maximums else path(series.maximums, top),
        unit.text(next((value for value in reversed(series.means[-newest:]) if value is not None), None)),
        unit.text(sum(means) / len(means) if means else None),
        unit.text(maximum),
    )


def _rows(measures: Measures, series: Sequence[Series], unit: Unit) -> list[Row]:
    each = -(-len(series[0].means) // ROWS)
    rows = []
    for at in range(0, len(series[0].means), each):
        cells = []
        for line in series:
            means = [value for value in line.means[at : at + each] if value is not None]
            peaks = [value for value in line.maximums[at : at + each] if value is not None]
            cells += [unit.text(sum(means) / len(means) if means else None), unit.text(max(peaks, default=None))]
        rows.append(Row(_moment(measures.start + at * measures.step), cells))
    return rows


def _moment(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)
