"""Holds the clients back while records are put back and looked at."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class Gate:
    """Open at first; it waits for the clients inside when it closes."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open = True
        self._inside = 0

    @contextlib.contextmanager
    def passing(self) -> Iterator[None]:
        """Wait until the gate is open, and be inside meanwhile."""
        with self._changed:
            self._changed.wait_for(lambda: self._open)
            self._inside += 1
        try:
            yield
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def close(self, within: float) -> bool:
        """Admit no clients, and wait until none is inside; False when one stays for longer."""
        with self._changed:
            self._open = False
            return self._changed.wait_for(lambda: not self._inside, within)

    def open(self) -> None:
        with self._changed:
            self._open = True
            self._changed.notify_all()
