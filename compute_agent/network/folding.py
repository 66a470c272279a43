"""Work that brings all of something up to date: done once for everybody who asks while it is being done."""

import threading
import time
from collections import deque
from collections.abc import Callable

QUICK = 0.25
"""Seconds after the last time that ``patiently`` does the work again, for what is changed now and then."""
WINDOW, MOST = 1.0, 2
"""Seconds in which it begins no oftener than this, for what is changed all the time."""


class Folded:
    """Calling it does the work, or waits for one that began after the call: of many calls at a time two are done."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._begun: deque[float] = deque(maxlen=MOST)
        self._counting, self._doing = threading.Lock(), threading.Lock()
        self._asked = self._done = 0

    def __call__(self) -> None:
        """Return when the work was done from its beginning; raises what it raises to whoever did it."""
        with self._counting:
            self._asked += 1
            mine = self._asked
        with self._doing:
            if self._done >= mine:
                return
            with self._counting:
                asked = self._asked
            self._begun.append(time.monotonic())
            self._work()
            self._done = asked

    def patiently(self) -> None:
        """The same, but not so soon after the last times: many calls one after the other are done together."""
        begun = list(self._begun)
        if begun:
            wait = begun[-1] + QUICK - time.monotonic()
            if len(begun) == MOST:
                wait = max(wait, begun[0] + WINDOW - time.monotonic())
            if wait > 0:
                time.sleep(wait)
        self()
