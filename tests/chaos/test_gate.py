"""Clients that wait while records are put back."""

from __future__ import annotations

import threading

from tools.chaos.clients.gate import Gate

SECONDS = 20.0


def test_whoever_is_inside_is_waited_for_and_nobody_else_comes_in() -> None:
    gate, leave, came = Gate(), threading.Event(), threading.Event()
    inside = threading.Event()

    def first() -> None:
        with gate.passing():
            inside.set()
            leave.wait(SECONDS)

    def second() -> None:
        with gate.passing():
            came.set()

    threads = [threading.Thread(target=first)]
    threads[0].start()
    assert inside.wait(SECONDS)
    assert not gate.close(0)
    threads.append(threading.Thread(target=second))
    threads[1].start()
    leave.set()
    assert gate.close(SECONDS)
    assert not came.is_set()
    gate.open()
    assert came.wait(SECONDS)
    for thread in threads:
        thread.join(SECONDS)
