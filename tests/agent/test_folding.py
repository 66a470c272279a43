"""Filters of all guests are rendered once for those who ask meanwhile, and never too early."""

from __future__ import annotations

import threading

import pytest

from compute_agent.network.state import folding
from compute_agent.network.state.folding import Folded

PATIENCE = 60.0


def test_many_at_a_time_are_done_together_after_what_each_wrote() -> None:
    written: list[int] = []
    seen: list[set[int]] = []
    first, release = threading.Event(), threading.Event()

    def render() -> None:
        seen.append(set(written))
        if len(seen) == 1:
            first.set()
            assert release.wait(PATIENCE)

    folded = Folded(render)
    result: dict[int, bool] = {}

    def ask(number: int) -> None:
        written.append(number)
        folded()
        result[number] = any(number in each for each in seen)

    threads = [threading.Thread(target=ask, args=[0])]
    threads[0].start()
    assert first.wait(PATIENCE)
    threads += [threading.Thread(target=ask, args=[number]) for number in range(1, 9)]
    for thread in threads[1:]:
        thread.start()
    pause = threading.Event()
    while folded._asked < 9:
        assert not pause.wait(0.01)
    release.set()
    for thread in threads:
        thread.join(PATIENCE)
    assert len(seen) == 2
    assert result == dict.fromkeys(range(9), True)


def test_a_failure_is_reported_and_does_not_count_as_done() -> None:
    tries: list[int] = []

    def render() -> None:
        tries.append(1)
        if len(tries) == 1:
            raise OSError("no")

    folded = Folded(render)
    with pytest.raises(OSError, match="no"):
        folded()
    folded()
    assert len(tries) == 2


def test_a_hundred_changes_in_a_second_are_put_in_place_once_or_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first one at once, and none of them later than a second."""
    clock = Clock()
    monkeypatch.setattr(folding, "time", clock)
    begun: list[float] = []
    folded = Folded(lambda: begun.append(clock.now))
    arrived = [number / 100 for number in range(100)]
    done: dict[float, float] = {}
    waiting: list[float] = []
    for at in arrived:
        if clock.now > at:  # somebody waits, and this one is done with it
            waiting.append(at)
            continue
        done |= dict.fromkeys(waiting, clock.now)
        waiting.clear()
        clock.now = at
        folded.patiently()
        done[at] = clock.now
    assert [each for each in begun if each < 1] == begun[:2]
    assert begun[:2] == [0.0, folding.QUICK + 0.0]
    assert max(done[at] - at for at in done) <= 1


def test_what_changes_now_and_then_waits_for_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(folding, "time", clock)
    folded = Folded(lambda: None)
    for at in (0.0, 1.0, 2.0, 3.0):
        clock.now = at
        folded.patiently()
        assert clock.now == at
    clock.now = 3.1
    folded.patiently()
    assert clock.now == pytest.approx(3 + folding.QUICK)


class Clock:
    """Time that passes by sleeping only."""

    def __init__(self) -> None:
        self.now = 0.0

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds
