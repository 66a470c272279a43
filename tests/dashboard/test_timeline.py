"""The launch drawn: steps, and the time between them in which nothing was done."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from portal.dashboard.instances.detail.timeline import attempts
from provisioning.compute.selectors import Step

BEGIN = datetime(2026, 11, 27, 10, 0, tzinfo=UTC)


def step(name: str, begin: float, end: float | None) -> Step:
    finished = BEGIN + timedelta(seconds=end) if end is not None else None
    seconds = None if end is None else end - begin
    return Step(name, name, 1, BEGIN + timedelta(seconds=begin), finished, seconds, "Success" if finished else "")


def test_a_wait_for_a_worker_has_a_name_and_the_sum_is_right() -> None:
    [attempt] = attempts([step("api_create", 0, 0.02), step("schedule", 3.5, 3.56)])
    assert [bar.look for bar in attempt.bars] == ["done", "gap", "done"]
    waiting = attempt.bars[1]
    assert waiting.step.label == "Waiting for a worker"
    assert waiting.step.seconds == pytest.approx(3.48)
    assert sum(bar.step.seconds or 0 for bar in attempt.bars) == pytest.approx(attempt.seconds)
    assert waiting.left + waiting.width == pytest.approx(attempt.bars[2].left, abs=0.02)


def test_behind_the_hand_over_it_waits_for_the_host() -> None:
    [attempt] = attempts([step("hand_off", 0, 0.02), step("fetch_image", 1, 2)])
    assert attempt.bars[1].step.label == "Waiting for the host"


@pytest.mark.parametrize("begin", [0.02, 0.05, 0.1])
def test_the_way_from_one_step_to_the_next_is_no_wait(begin: float) -> None:
    [attempt] = attempts([step("api_create", 0, 0.02), step("schedule", begin, 0.5)])
    assert [bar.look for bar in attempt.bars] == ["done", "done"]


def test_steps_side_by_side_leave_no_gap() -> None:
    [attempt] = attempts([step("fetch_image", 0, 3), step("plug_network", 0, 0.1), step("create_disk", 3, 4)])
    assert len(attempt.bars) == 3
