"""The benchmark says what it does; its figures are for people, so none is tested."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

CHECKOUT = Path(__file__).resolve().parents[2]


def test_bench_explains_itself() -> None:
    said = subprocess.run(
        [sys.executable, str(CHECKOUT / "bin/libexec"), "bench", "--help"], capture_output=True, text=True, check=True
    ).stdout
    assert "--launches" in said
    assert "--real-launches" in said


def test_bench_refuses_what_it_does_not_know() -> None:
    done = subprocess.run(
        [sys.executable, str(CHECKOUT / "bin/libexec"), "bench", "--quick"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "--quick" in done.stderr
