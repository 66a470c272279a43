"""Time limits of commands, measured by a clock that ignores changes of the time of day and includes suspend."""

import time

from compute_agent.contract.messages import Command

REPORT_EVERY = 15.0
"""Seconds between two progress reports of a command; less for commands with a short timeout."""
COUNTED_EVERY = 2.0
"""Seconds between two reports with byte counts, which are shown to users."""
REPORTS = 4
"""Minimum number of progress reports within a command's timeout."""


def now() -> float:
    """Return seconds since the machine was booted, including suspend."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


class Timing:
    """The times of one command in this process.  ``moved`` may be called from worker threads."""

    def __init__(self, command: Command) -> None:
        """Start measuring: the command has just been accepted."""
        self._command = command
        self._taken = self._alive = self._reported = now()
        self._begun: float | None = None
        self.withdrawn = False
        """Whether the portal no longer waits for the command's end."""

    @property
    def waits(self) -> bool:
        """Whether the command's work has not begun in this process."""
        return self._begun is None

    @property
    def late(self) -> bool:
        """Whether the portal no longer waits for the command: it was withdrawn, waited too long, made no progress, or
        took too long in total.
        """
        command, moment = self._command, now()
        if self.withdrawn:
            return True
        if self._begun is None:
            return command.begin_within is not None and moment - self._taken > command.begin_within
        still = command.timeout is not None and moment - self._alive > command.timeout
        return still or (command.total is not None and moment - self._begun > command.total)

    def begin(self) -> None:
        """Record that the command's work begins; its waiting time no longer counts."""
        self._begun = self._alive = self._reported = now()

    def moved(self, every: float = REPORT_EVERY) -> bool:
        """Record progress; return whether it is time to report it to the portal."""
        self._alive = now()
        if self._command.timeout is not None:
            every = min(every, self._command.timeout / REPORTS)
        if self._alive - self._reported < every:
            return False
        self._reported = self._alive
        return True
