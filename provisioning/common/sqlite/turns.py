"""Turns of the threads of one process at a database file."""

from __future__ import annotations

import os
import threading
import time
from collections import deque

STARVED = 0.2
"""Seconds after which a thread that waits for its turn is next."""


class Turn:
    """A lock whose oldest waiter gets it once that has waited ``STARVED`` seconds.

    Until then, whoever comes first takes it, which is quicker: the thread that ends a transaction has the interpreter
    and often begins the next one before a waiter wakes up.  On a busy machine a waiter could lose that race for as long
    as its timeout.
    """

    def __init__(self) -> None:
        self._guard = threading.Lock()
        self._taken = False
        self._waiting: deque[_Waiter] = deque()

    def acquire(self, timeout: float) -> bool:
        """Wait for the lock at most ``timeout`` seconds; return whether it was taken."""
        with self._guard:
            if self._take():
                return True
            waiter = _Waiter(time.monotonic())
            self._waiting.append(waiter)
        while True:
            left = waiter.since + timeout - time.monotonic()
            try:
                woken = waiter.wake.acquire(timeout=max(left, 0))
            except BaseException:  # of a signal
                self._forget(waiter)
                raise
            with self._guard:
                if waiter.owns:
                    return True
                taken = self._take()
                if taken or not woken:
                    self._waiting.remove(waiter)
                    return taken

    def _take(self) -> bool:
        free, self._taken = not self._taken, True
        return free

    def _forget(self, waiter: _Waiter) -> None:
        with self._guard:
            if not waiter.owns:
                self._waiting.remove(waiter)
        if waiter.owns:
            self.release()

    def release(self) -> None:
        """Give it to a starved waiter, or wake the oldest to try for it."""
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
    """A thread that waits for its turn."""

    def __init__(self, since: float) -> None:
        self.since = since
        self.owns = False
        self.wake = threading.Lock()
        self.wake.acquire()


class Turns:
    """Whose turn it is among the threads of this process: for each database file, one thread is in a transaction."""

    def __init__(self) -> None:
        self._locks: dict[str, Turn] = {}
        os.register_at_fork(after_in_child=self._locks.clear)  # the child has none of the threads that hold them

    def take(self, name: str, timeout: float) -> Turn | None:
        """Wait for the turn; None when it did not come in ``timeout`` seconds."""
        turn = self._locks.get(name) or self._locks.setdefault(name, Turn())
        return turn if turn.acquire(timeout) else None
