"""Stops the clients while records are restored and checked."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator


class Gate:
    """A gate that clients pass for each operation. It is open at first; ``close`` waits for the clients inside."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._open = True
        self._inside = 0

    @contextlib.contextmanager
    def passing(self) -> Iterator[None]:
        """Wait until the gate is open; the client counts as inside until the context ends."""
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
        """Close the gate, and wait until no client is inside. Returns False if one is still inside after ``within``
        seconds.
        """
        with self._changed:
            self._open = False
            return self._changed.wait_for(lambda: not self._inside, within)

    def open(self) -> None:
        with self._changed:
            self._open = True
            self._changed.notify_all()
