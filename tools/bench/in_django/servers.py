"""Measures the time of lists of servers: 1,000 in detail, and a page of 100 of 10,000."""

from __future__ import annotations

import statistics
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from tools.bench.in_django import shell


@dataclass(frozen=True)
class Lists:
    """Seconds of single requests, answered inside Django."""

    detail: list[float]
    """1,000 servers in detail."""
    few: list[float]
    """A page of 100 of 1,000."""
    many: list[float]
    """A page of 100 of 10,000."""
    same: list[float]
    """1,000 servers for a client that already has them (``If-None-Match``), as a fraction of the processor time of the
    full answer.
    """
    same_few: list[float]
    """The same for a page of 100."""


def measure(folder: Path) -> Lists:
    shell.migrate(folder)
    return Lists(**shell.call(folder, "lists.main()"))


def main() -> int:
    """Print the figures without starting a cloud."""
    with tempfile.TemporaryDirectory(prefix="nv-bench-") as folder:
        found = measure(Path(folder))
    for what, seconds in (
        ("1,000 in detail", found.detail),
        ("100 of 1,000", found.few),
        ("100 of 10,000", found.many),
    ):
        print(f"{what:<16} median {statistics.median(seconds) * 1000:.0f} ms, least {min(seconds) * 1000:.0f} ms")
    for what, ratios in (("unchanged 1,000", found.same), ("unchanged 100", found.same_few)):
        print(f"{what:<16} median {statistics.median(ratios):.2f} of the list, least {min(ratios):.2f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
