"""Measures the scheduler over 100 to 10,000 hosts, and the decisions per second of two workers."""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from tools.bench.in_django import shell

SIZES = (100, 300, 1_000, 3_000, 10_000)
SHARED = 1_000
"""Number of hosts for which two workers decide at the same time."""
WORKERS = 2
EACH = 151
"""Number of decisions of each worker; the first is not counted."""
START_WITHIN = 4.0
"""Seconds within which a worker must be ready."""


@dataclass(frozen=True)
class Point:
    """Seconds of decisions over ``hosts`` hosts: ``total`` includes the claim and the records; the others are its
    parts.
    """

    hosts: int
    servers: int
    filled: float
    total: list[float]
    busy: list[float]
    """Processor seconds of the decisions."""
    read: list[float]
    decide: list[float]
    claim: list[float]

    def line(self) -> str:
        parts = ", ".join(f"{name} {ms(getattr(self, name))}" for name in ("read", "decide", "claim"))
        ordered = sorted(self.total)
        p95 = ordered[round(0.95 * (len(ordered) - 1))]
        more = f"{parts}; processor {ms(self.busy)}; {self.servers:,} servers"
        return f"median {ms(self.total)}, p95 {p95 * 1000:.1f} ms ({more})"


@dataclass(frozen=True)
class Scheduling:
    """All that `measure` has found."""

    points: list[Point]
    a_second: float
    """Decisions per second of two workers with SHARED hosts."""


def ms(seconds: list[float]) -> str:
    """Return the median in milliseconds as text."""
    return f"{statistics.median(seconds) * 1000:.1f} ms"


def measure(folder: Path) -> Scheduling:
    shell.migrate(folder)
    until = [size for size in SIZES if size <= SHARED]
    found = shell.call(folder, f"decisions.curve({', '.join(map(str, until))}, asked={WORKERS * EACH})")
    rate = _side_by_side(folder, found["asked"])
    more = shell.call(folder, f"decisions.curve({', '.join(str(size) for size in SIZES if size > SHARED)}, asked=0)")
    points = [Point(hosts=int(size), **values) for size, values in (found["points"] | more["points"]).items()]
    return Scheduling(points, rate)


def _side_by_side(folder: Path, ids: list[str]) -> float:
    """Let workers decide at the same time; return the decisions per second from the first begin to the last end."""
    begin = time.time() + START_WITHIN
    shares = [ids[number::WORKERS] for number in range(WORKERS)]
    running = [shell.begin(folder, f"decisions.work({share!r}, {begin})") for share in shares]
    ends = [shell.answer(process) for process in running]
    spent = max(end["ended"] for end in ends) - min(end["began"] for end in ends)
    return float(sum(end["done"] for end in ends) / spent)


def lines(found: Scheduling) -> list[tuple[str, str, str]]:
    """Return rows for the table: the measurement, its value and the goal."""
    rows = [(f"one decision over {point.hosts:,} hosts", point.line(), "") for point in found.points]
    rows[-1] = (*rows[-1][:2], "median under 50 ms")
    rate = f"{found.a_second:.0f} decisions a second"
    return [*rows, (f"two workers over {SHARED:,} hosts", rate, "100 a second")]


def main() -> int:
    """Print the figures without starting a cloud."""
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="nv-bench-") as folder:
        found = measure(Path(folder))
    for what, measured, goal in lines(found):
        print(f"{what:<32} {measured}   {goal}".rstrip())
    print(f"({time.monotonic() - began:.0f} s, {sum(point.filled for point in found.points):.0f} of them filling)")
    return 0


if __name__ == "__main__":
    sys.exit(main())
