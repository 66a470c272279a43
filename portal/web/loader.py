"""Loads the application once and forks the web processes of a port, which share the loaded memory.

The socket listens before the first process and stays open when one ends, so that connections may wait but are never
refused. After the forks the master replaces this process.
"""

import ctypes
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Sequence

from django.db import connections

from portal.web import master
from portal.web.board import Board
from portal.web.master import RESUME, STOPPING, Row, State
from provisioning.common.processes.before_fork import keep_shared

BACKLOG = 1024
"""Maximum number of connections waiting to be accepted."""
_PR_SET_PDEATHSIG = 1


def listen(address: str, port: int) -> socket.socket:
    """Return a listening socket. Raises OSError."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    listening = socket.create_server((address, port), family=family, backlog=BACKLOG)
    listening.setblocking(False)  # noqa: FBT003 - another process may accept the connection first
    return listening


class Loader:
    """Forks ``processes`` web processes on a socket; with the master's state (``resumed``), only the processes that are
    missing in it.
    """

    def __init__(self, listening: socket.socket, processes: int, resumed: State | None) -> None:
        self._listening = listening
        self._board = Board(processes, resumed.board if resumed else None)
        self._state = resumed or State([Row() for _ in range(processes)], listening.fileno(), self._board.descriptor)

    def run(self, application: str, options: Sequence[str], install: Callable[[], None]) -> int:
        """Fork and become the master; returns the exit status in each forked process.

        ``application`` is ``module:name``; ``options`` are Daphne's; ``install`` is called in each process before it
        serves.
        """
        row = 0 if len(self._state.rows) == 1 else self._fork()
        from portal.web import process  # noqa: PLC0415 - it creates the event loop, so only after the fork

        install()
        process.run(self._listening, application, options, self._board, row)
        return 0

    def _fork(self) -> int:
        """Return the row's number in each new process. In this process it does not return: the master replaces it."""
        connections.close_all()  # processes must not share connections
        if threading.active_count() > 1:
            raise RuntimeError(f"There are threads before the fork: {threading.enumerate()}")
        if "twisted.internet.reactor" in sys.modules:
            raise RuntimeError("There is an event loop before the fork.")
        keep_shared()
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGCHLD, *STOPPING])
        loader = os.getpid()
        for number in self._state.due():
            sys.stdout.flush()
            sys.stderr.flush()
            row = self._state.rows[number]
            row.started = time.monotonic()
            row.pid = os.fork()
            if not row.pid:
                ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
                if os.getppid() != loader:
                    os._exit(1)
                signal.pthread_sigmask(signal.SIG_UNBLOCK, [signal.SIGCHLD, *STOPPING])
                return number
        self._state.silent_for = master.SILENT_FOR
        return master.take_over(self._state, _own_command())


def _own_command() -> list[str]:
    """Return the arguments of Python that started this process, without the state."""
    arguments = sys.orig_argv[1:]
    return arguments[: arguments.index(RESUME)] if RESUME in arguments else arguments
