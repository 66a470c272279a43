"""A small chaos run, from the command line as a person would."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).resolve().parents[2]
pytestmark = pytest.mark.e2e


def test_a_small_run_is_clean_and_leaves_nothing(tmp_path: Path) -> None:
    done = subprocess.run(
        [str(CHECKOUT / "bin/chaos"), "--operations", "40", "--seed", "11", "--hosts", "4"],
        capture_output=True,
        text=True,
        env=os.environ | {"TMPDIR": str(tmp_path)},
        timeout=400,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "Clean: seed 11" in done.stdout
    assert "40 operations and 3 faults" in done.stdout
    assert list(tmp_path.iterdir()) == []
