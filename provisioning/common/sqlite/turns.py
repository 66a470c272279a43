"""Turns of a process's threads for transactions on a database file."""

from __future__ import annotations

import os
import threading
import time
from collections import deque

STARVED = 0.2
"""Seconds after which a waiting thread gets the next turn."""


class Turn:
    """A lock that is passed to its oldest waiter after this waiter has waited ``STARVED`` seconds.

    Until then, the first thread that tries to acquire the lock gets it, which is faster: the thread that ends a
    transaction has the interpreter lock and often begins the next transaction before a waiter wakes up. On a busy
    machine a waiter could otherwise lose this race until its timeout.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: deque[_Waiter] = deque()

    def acquire(self, timeout: float) -> bool:
        """Wait for the lock at most ``timeout`` seconds; returns whether it was acquired."""
        with self._guard:
            if self._acquire():
                return True
            waiter = _Waiter(time.monotonic())
            self._waiting.append(waiter)
        while True:
            left = waiter.since + timeout - time.monotonic()
            try:
                woken = waiter.wake.acquire(timeout=max(left, 0))
            except BaseException:  # raised by a signal handler
                self._forget(waiter)
                raise
            with self._guard:
                if waiter.owns:
                    return True
                taken = self._acquire()
                if taken or not woken:
                    self._waiting.remove(waiter)
                    return taken

    def _acquire(self) -> bool:
        free, self._taken = not self._taken, True
        return free

    def _forget(self, waiter: _Waiter) -> None:
        with self._guard:
            if not waiter.owns:
                self._waiting.remove(waiter)
        if waiter.owns:
            self.release()

    def release(self) -> None:
        """Pass the lock to a starved waiter, or wake the oldest waiter to compete for it."""
        with self._guard:
            first = self._waiting[0] if self._waiting else None
            if first is not None and time.monotonic() - first.since >= STARVED:
                self._waiting.popleft()
                first.owns = True
            else:
                self._taken = False
            if first is not None and first.wake.locked():
                first.wake.release()


class _Waiter:
    """A thread that waits for its turn; ``owns``: the turn was passed to it."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.owns = False
        self.wake = threading.Lock()
        self.wake.acquire()


class Turns:
    """The turns of this process: for each database file, one thread at a time is in a transaction."""

    def __init__(self) -> None:
        self._locks: dict[str, Turn] = {}
        os.register_at_fork(after_in_child=self._locks.clear)  # the child does not have the threads that hold them

    def wait_for(self, name: str, timeout: float) -> Turn | None:
        """Wait for the turn, and return it; None after ``timeout`` seconds."""
        turn = self._locks.get(name) or self._locks.setdefault(name, Turn())
        return turn if turn.acquire(timeout) else None
