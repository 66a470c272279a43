"""Several web processes behind one port: forked from this one, which has loaded everything and opened nothing.

What was loaded before the fork is in memory once.  The socket listens before any process is there and stays open when
one ends, so that a connection waits at most for another process and is never refused.
"""

import ctypes
import gc
import importlib
import logging
import math
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from django.db import connections

from portal.web.board import Board

BACKLOG = 1024
"""Connections that wait for a process."""
SILENT_FOR = 90.0
"""Seconds in which a process did not answer itself, after which it is ended."""
STOP_WITHIN = 6.0
LOOK_EVERY = 1.0
SETTLED_AFTER = 10.0
"""Seconds of life after which the end of a process is a first end again."""
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
_STOPPING = (signal.SIGTERM, signal.SIGINT)
_PR_SET_PDEATHSIG = 1

logger = logging.getLogger(__name__)


def listen(address: str, port: int) -> socket.socket:
    """Return a socket that listens there.  Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.create_server((address, port), family=family, backlog=BACKLOG)
    listening.setblocking(False)  # noqa: FBT003 - another process may take the connection that one was woken for
    return listening


@dataclass
class _Row:
    """One of the processes."""

    pid: int = 0
    started: float = 0.0
    ends: int = 0
    """Ends in a row without a settled life between them."""
    start_at: float = 0.0


class Master:
    """Keeps ``processes`` web processes running on a socket."""

    def __init__(
        self,
        listening: socket.socket,
        processes: int,
        application: str,
        options: Sequence[str],
        install: Callable[[], None],
    ) -> None:
        """``application`` is ``module:name``; ``options`` are Daphne's; ``install`` is called in each process before it
        serves.
        """
        self._install = install
        self._listening, self._application, self._options = listening, application, options
        self._rows = [_Row() for _ in range(processes)]
        self._board = Board(processes)
        self._answered = False

    def run(self) -> int:
        """Serve until SIGTERM or SIGINT.  Returns the exit status: in this process, and in each that is forked."""
        if len(self._rows) == 1:
            return self._serve(0)
        connections.close_all()  # no process shares one with another
        if threading.active_count() > 1:
            raise RuntimeError(f"There are threads before the fork: {threading.enumerate()}")
        if "twisted.internet.reactor" in sys.modules:
            raise RuntimeError("There is an event loop before the fork.")
        gc.collect()
        gc.freeze()  # what is shared with the processes stays shared
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, *_STOPPING])
        while True:
            row = self._start_due()
            if row is not None:
                return self._serve(row)
            came = signal.sigtimedwait([signal.SIGCHLD, *_STOPPING], LOOK_EVERY)
            if came is not None and came.si_signo in _STOPPING:
                return self._stop(0)
            self._end_silent()
            if not self._take_ended():
                logger.critical("A web process ended before it answered once.")
                return self._stop(1)

    # --- the master -------------------------------------------------------------------------------------------------

    def _start_due(self) -> int | None:
        """Fork what is to run and does not; returns the row in the new process, None in this one."""
        now = time.monotonic()
        for number, row in enumerate(self._rows):
            if row.pid or now < row.start_at:
                continue
            sys.stdout.flush()
            sys.stderr.flush()
            master = os.getpid()
            row.started = now
            row.pid = os.fork()
            if not row.pid:
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
                if os.getppid() != master:
                    os._exit(1)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD, *_STOPPING])
                return number
        return None

    def _take_ended(self) -> bool:
        """Note which processes have ended; False when none has ever answered, so that starting again is no use."""
        self._answered = self._answered or any(self._board.answered_at(number) for number in range(len(self._rows)))
        for number, row in enumerate(self._rows):
            if not row.pid:
                continue
            pid, status = os.waitpid(row.pid, os.WNOHANG)
            if not pid:
                continue
            self._board.clear(number)
            row.pid = 0
            settled = time.monotonic() - row.started > SETTLED_AFTER
            row.ends = 1 if settled else row.ends + 1
            pause = 0.0 if settled else min(FIRST_PAUSE * 2.0 ** min(row.ends - 1, 10), LONGEST_PAUSE)
            row.start_at = time.monotonic() + pause
            code = os.waitstatus_to_exitcode(status)
            how = f"signal {signal.Signals(-code).name}" if code < 0 else f"exit status {code}"
            logger.warning("Web process %s ended (%s); another one takes its place in %g s.", pid, how, pause)
            if not self._answered:
                return False
        return True

    def _end_silent(self) -> None:
        now = time.monotonic()
        for number, row in enumerate(self._rows):
            if row.pid and now - max(row.started, self._board.answered_at(number)) > SILENT_FOR:
                logger.error("Web process %s has not answered for %g s and is ended.", row.pid, SILENT_FOR)
                os.kill(row.pid, signal.SIGKILL)
                row.started = now

    def _stop(self, status: int) -> int:
        """Ask all to stop, then end those that do not."""
        left = {row.pid for row in self._rows if row.pid}
        for number in (signal.SIGTERM, signal.SIGKILL):
            for pid in left:
                os.kill(pid, number)
            deadline = time.monotonic() + (STOP_WITHIN if number == signal.SIGTERM else math.inf)
            while left and time.monotonic() < deadline:
                left -= {pid for pid in left if os.waitpid(pid, os.WNOHANG)[0]}
                signal.sigtimedwait([signal.SIGCHLD], 0.1)
        return status

    # --- a process --------------------------------------------------------------------------------------------------

    def _serve(self, row: int) -> int:
        process = importlib.import_module("portal.web.process")  # makes the event loop: not before the fork
        self._install()
        process.run(self._listening, self._application, self._options, self._board, row)
        return 0
