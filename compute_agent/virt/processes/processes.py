"""Finds and ends helper processes of this host, only if they are proved to be Novella's."""

import contextlib
import ctypes
import logging
import os
import select
import signal
import threading
import time
from collections.abc import Iterable
from pathlib import Path

log = logging.getLogger(__name__)

WAIT_SECONDS = 5.0
PR_SET_CHILD_SUBREAPER = 36
DAEMONS = ("qemu-system", "qemu-storage", "dnsmasq", "swtpm")
SHORT_PAUSE, LONG_PAUSE = 0.01, 0.5


class Reaper:
    """Reaps ended daemons that this process started, immediately.

    Daemons detach from their parent: the machine's init would inherit them and might reap them late. Until a daemon is
    reaped, it seems to run, for example to libvirt after it ended a guest or a probe. Therefore this process becomes
    their subreaper. It does not reap children that other code waits for. Such children belong to this session, or
    started a session but have not executed one of the daemons' programs (libvirt's own intermediate processes).
    """

    def __init__(self) -> None:
        """Make this process the parent of orphans that descend from it (PR_SET_CHILD_SUBREAPER)."""
        if ctypes.CDLL(None, use_errno=True).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0:
            log.warning("orphans of this process are adopted by the machine's first process")
        self._session = os.getsid(0)
        threading.Thread(target=self._run, name="reaper", daemon=True).start()

    def _run(self) -> None:
        pause = SHORT_PAUSE
        while True:
            with contextlib.suppress(ChildProcessError):  # there is no child at all
                os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
            daemons = [pid for pid in self._children() if self._is_daemon(pid)]
            for pid in daemons:
                collect(pid)
            # Other ended children are about to be collected by the code that waits for them.
            pause = SHORT_PAUSE if daemons else min(pause * 2, LONG_PAUSE)
            time.sleep(pause)

    @staticmethod
    def _children() -> list[int]:
        """List the children of all threads of this process, including ended ones."""
        result: list[int] = []
        for path in Path("/proc/self/task").glob("*/children"):
            with contextlib.suppress(OSError):  # the thread has ended
                result += map(int, path.read_text().split())
        return result

    def _is_daemon(self, pid: int) -> bool:
        """Return whether the child has ended and no other code of this process waits for it."""
        try:
            before, _, after = Path(f"/proc/{pid}/stat").read_text().rpartition(")")
        except OSError:
            return False
        state, _parent, _group, session = after.split()[:4]
        if state != "Z" or int(session) == self._session:
            return False
        return int(session) != pid or before.partition("(")[2].startswith(DAEMONS)


def is_ours(pid: int, marks: Iterable[Path]) -> bool:
    """Return whether the command line of ``pid`` names one of ``marks`` (a folder or a file under it)."""
    try:
        command = Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return False
    return any(os.fsencode(mark) + end in command for mark in marks for end in (b"/", b"\0"))


def kill(pid: int, number: signal.Signals = signal.SIGKILL) -> bool:
    """Kill a process and wait for its end; return whether it existed."""
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


def ended(pid: int, seconds: float) -> bool:
    """Wait until a process has ended and released its resources. Return whether it ended within ``seconds``."""
    try:
        descriptor = os.pidfd_open(pid)
    except ProcessLookupError:
        return True
    try:
        gone = bool(select.select([descriptor], [], [], seconds)[0])
    finally:
        os.close(descriptor)
    collect(pid)
    return gone


def collect(pid: int) -> None:
    """Reap an ended process if it is a child of this one."""
    with contextlib.suppress(ChildProcessError):
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG)


def read_pid(path: Path) -> int | None:
    """Read a pid file; None if it is missing or has no number."""
    try:
        return int(path.read_text().strip())
    except (OSError, ValueError):
        return None
