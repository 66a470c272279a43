"""Find and end the helper processes of this host: only those that are proved to be ours."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import select
import signal
import threading
from collections.abc import Iterable
from pathlib import Path

log = logging.getLogger(__name__)

WAIT_SECONDS = 5.0
PR_SET_CHILD_SUBREAPER = 36


class Reaper:
    """Lets the daemons this process starts vanish from the process table the moment they end.

    They have no parent any more: the machine's first process inherits them and collects them when it pleases, and until
    then whoever asks (libvirt after it ended a guest) is told that they still run.  So this process inherits them.
    """

    def __init__(self) -> None:
        """Become the heir of what this process starts."""
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            log.warning("orphans of this process stay with the machine's first process")
        self._watched = select.epoll()
        threading.Thread(target=self._collect, name="reaper", daemon=True).start()

    def watch(self, pid: int | None) -> None:
        """Collect the process ``pid`` when it ends; no harm if it is another's or gone."""
        if pid is None:
            return
        with contextlib.suppress(ProcessLookupError):
            self._watched.register(os.pidfd_open(pid), select.EPOLLIN)

    def _collect(self) -> None:
        while True:
            for descriptor, _ in self._watched.poll():
                self._watched.unregister(descriptor)
                with contextlib.suppress(ChildProcessError):  # not ours to collect
                    os.waitid(os.P_PIDFD, descriptor, os.WEXITED | os.WNOHANG)
                os.close(descriptor)


def is_ours(pid: int, marks: Iterable[Path]) -> bool:
    """Say whether the command line of ``pid`` names one of ``marks`` (a folder or a file under it)."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return any(os.fsencode(mark) + end in command for mark in marks for end in (b"/", b"\0"))


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> bool:
    """End a process and wait until it is gone; say whether it was there."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return False
    try:
        signal.pidfd_send_signal(descriptor, number)
        if not select.select([descriptor], [], [], WAIT_SECONDS)[0]:
            log.warning("process %s does not end", pid)
    except ProcessLookupError:
        return False
    finally:
        os.close(descriptor)
    collect(pid)
    return True


def collect(pid: int) -> None:
    """Take an ended process out of the process table if it is a child of this one."""
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)


def read_pid(path: Path) -> int | None:
    """Read a pid file; None when there is none or it holds no number."""
    try:
        return int(path.read_text().strip())
    except (OSError, ValueError):
        return None
