"""The current speed of this machine, and the processor time that processes have used."""

from __future__ import annotations

import os
import re
import statistics
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

STEPS = 200_000
TIMES = 9
Used = dict[str, dict[int, float]]
"""Part of a cloud → thread id → processor seconds."""


def model() -> str:
    """Return the processor's name and the number of processors."""
    found = re.search(r"^model name\s*:\s*(.+)$", Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{found[1].strip() if found else 'unknown processor'}, {os.cpu_count()} of them"


def speed() -> float:
    """Return the speed of one core: millions of steps per second of a plain Python loop, as the median of several
    measurements.
    """
    return statistics.median(_steps_a_second() for _ in range(TIMES)) / 1e6


def _steps_a_second() -> float:
    total = 0
    began = time.perf_counter()
    for number in range(STEPS):
        total += number & 7
    return STEPS / (time.perf_counter() - began)


def used(parts: Mapping[str, Sequence[int]]) -> Used:
    """Return the processor seconds of each part's threads until now."""
    found: Used = {}
    for part, pids in parts.items():
        threads = found[part] = {}
        for pid in pids:
            threads.update(_of_threads(pid))
    return found


def spent(before: Used, after: Used) -> dict[str, float]:
    """Return the processor seconds of each part between two moments. Threads that have ended in between are not
    included.
    """
    return {
        part: sum(seconds - before.get(part, {}).get(thread, 0.0) for thread, seconds in threads.items())
        for part, threads in after.items()
    }


def _of_threads(pid: int) -> dict[int, float]:
    """Return thread id → processor seconds, from ``schedstat`` (nanoseconds), otherwise from ``stat`` (ticks)."""
    found = {}
    try:
        threads = [int(thread.name) for thread in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:
        return {}
    for thread in threads:
        try:
            found[thread] = _of_thread(Path(f"/proc/{pid}/task/{thread}"))
        except OSError:
            continue  # it has just ended
    return found


def _of_thread(folder: Path) -> float:
    try:
        return int((folder / "schedstat").read_text().split()[0]) / 1e9
    except FileNotFoundError:
        user, system = (folder / "stat").read_text().rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")
