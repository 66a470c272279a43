"""Shared memory of the web processes of one port: the load of each process, and the time of its last answer."""

import math
import mmap
import os
import time

ASK_EVERY = 5.0
"""Seconds between a process's requests to itself, which show that it is alive."""
_LOAD, _ANSWERED = 0, 1
_FIELDS = 2
NOT_LISTENING = math.inf
"""The load of a process that accepts no connections."""


class Board:
    """One row for each process; created before the fork. A process writes only its own row."""

    def __init__(self, rows: int, descriptor: int | None = None) -> None:
        """Create the shared memory, or open existing memory by its file descriptor."""
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
        """Reset the row of a process that has ended or has not started yet."""
        self._values[row * _FIELDS + _LOAD] = NOT_LISTENING
        self._values[row * _FIELDS + _ANSWERED] = 0.0

    def set_load(self, row: int, load: float) -> None:
        self._values[row * _FIELDS + _LOAD] = load

    def is_least_busy(self, row: int) -> bool:
        """Whether no other listening process has a lower load."""
        return self._values[row * _FIELDS + _LOAD] <= min(
            (self._values[each * _FIELDS + _LOAD] for each in range(self.rows) if each != row), default=NOT_LISTENING
        )

    def load(self, row: int) -> float:
        return self._values[row * _FIELDS + _LOAD]

    def answers(self, row: int) -> None:
        """Record that the process has just answered a request."""
        self._values[row * _FIELDS + _ANSWERED] = time.monotonic()

    def answered_at(self, row: int) -> float:
        """Return the monotonic time of the last answer, 0 before the first."""
        return self._values[row * _FIELDS + _ANSWERED]
