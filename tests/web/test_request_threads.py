"""The threads of requests: few run at a time, those that wait for something hold nobody up, errors come back."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import pytest

from portal.web import request_threads
from portal.web.request_threads import AT_ONCE, RequestThreads

MOST = 6


@pytest.fixture
def threads() -> Iterator[RequestThreads]:
    made = RequestThreads(MOST, "test")
    yield made
    made.close()


async def test_what_a_call_returns_or_raises_comes_back(threads: RequestThreads) -> None:
    assert await threads.run(lambda: 7) == 7
    with pytest.raises(ZeroDivisionError):
        await threads.run(lambda: 1 // 0)
    assert await threads.run(lambda: 8) == 8


async def test_calls_one_after_the_other_stay_in_one_thread(
    threads: RequestThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_threads, "PATIENCE", 60.0)
    for _ in range(AT_ONCE):  # more than one thread is there
        await asyncio.gather(*(threads.run(threading.get_ident) for _ in range(8)))
    names = set()
    for _ in range(20):
        names.add(await threads.run(threading.get_ident))
    assert len(names) == 1


async def test_quick_calls_do_not_take_more_threads_than_run_at_once(
    threads: RequestThreads, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(request_threads, "PATIENCE", 60.0)  # none of them is slow
    used = set(await asyncio.gather(*(threads.run(threading.get_ident) for _ in range(200))))
    assert len(used) <= AT_ONCE


async def test_calls_that_wait_hold_nobody_up(threads: RequestThreads) -> None:
    goes_on = threading.Event()
    waiting = [asyncio.ensure_future(threads.run(lambda: goes_on.wait(30))) for _ in range(MOST - 1)]
    assert await asyncio.wait_for(threads.run(lambda: "quick"), 10) == "quick"
    goes_on.set()
    assert await asyncio.gather(*waiting) == [True] * (MOST - 1)


async def test_no_more_threads_than_allowed(threads: RequestThreads) -> None:
    goes_on = threading.Event()
    waiting = [asyncio.ensure_future(threads.run(lambda: goes_on.wait(30))) for _ in range(MOST)]
    one_more = asyncio.ensure_future(threads.run(lambda: "late"))
    await asyncio.sleep(request_threads.PATIENCE * (MOST + 3))
    assert not one_more.done()
    goes_on.set()
    assert await one_more == "late"
    assert await asyncio.gather(*waiting) == [True] * MOST


async def test_a_call_whose_caller_has_left_before_it_began_is_not_run(threads: RequestThreads) -> None:
    goes_on, ran = threading.Event(), threading.Event()
    waiting = [asyncio.ensure_future(threads.run(lambda: goes_on.wait(30))) for _ in range(MOST)]
    left = asyncio.ensure_future(threads.run(ran.set))
    await asyncio.sleep(request_threads.PATIENCE * (MOST + 3))
    left.cancel()
    await asyncio.sleep(0)
    goes_on.set()
    await asyncio.gather(*waiting)
    assert await threads.run(lambda: 1) == 1
    assert not ran.is_set()


def test_the_end_waits_for_what_runs() -> None:
    threads, began, ended = RequestThreads(2, "test"), threading.Event(), threading.Event()

    def work() -> None:
        began.set()
        ended.wait(0.05)
        ended.set()

    async def start() -> None:
        task = asyncio.ensure_future(threads.run(work))
        while not began.is_set():
            await asyncio.sleep(0.001)
        task.cancel()

    asyncio.run(start())
    threads.close()
    assert ended.is_set()
