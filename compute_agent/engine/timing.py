"""How long a command may wait and go on, by a clock that no time of day moves and that does not stop with the
machine.
"""

import time

from compute_agent.contract.messages import Command

REPORT_EVERY = 15.0
"""Seconds between two reports that a command makes progress; less for commands of little patience."""
COUNTED_EVERY = 2.0
"""Seconds between two reports that say how far a copy is: somebody looks at them."""
REPORTS = 4
"""Reports of progress within a command's timeout, at least."""


def now() -> float:
    """Return seconds since the machine was started, those in which it slept with them."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Timing:
    """The time of one command in this process.  ``moved`` may be called from worker threads."""

    def __init__(self, command: Command) -> None:
        """The command was taken just now."""
        self._command = command
        self._taken = self._alive = self._told = now()
        self._begun: float | None = None
        self.withdrawn = False
        """Whether the portal does not wait for the command's end any more."""

    @property
    def waits(self) -> bool:
        """Whether its work has not begun in this process."""
        return self._begun is None

    @property
    def late(self) -> bool:
        """Whether the portal has given the command up: it waited, or stood still, or took too long in all."""
        command, moment = self._command, now()
        if self.withdrawn:
            return True
        if self._begun is None:
            return command.begin_within is not None and moment - self._taken > command.begin_within
        still = command.timeout is not None and moment - self._alive > command.timeout
        return still or (command.total is not None and moment - self._begun > command.total)

    def begin(self) -> None:
        """Note that the command's work begins; what it waited does not count from here."""
        self._begun = self._alive = self._told = now()

    def moved(self, every: float = REPORT_EVERY) -> bool:
        """Note that the work goes on; return whether it is time to tell the portal so."""
        self._alive = now()
        if self._command.timeout is not None:
            every = min(every, self._command.timeout / REPORTS)
        if self._alive - self._told < every:
            return False
        self._told = self._alive
        return True
