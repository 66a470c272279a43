"""The master of several web processes behind one port: it restarts them, and uses very little memory.

The process that loads the application and forks the web processes (`portal.web.loader`) replaces itself with the master
by ``exec``, because it would keep memory that is no longer shared. The pid, the child processes, the listening socket
and the board stay the same. To start a process again, the master replaces itself with the loader. This takes seconds;
the other processes accept connections in the meantime. To use little memory, this module imports nothing of Django and
no large module of Python.
"""

from __future__ import annotations

import json
import logging
import math
import os
import signal
import sys
import time
from collections.abc import Sequence
from typing import NoReturn

from portal.web.board import Board

SILENT_FOR = 90.0
"""A web process that has not answered its own requests for this many seconds is killed."""
STOP_WITHIN = 6.0
LOOK_EVERY = 1.0
SETTLED_AFTER = 10.0
"""Seconds after which a process counts as settled: the previous ends of its row no longer count."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
STOPPING = (signal.SIGTERM, signal.SIGINT)
RESUME = "--resume"
"""The loader's option with the state that the master passes back."""
_CODE = "import sys; sys.path.insert(0, {!r}); from portal.web import master; sys.exit(master.main())"

logger = logging.getLogger(__name__)


class Row:
    """One of the web processes. Times are of the monotonic clock, which is the same in all processes."""

    def __init__(self, pid: int = 0, started: float = 0.0, ends: int = 0, start_at: float = 0.0) -> None:
        """``ends`` is the number of consecutive ends of this process; the end of a settled process resets it to 1."""
        self.pid, self.started, self.ends, self.start_at = pid, started, ends, start_at


class State:
    """The state passed between loader and master."""

    def __init__(
        self,
        rows: list[Row],
        listening: int,
        board: int,
        silent_for: float = SILENT_FOR,
        answered: bool = False,  # noqa: FBT001, FBT002 - a plain value
    ) -> None:
        """``listening`` and ``board`` are descriptors of the socket and of the board's memory; ``answered``: whether
        any process has ever answered.
        """
        self.rows, self.listening, self.board = rows, listening, board
        self.silent_for, self.answered = silent_for, answered

    def text(self) -> str:
        return json.dumps({**vars(self), "rows": [vars(row) for row in self.rows]})

    @classmethod
    def read(cls, text: str) -> State:
        values = json.loads(text)
        return cls(**{**values, "rows": [Row(**row) for row in values["rows"]]})

    def due(self) -> list[int]:
        """Return the numbers of the processes to start now."""
        now = time.monotonic()
        return [number for number, row in enumerate(self.rows) if not row.pid and now >= row.start_at]


def take_over(state: State, command: Sequence[str]) -> NoReturn:
    """Replace this process with the master. ``command`` has the arguments of Python that start the loader."""
    for descriptor in (state.listening, state.board):
        os.set_inheritable(descriptor, True)  # noqa: FBT003 - positional only
    code = _CODE.format(os.path.realpath(f"{__file__}/../../.."))
    execute(["-I", "-S", "-c", code, state.text(), *command])


class Master:
    """Keeps the processes of a state running; ``command`` starts the loader."""

    def __init__(self, state: State, command: Sequence[str]) -> None:
        self._state, self._command = state, command
        self._board = Board(len(state.rows), state.board)

    def run(self) -> int:
        """Watch until SIGTERM or SIGINT, and return the exit status. If a process is to be started, execute the loader
        instead.
        """
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, *STOPPING])
        while not self._state.due():
            came = signal.sigtimedwait([signal.SIGCHLD, *STOPPING], LOOK_EVERY)
            if came is not None and came.si_signo in STOPPING:
                return self._stop(0)
            self._end_silent()
            if not self._take_ended():
                logger.critical("A web process ended before it answered once.")
                return self._stop(1)
        return execute([*self._command, RESUME, self._state.text()])

    def _take_ended(self) -> bool:
        """Record ended processes. Returns False if one has ended before any process has ever answered: a restart would
        not help.
        """
        state, board = self._state, self._board
        state.answered = state.answered or any(board.answered_at(number) for number in range(len(state.rows)))
        for number, row in enumerate(state.rows):
            if not row.pid:
                continue
            pid, status = os.waitpid(row.pid, os.WNOHANG)
            if not pid:
                continue
            board.clear(number)
            row.pid = 0
            settled = time.monotonic() - row.started > SETTLED_AFTER
            row.ends = 1 if settled else row.ends + 1
            pause = 0.0 if settled else min(FIRST_PAUSE * 2.0 ** min(row.ends - 1, 10), LONGEST_PAUSE)
            row.start_at = time.monotonic() + pause
            code = os.waitstatus_to_exitcode(status)
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
            logger.warning("Web process %s ended (%s); another process is started in %g s.", pid, how, pause)
            if not state.answered:
                return False
        return True

    def _end_silent(self) -> None:
        now = time.monotonic()
        for number, row in enumerate(self._state.rows):
            silent_since = max(row.started, self._board.answered_at(number))
            if row.pid and now - silent_since > self._state.silent_for:
                logger.error("Web process %s has not answered for %g s and is ended.", row.pid, self._state.silent_for)
                os.kill(row.pid, signal.SIGKILL)
                row.started = now

    def _stop(self, status: int) -> int:
        """Send SIGTERM to all processes, then SIGKILL to the processes that do not stop."""
        left = {row.pid for row in self._state.rows if row.pid}
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in left:
                os.kill(pid, number)
            deadline = time.monotonic() + (STOP_WITHIN if number == signal.SIGTERM else math.inf)
            while left and time.monotonic() < deadline:
                left -= {pid for pid in left if os.waitpid(pid, os.WNOHANG)[0]}
                signal.sigtimedwait([signal.SIGCHLD], 0.1)
        return status


def main() -> int:
    """Watch the processes; the command line is written by ``take_over``."""
    logging.basicConfig(level="INFO", format="%(asctime)s %(levelname)s %(name)s [-] %(message)s")
    return Master(State.read(sys.argv[1]), sys.argv[2:]).run()


def execute(arguments: Sequence[str]) -> NoReturn:
    sys.stdout.flush()
    sys.stderr.flush()
    os.execv(sys.executable, [sys.executable, *arguments])  # noqa: S606 - no shell is wanted
