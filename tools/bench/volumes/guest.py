"""The work of measured guests on their second disk, and the results that they print on their consoles."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

from tools.bench.cloud import BenchError

WITHIN = 300.0
SECONDS = 8
"""Seconds of a turn. Guests that are compared measure in alternate turns, so that other work on the machine affects all
of them.
"""
WRITTEN = "+written"
WRITES = f"""#!/bin/sh
until [ -b /dev/vdb ]; do sleep 1; done
while :; do
  dd if=/dev/zero of=/dev/vdb bs=4k count=1 oflag=direct 2>/dev/null && echo '{WRITTEN}'
done
"""
Figures = dict[str, list[float]]
"""Operation → MiB per second in each turn except the first."""
KINDS = {"sequential write": 64, "sequential read": 64, "4 KiB write": 2, "4 KiB read": 2}
"""Operation → MiB that it transfers."""
_MEASURES = """#!/bin/sh
until [ -b /dev/vdb ]; do sleep 1; done
up() {{ cut -d' ' -f1 /proc/uptime; }}
turn() {{
  a=$(up); dd if=/dev/zero of=/dev/vdb bs=1M count=64 oflag=direct 2>/dev/null
  b=$(up); dd if=/dev/vdb of=/dev/null bs=1M count=64 iflag=direct 2>/dev/null
  c=$(up); dd if=/dev/zero of=/dev/vdb bs=4k count=512 oflag=direct 2>/dev/null
  d=$(up); dd if=/dev/vdb of=/dev/null bs=4k count=512 iflag=direct 2>/dev/null
  echo "+measured $1 $a $b $c $d $(up)"
}}
for number in $(seq 0 {turns}); do
  while [ $(( $(date +%s) / {seconds} % 2 )) -ne {phase} ]; do usleep 50000; done
  turn $number
  while [ $(( $(date +%s) / {seconds} % 2 )) -eq {phase} ]; do usleep 50000; done
done
"""


def measures(turns: int, phase: int) -> str:
    """Return the script of a guest that measures its disk in ``turns`` turns, after a first turn that fills
    the disk.
    """
    return _MEASURES.format(turns=turns, phase=phase, seconds=SECONDS)


def figures(log: Path, turns: int) -> Figures:
    """Wait for a guest's last turn, and return its figures.  Raises BenchError."""

    def lines() -> list[str]:
        text = log.read_text(errors="replace") if log.exists() else ""
        return re.findall(r"\+measured (\d+(?: \d+\.\d+){5})\s", text)

    until(lambda: len(lines()) > turns, "a guest measures its disk", WITHIN + 2 * SECONDS * (turns + 1))
    found: Figures = {kind: [] for kind in KINDS}
    for line in lines()[1:]:
        moments = [float(word) for word in line.split()[1:]]
        for (kind, amount), began, ended in zip(KINDS.items(), moments, moments[1:], strict=False):
            found[kind].append(amount / max(ended - began, 0.01))
    return found


def console_log(data: Path, server: str) -> Path:
    """Return the file with the console output of a server of a one-machine cloud. Raises BenchError."""
    found = next(data.glob(f"**/instances/{server}/console.log"), None)
    if found is None:
        raise BenchError(f"server {server} has no console")
    return found


class Silence:
    """Follows a console in a thread; ``longest`` is the longest time without output, in seconds."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self.longest = 0.0

    def _follow(self) -> None:
        size, moment = self._log.stat().st_size, time.perf_counter()
        while not self._stop.wait(0.002):
            now = time.perf_counter()
            self.longest = max(self.longest, now - moment)
            if (grown := self._log.stat().st_size) != size:
                size, moment = grown, now

    def __enter__(self) -> Silence:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()


def until(question: Callable[[], bool], what: str, within: float = WITHIN) -> None:
    deadline = time.monotonic() + within
    while not question():
        if time.monotonic() > deadline:
            raise BenchError(f"it did not come to this: {what}")
        time.sleep(0.1)
