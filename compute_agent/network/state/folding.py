"""Coalesces work that updates a whole state: one run serves all callers that are waiting for it."""

import threading
import time
from collections import deque
from collections.abc import Callable

QUICK = 0.25
"""Minimum seconds between runs of ``patiently``, for occasional changes."""
WINDOW, MOST = 1.0, 2
"""Within ``WINDOW`` seconds at most ``MOST`` runs begin, for continuous changes."""


class Folded:
    """Runs the work for each call, unless a run that began after the call has already done it. Many concurrent calls
    cause two runs.
    """

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
        self._begun: deque[float] = deque(maxlen=MOST)
        self._counting, self._doing = threading.Lock(), threading.Lock()
        self._asked = self._done = 0

    def __call__(self) -> None:
        """Return when a run that began after this call has finished. An exception is raised only in the caller that
        executed the run.
        """
        with self._counting:
            self._asked += 1
            mine = self._asked
        with self._doing:
            if self._done >= mine:
                return
            with self._counting:
                requests = self._asked
            self._begun.append(time.monotonic())
            self._work()
            self._done = requests

    def patiently(self) -> None:
        """Like ``__call__``, but wait first if runs were recent, so that a series of calls shares a run."""
        begun = list(self._begun)
        if begun:
            wait = begun[-1] + QUICK - time.monotonic()
            if len(begun) == MOST:
                wait = max(wait, begun[0] + WINDOW - time.monotonic())
            if wait > 0:
                time.sleep(wait)
        self()
