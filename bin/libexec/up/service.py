"""A long-running program under the supervisor: its process group, its log, and the pause before its next start."""

from __future__ import annotations

import ctypes
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

LOG_BYTES = 5_000_000
"""The size at which a log is renamed and a new one is started."""
LOGS_KEPT = 3
LINE_BYTES = 65_536
"""The length at which a line is split."""
MOST_LAST_READS = 1000
LAST_LINE = 500
FIRST_PAUSE, LONGEST_PAUSE = 0.5, 30.0
SETTLED_AFTER = 30.0
"""Seconds after which a program counts as settled: its next end is counted as the first."""
IMPORTANT = re.compile(
    rb"^(?!.* INFO novella\.notifications ).*\b(WARNING|ERROR|CRITICAL)\b|^Traceback |^[\w.]+(Error|Exception)\b"
)
"""Lines that are shown at the terminal. Notifications are for programs: they are not shown even if they
contain ERROR.
"""

_PR_SET_PDEATHSIG = 1
_libc = ctypes.CDLL(None)


@dataclass(frozen=True)
class Program:
    """The command and environment of a service, and the time within which it must stop."""

    name: str
    command: list[str]
    environment: dict[str, str]
    stop_within: float = 10.0
    """Seconds between the request to stop and the end of the whole group."""


def _follow_parent(parent: int) -> Callable[[], None]:
    """Return a function to call between fork and exec. It asks the kernel to send SIGTERM to the process when the
    supervisor ends for any reason.
    """

    def prepare() -> None:
        _libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:
            os._exit(1)

    return prepare


class Log:
    """A log file that lines are appended to. It is renamed when it is too large."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file = path.open("ab", buffering=0)

    def write(self, line: bytes) -> None:
        if self._file.tell() + len(line) > LOG_BYTES:
            self._rotate()
        self._file.write(line)

    def close(self) -> None:
        self._file.close()

    def _rotate(self) -> None:
        self._file.close()
        for number in range(LOGS_KEPT - 1, 0, -1):
            older = self._path.with_suffix(f".log.{number}")
            if older.exists():
                older.replace(self._path.with_suffix(f".log.{number + 1}"))
        self._path.replace(self._path.with_suffix(".log.1"))
        self._file = self._path.open("ab", buffering=0)


@dataclass
class Service:
    """A program and the process that runs it now, if any.

    Every process starts its own session: a Ctrl-C at the terminal does not reach it, and its remaining children can be
    ended as one group. Guests are not in the group, because QEMU starts its own session.
    """

    program: Program
    log: Log
    show: Callable[[str, str], None]
    """Called with the service's name and each line that matches ``IMPORTANT``."""
    process: subprocess.Popen[bytes] | None = None
    start_at: float = 0.0
    """Monotonic time of the next start while the program is not running."""
    started: float = 0.0
    ends: int = 0
    """Number of consecutive ends without a settled run between them."""
    last_line: str = ""
    """The last line of its output."""
    _partial: bytes = field(default=b"", repr=False)

    @property
    def name(self) -> str:
        return self.program.name

    @property
    def running(self) -> bool:
        return self.process is not None

    def start(self) -> int:
        """Start the program; return the non-blocking descriptor of its output."""
        self.process = subprocess.Popen(
            self.program.command,
            env=self.program.environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            preexec_fn=_follow_parent(os.getpid()),
        )
        self.started = time.monotonic()
        self._partial = b""
        assert self.process.stdout is not None  # noqa: S101 - asked for above
        descriptor = self.process.stdout.fileno()
        os.set_blocking(descriptor, False)
        return descriptor

    def read(self) -> int | None:
        """Write new output to the log. Returns its size, 0 at the end of the output, None if there is no new output."""
        if self.process is None or self.process.stdout is None:
            return 0
        try:
            data = os.read(self.process.stdout.fileno(), LINE_BYTES)
        except BlockingIOError:
            return None
        lines = (self._partial + data).split(b"\n")
        self._partial = lines.pop()
        if len(self._partial) > LINE_BYTES or not data:
            lines, self._partial = [*lines, self._partial], b""
        for line in lines:
            self._keep(line)
        return len(data)

    def _keep(self, line: bytes) -> None:
        if not line:
            return
        self.log.write(line + b"\n")
        self.last_line = line.decode(errors="replace").strip()[:LAST_LINE]
        if IMPORTANT.search(line):
            self.show(self.name, line.decode(errors="replace"))

    def ask_to_stop(self) -> None:
        """Send SIGTERM.

        Popen's own method would reap a process that has just ended, so that its end would be missed.
        """
        if self.process is not None:
            os.kill(self.process.pid, signal.SIGTERM)

    def end_group(self) -> None:
        """Kill the remaining processes of the group.

        This must be called before the group's leader is reaped, so that the id cannot belong to other processes.
        """
        if self.process is None:
            return
        try:
            os.killpg(self.process.pid, signal.SIGKILL)
        except (ProcessLookupError, PermissionError):
            return

    def ended(self, status: int) -> float:
        """Record the end of the process; return the seconds until its next start."""
        assert self.process is not None  # noqa: S101 - called for a running service
        for _ in range(MOST_LAST_READS):  # a descendant may hold the other end open
            if not self.read():
                break
        if self._partial:
            self._keep(self._partial)
        if self.process.stdout is not None:
            self.process.stdout.close()
        self.process.returncode = os.waitstatus_to_exitcode(status)
        self.process = None
        settled = time.monotonic() - self.started > SETTLED_AFTER
        self.ends = 1 if settled else self.ends + 1
        pause = min(FIRST_PAUSE * 2.0 ** min(self.ends - 1, 10), LONGEST_PAUSE)
        self.start_at = time.monotonic() + pause
        return pause
