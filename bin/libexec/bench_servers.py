"""How long lists of servers take in the process: a thousand in detail, and a page of a hundred among ten thousand."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench_cloud import BenchError
from programs import CHECKOUT


@dataclass(frozen=True)
class Lists:
    """Seconds of single requests, answered in the process."""

    detail: list[float]
    """1,000 servers in detail."""
    few: list[float]
    """A page of 100 of 1,000."""
    many: list[float]
    """A page of 100 of 10,000."""


def measure(folder: Path) -> Lists:
    """Measure in a database of its own in ``folder``."""
    _manage(folder, "migrate", "--verbosity", "0")
    code = f"import sys; sys.path.insert(0, {str(Path(__file__).parent)!r}); import bench_lists; bench_lists.main()"
    return Lists(**json.loads(_manage(folder, "shell", "--verbosity", "0", "--command", code).splitlines()[-1]))


def _manage(folder: Path, *arguments: str) -> str:
    done = subprocess.run(
        [sys.executable, "manage.py", *arguments],
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        env=os.environ | {"NOVELLA_DATA": str(folder), "NOVELLA_LOG_LEVEL": "ERROR"},
        check=False,
    )
    if done.returncode != 0:
        raise BenchError(f"lists of servers: {done.stderr.strip()[-500:]}")
    return done.stdout


def main() -> int:
    """Print the figures alone, without a cloud."""
    with tempfile.TemporaryDirectory(prefix="nv-bench-") as folder:
        found = measure(Path(folder))
    for what, seconds in (
        ("1,000 in detail", found.detail),
        ("100 of 1,000", found.few),
        ("100 of 10,000", found.many),
    ):
        print(f"{what:<16} median {statistics.median(seconds) * 1000:.0f} ms, least {min(seconds) * 1000:.0f} ms")
    return 0


if __name__ == "__main__":
    sys.exit(main())
