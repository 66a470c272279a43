"""The soak tool: what it judges, and a short run of it on a cloud of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tools.soak.trend import Floor, trend

CHECKOUT = Path(__file__).resolve().parents[2]

FLOOR = Floor(0.05, 4.0)


def line(*values: float) -> list[tuple[float, float]]:
    return list(enumerate(values))


def test_what_rises_at_first_and_then_rests_is_flat() -> None:
    result = trend(line(*range(50, 100), *[100, 101, 99] * 20), FLOOR)
    assert (result.flat, result.verdict) == (True, "flat")


def test_what_still_rises_at_the_end_grows() -> None:
    result = trend(line(*(100 + n / 2 for n in range(60))), FLOOR)
    assert (result.flat, result.verdict) == (False, "GROWS")
    assert result.first < result.last


def test_what_falls_or_rises_by_next_to_nothing_is_flat() -> None:
    assert trend(line(*(100 - n for n in range(60))), FLOOR).flat
    assert trend(line(*(5 + n / 20 for n in range(60))), FLOOR).flat


def test_a_few_samples_say_nothing() -> None:
    assert trend(line(1, 100), FLOOR).flat is None
    assert trend(line(1), FLOOR).verdict == "too short to say"


@pytest.mark.slow
@pytest.mark.deep
def test_a_short_soak_works_on_everything_and_measures_it() -> None:
    done = subprocess.run(
        [
            sys.executable,
            str(CHECKOUT / "bin/libexec"),
            "tools.soak",
            "--seconds",
            "8",
            "--every",
            "3",
            "--pause",
            "0.2",
        ],
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    for word in ("server", "log", "socket", "page", "image"):
        assert f" {word}" in done.stdout
    for name in ("memory web", "memory worker", "memory agent", "files web", "disk portal/db.sqlite3"):
        assert name in done.stdout
    assert "0 failed" in done.stdout
