"""Work that brings all of something up to date: done once for everybody who asks while it is being done."""

import threading
from collections.abc import Callable


class Folded:
    """Calling it does the work, or waits for one that began after the call: of many calls at a time two are done."""

    def __init__(self, work: Callable[[], None]) -> None:
        self._work = work
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
            self._work()
            self._done = asked
