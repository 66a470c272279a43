"""What the web processes of one port know of each other, in shared memory: how busy each is, and that it lives."""

import math
import mmap
import os
import time

ASK_EVERY = 5.0
"""Seconds between two requests of a process to itself, by which it knows that it lives."""
_LOAD, _ANSWERED = 0, 1
_FIELDS = 2
NOT_LISTENING = math.inf
"""The load of a process that takes no connections."""


class Board:
    """One row for each process; made before they are forked.  A process writes its own row only."""

    def __init__(self, rows: int, descriptor: int | None = None) -> None:
        """Make the memory, or take that of a descriptor."""
        self.rows = rows
        size = rows * _FIELDS * 8
        self.descriptor = os.memfd_create("board") if descriptor is None else descriptor
        if descriptor is None:
            os.truncate(self.descriptor, size)
        self._values = memoryview(mmap.mmap(self.descriptor, size)).cast("d")
        if descriptor is None:
            for row in range(rows):
                self.clear(row)

    def clear(self, row: int) -> None:
        """Say of a process that it is not there."""
        self._values[row * _FIELDS + _LOAD] = NOT_LISTENING
        self._values[row * _FIELDS + _ANSWERED] = 0.0

    def set_load(self, row: int, load: float) -> None:
        self._values[row * _FIELDS + _LOAD] = load

    def is_least_busy(self, row: int) -> bool:
        """Whether no other process that listens has less to do."""
        return self._values[row * _FIELDS + _LOAD] <= min(
            (self._values[each * _FIELDS + _LOAD] for each in range(self.rows) if each != row), default=NOT_LISTENING
        )

    def load(self, row: int) -> float:
        return self._values[row * _FIELDS + _LOAD]

    def answers(self, row: int) -> None:
        """Note that the process has just answered a request."""
        self._values[row * _FIELDS + _ANSWERED] = time.monotonic()

    def answered_at(self, row: int) -> float:
        """Return the monotonic time of that, 0 for a process that has not answered yet."""
        return self._values[row * _FIELDS + _ANSWERED]
