"""The printed table: a row for each kind of request, a group of columns for each cloud, and the goals."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tools.bench.over_http import measure
from tools.bench.over_http.measure import Series

NOTHING = "-"
ALONE: dict[str, float | None] = {
    measure.TOKEN: 3,
    measure.PASSWORD: 45,
    measure.FLAVORS: 2.5,
    measure.IMAGES: None,
    measure.ACCEPTED: 12,
    measure.PAGE: 3,
    measure.DETAIL: 9,
    measure.MANY: 45,
    measure.ACTIVE: 50,
    measure.GONE: 50,
    measure.WHOLE: None,
    measure.THERE: None,
    measure.DELETED: None,
}
"""Rows with one request at a time → goal for the median, in milliseconds."""
TOGETHER: dict[str, float | None] = {
    measure.TOGETHER[0]: 300,
    **dict.fromkeys(measure.TOGETHER[1:], 400),
    measure.LAUNCHES: 20,
    measure.MULTI: 25,
}
"""Rows with eight requests at a time → goal in requests per second."""
MEMORY = 260
"""The goal for the memory of an idle control plane, in MiB."""

Rows = Mapping[tuple[str, int], Series]


@dataclass(frozen=True)
class Ratio:
    """Two clouds to compare; ``before`` and ``after`` are their indexes in ``Comparison.labels``."""

    heading: str
    before: int
    after: int


@dataclass(frozen=True)
class Comparison:
    """All measurements. Clouds are numbered in the order of ``labels``."""

    labels: Sequence[str]
    alone: Rows
    together: Rows
    memory_kib: Sequence[Mapping[str, int]]
    ratios: Sequence[Ratio] = ()


def percentile95(values: Sequence[float]) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]


def figure(value: float) -> str:
    return f"{value:.1f}" if value < 100 else f"{value:.0f}"


def lines(found: Comparison) -> list[str]:
    """Return the lines to print."""
    rows = [
        ["One at a time", "goal, ms", *_heads(found, "median ms", "p95 ms")],
        *(_row(found, found.alone, row, goal, faster=False) for row, goal in ALONE.items()),
        [],
        [f"{measure.SENDERS} at a time", "goal, 1/s", *_heads(found, "a second", "lowest")],
        *(_row(found, found.together, row, goal, faster=True) for row, goal in TOGETHER.items()),
    ]
    if any(found.memory_kib):
        rows += [[], ["At rest", "goal, MiB", *_heads(found, "MiB PSS", "")], _memory(found)]
    above = [
        "",
        "",
        *(cell for label in found.labels for cell in (label, "", "")),
        *("" for _ in found.ratios for _ in range(2)),
    ]
    return [*_aligned([above, *rows]), "", *_parts(found)]


def _heads(found: Comparison, first: str, second: str) -> list[str]:
    processor = "cpu ms" if second else ""
    ratios = [cell for each in found.ratios for cell in (each.heading, "of its cpu" if second else "")]
    return [cell for _ in found.labels for cell in (first, second, processor)] + ratios


def _row(found: Comparison, rows: Rows, row: str, goal: float | None, *, faster: bool) -> list[str]:
    cells: list[str] = []
    middle: list[float | None] = []
    processor: list[float | None] = []
    for at in range(len(found.labels)):
        series = rows.get((row, at))
        if series is None or not series.values:
            cells += [NOTHING, NOTHING, NOTHING]
            middle.append(None)
            processor.append(None)
            continue
        median = statistics.median(series.values)
        middle.append(median)
        shown = (median, min(series.values)) if faster else (median * 1000, percentile95(series.values) * 1000)
        used = sum(series.used.values()) / series.count * 1000 if series.used else None
        processor.append(used)
        cells += [figure(shown[0]), figure(shown[1]), NOTHING if used is None else figure(used)]
    sign = "≥" if faster else "≤"
    return [row, f"{sign} {goal:g}" if goal else "", *cells, *_ratios(found, middle, processor, faster=faster)]


def _ratios(
    found: Comparison, middle: Sequence[float | None], processor: Sequence[float | None], *, faster: bool
) -> list[str]:
    """Return the cells of a row's ratios: how many times as fast the later cloud is, and its part of the earlier
    cloud's processor time.
    """
    cells = []
    for each in found.ratios:
        before, after = middle[each.before], middle[each.after]
        if not before or not after:
            cells.append(NOTHING)
        else:
            cells.append(f"{after / before if faster else before / after:.2f}")
        before, after = processor[each.before], processor[each.after]
        cells.append(f"{after / before:.2f}" if before and after else NOTHING)
    return cells


def _memory(found: Comparison) -> list[str]:
    sums = [sum(parts.values()) / 1024 for parts in found.memory_kib]
    cells = [cell for total in sums for cell in (f"{total:.0f}" if total else NOTHING, "", "")]
    return ["control plane", f"≤ {MEMORY}", *cells, *_ratios(found, sums, [None] * len(sums), faster=False)]


def _parts(found: Comparison) -> list[str]:
    """Return lines with the processor time and memory of each part of the clouds."""
    pieces = []
    for at, label in enumerate(found.labels):
        wanted = [(found.alone, row) for row in ALONE] + [(found.together, row) for row in TOGETHER]
        for rows, row in wanted:
            series = rows.get((row, at))
            used = _shares(series.used, series.count / 1000) if series is not None and series.used else ""
            if "," in used:
                pieces.append(f"  {label}: {row}: {used}")
    if pieces:
        pieces.insert(0, "Processor by part, ms for each request or server")
    memory = [f"  {label}: {_shares(parts, 1024, places=0)}" for label, parts in _each_memory(found)]
    return pieces + (["Memory by part, MiB", *memory] if memory else [])


def _each_memory(found: Comparison) -> list[tuple[str, Mapping[str, int]]]:
    return [(label, parts) for label, parts in zip(found.labels, found.memory_kib, strict=True) if parts]


def _shares(parts: Mapping[str, float], unit: float, *, places: int = 1) -> str:
    """Return each part divided by ``unit`` as text; parts below 0.05 are omitted."""
    return ", ".join(f"{part} {each / unit:.{places}f}" for part, each in parts.items() if each / unit >= 0.05)


def _aligned(rows: Sequence[Sequence[str]]) -> list[str]:
    """Align the first column to the left and the others to the right. Names of clouds may be wider than
    their columns.
    """
    body = rows[1:]
    width = [max(len(row[at]) for row in body if row) for at in range(len(body[0]))]
    names = [at for at, cell in enumerate(rows[0]) if cell]
    for at in names:
        width[at] += max(0, len(rows[0][at]) - sum(width[at : at + 3]) - 2 * 2)
        width[at] += 2  # a gap before each cloud
    text = []
    for row in body:
        cells = [f"{cell:>{width[at]}}" if at else f"{cell:<{width[0]}}" for at, cell in enumerate(row)]
        text.append("  ".join(cells).rstrip())
    heading = " " * (sum(width[:2]) + 4)
    for at in names:
        heading += f"{rows[0][at]:>{sum(width[at : at + 3]) + 4}}  "
    return [heading.rstrip(), *text]
