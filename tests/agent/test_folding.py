"""Filters of all guests are rendered once for those who ask meanwhile, and never too early."""

from __future__ import annotations

import threading

import pytest

from compute_agent.network.folding import Folded

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
    found: dict[int, bool] = {}

    def ask(number: int) -> None:
        written.append(number)
        folded()
        found[number] = any(number in each for each in seen)

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
    assert found == dict.fromkeys(range(9), True)


def test_a_failure_is_told_and_does_not_count_as_done() -> None:
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
