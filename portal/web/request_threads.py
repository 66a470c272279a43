"""Threads for synchronous calls. A request runs in one of them, from Django's ``request_started`` to
``request_finished``.

Many threads are expensive: each has a database connection that is slow until its statements are prepared, and running
threads compete for the interpreter's lock. So the most recently used thread is preferred, and only a few calls run
simultaneously. Calls that take long are not counted: they are assumed to wait for a host, a disk or a client.
"""

import asyncio
import atexit
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

AT_ONCE = 2
"""Number of calls that run simultaneously. Calls that have run for longer than PATIENCE are not counted."""
PATIENCE = 0.02
"""Seconds after which a call is assumed to be waiting."""
END_WITHIN = 5.0
"""Seconds to wait for running calls at the end of the process."""


class _Call:
    """A function, and the future in an event loop that waits for its result."""

    __slots__ = ("_error", "_function", "_future", "_loop", "_result", "began")

    def __init__(self, function: Callable[[], Any]) -> None:
        self._function = function
        self._result: Any = None
        self._error: BaseException | None = None
        self._loop = asyncio.get_running_loop()
        self._future: asyncio.Future[Any] = self._loop.create_future()
        self.began = 0.0

    async def result(self) -> Any:
        return await self._future

    def later(self, seconds: float, function: Callable[[], None]) -> None:
        self._loop.call_later(seconds, function)

    def run(self) -> None:
        if self._future.cancelled():
            return
        try:
            self._result = self._function()
        except BaseException as raised:  # noqa: BLE001 - raised in the waiting thread
            self._error = raised

    def answer(self) -> None:
        """Set the result of the future."""
        try:
            self._loop.call_soon_threadsafe(self._settle)
        except RuntimeError:  # the loop has stopped: the result is not awaited
            return

    def _settle(self) -> None:
        if self._future.done():
            return
        if self._error is not None:
            self._future.set_exception(self._error)
        else:
            self._future.set_result(self._result)


class RequestThreads:
    """At most ``most`` threads; ``await run(function)`` runs it in one of them and returns its result or raises its
    error.
    """

    def __init__(self, most: int, name: str) -> None:
        self._most, self._name = most, name
        self._lock = threading.Lock()
        self._running: set[_Call] = set()
        self._waiting: deque[_Call] = deque()
        self._idle: list[SimpleQueue[_Call | None]] = []
        self._threads: list[threading.Thread] = []
        self._looks_again_by = 0.0
        self._closed = False
        atexit.register(self.close)

    async def run(self, function: Callable[[], Any]) -> Any:
        call = _Call(function)
        with self._lock:
            self._waiting.append(call)
            self._begin(call)
        return await call.result()

    def close(self) -> None:
        """Wait for running calls up to a timeout; waiting calls are not started."""
        with self._lock:
            self._closed = True
            self._waiting.clear()
            idle, self._idle = self._idle, []
        for inbox in idle:
            inbox.put(None)
        for thread in self._threads:
            thread.join(END_WITHIN)

    def _begin(self, latest: _Call) -> None:
        """Start waiting calls until the limit of running calls is reached; the caller must hold the lock."""
        while self._waiting and self._may_run():
            call = self._next_call()
            if self._idle:
                self._idle.pop().put(call)
            else:
                name = f"{self._name}_{len(self._threads)}"
                thread = threading.Thread(target=self._carry, args=(call,), name=name, daemon=True)
                self._threads.append(thread)
                thread.start()
        now = time.monotonic()
        if self._waiting and now > self._looks_again_by:  # the timers of a stopped loop are lost
            self._looks_again_by = now + 2 * PATIENCE
            latest.later(PATIENCE, lambda: self._look_again(latest))

    def _look_again(self, latest: _Call) -> None:
        with self._lock:
            self._looks_again_by = 0.0
            self._begin(latest)

    def _may_run(self) -> bool:
        if len(self._running) < AT_ONCE:
            return True
        long_ago = time.monotonic() - PATIENCE
        quick = sum(call.began > long_ago for call in self._running)
        return quick < AT_ONCE and len(self._running) < self._most

    def _next_call(self) -> _Call:
        call = self._waiting.popleft()
        call.began = time.monotonic()
        self._running.add(call)
        return call

    def _carry(self, call: _Call | None) -> None:
        inbox: SimpleQueue[_Call | None] = SimpleQueue()
        while call is not None:
            call.run()
            ran = call
            with self._lock:
                self._running.discard(ran)
                call = self._next_call() if not self._closed and self._waiting and self._may_run() else None
                if call is None and not self._closed:
                    self._idle.append(inbox)  # before the result, so that the next call finds this thread
            ran.answer()
            if self._closed and call is None:
                return
            if call is None:
                call = inbox.get()
