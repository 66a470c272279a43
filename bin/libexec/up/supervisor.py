"""Runs the services of one machine: starts them, keeps them running, writes their logs, and stops them in order.

Plain Python with one thread: small in memory, and safe to fork. It guarantees:

* A service that ends is started again, after a pause that grows while it keeps ending, and only after its process group
  has ended, so that a service never runs twice.
* When the supervisor itself ends, killed or not, the kernel asks every service to stop.
* Orphans, including guests, become children of the supervisor (subreaper). It collects their exit statuses and never
  ends them.
* SIGINT, SIGTERM and SIGHUP stop the services one after the other, each within its time; a second signal kills them.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import resource
import selectors
import signal
import socket
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from types import FrameType

from up.data_folder import DataFolder
from up.service import Log, Program, Service

TICK = 0.5
"""Maximum seconds between two checks of timers."""
OPEN_FILES = 65_536
_PR_SET_CHILD_SUBREAPER = 36
_libc = ctypes.CDLL(None)


class Supervisor:
    """The services of one data folder, in the order in which they start."""

    def __init__(self, data: DataFolder, programs: Sequence[Program], say: Callable[[str], None]) -> None:
        self._data = data
        self._say = say
        self._selector = selectors.DefaultSelector()
        self._signals = 0
        self.show_warnings = False
        """False until the cloud is ready, because services log warnings while they wait for each other."""
        self.services = [Service(program, self._log(program.name), self._show) for program in programs]

    def _log(self, name: str) -> Log:
        return Log(Path(self._data.path, "log", f"{name}.log"))

    def _show(self, name: str, line: str) -> None:
        if self.show_warnings or "WARNING" not in line:
            self._say(f"{name:>6} | {line}")

    # --- running -----------------------------------------------------------------------------------------------

    def prepare(self) -> None:
        """Receive signals and orphans from now on; end services that a killed supervisor of this folder has left
        running.
        """
        _libc.prctl(_PR_SET_CHILD_SUBREAPER, 1)
        _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        most = OPEN_FILES if hard == resource.RLIM_INFINITY else min(hard, OPEN_FILES)
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, hard))
        reader, writer = socket.socketpair()
        reader.settimeout(0)
        writer.settimeout(0)
        self._wake_sockets = reader, writer
        self._selector.register(reader, selectors.EVENT_READ, None)
        signal.set_wakeup_fd(writer.fileno(), warn_on_full_buffer=False)
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(number) is not signal.SIG_IGN:  # nohup
                signal.signal(number, self._on_signal)
        signal.signal(signal.SIGCHLD, lambda *_: None)  # wakes the selector
        end_left_behind(self._data)

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        self._signals += 1

    @property
    def stopping(self) -> bool:
        return self._signals > 0

    def start(self, service: Service) -> None:
        descriptor = service.start()
        self._selector.register(descriptor, selectors.EVENT_READ, service)
        self._record()

    def step(self, timeout: float = TICK) -> None:
        """Wait a moment for output, signals and ends; start services that are due."""
        self._wait(timeout)
        if not self.stopping:
            now = time.monotonic()
            for service in self.services:
                if not service.running and now >= service.start_at:
                    self.start(service)

    def _wait(self, timeout: float) -> None:
        for key, _ in self._selector.select(timeout):
            if key.data is None:
                with contextlib.suppress(BlockingIOError):
                    self._wake_sockets[0].recv(4096)
            elif key.data.read() == 0:
                self._selector.unregister(key.fd)
        self._reap()

    def _reap(self) -> None:
        """Collect ended children. The process group of a service is killed before, while its id cannot be reused."""
        while True:
            try:
                ended = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
            except ChildProcessError:
                return
            if ended is None:
                return
            service = self._service_of(ended.si_pid)
            if service is not None:
                service.end_group()
                self._forget_output(service)
            try:
                _, status = os.waitpid(ended.si_pid, 0)
            except ChildProcessError:  # a thread of this process has already waited for its own child
                continue
            if service is not None:
                pause = service.ended(status)
                self._record()
                if not self.stopping:
                    self._say(f"{service.name} ended ({how(status)}); starting it again in {pause:g} s.")

    def _service_of(self, pid: int) -> Service | None:
        for service in self.services:
            if service.process is not None and service.process.pid == pid:
                return service
        return None

    def _forget_output(self, service: Service) -> None:
        if service.process is not None and service.process.stdout is not None:
            with contextlib.suppress(KeyError):
                self._selector.unregister(service.process.stdout.fileno())

    def restart(self, name: str, reason: str) -> None:
        """End a service that hangs; the next steps start it again."""
        for service in self.services:
            if service.name == name and service.running:
                self._say(f"{name}: {reason}; starting it again.")
                service.end_group()

    # --- stopping ----------------------------------------------------------------------------------------------

    def stop(self, order: Sequence[str]) -> None:
        """Stop the services by name, one after the other, each within its own time.

        Services of one kind (``agent-host-1`` and ``agent-host-2`` for ``agent``) are stopped at the same time.
        """
        self._signals = max(self._signals, 1)
        for name in order:
            self._stop([each for each in self.services if each.running and f"{each.name}-".startswith(f"{name}-")])

    def _stop(self, services: list[Service]) -> None:
        asked, began = self._signals, time.monotonic()
        for service in services:
            service.ask_to_stop()
        for service in services:
            deadline = began + service.program.stop_within
            while service.running and time.monotonic() < deadline and self._signals == asked:
                self._wait(0.1)
            if service.running:
                self._say(f"{service.name} did not stop in time and is ended.")
                service.end_group()
        while any(service.running for service in services):
            self._wait(0.1)

    def _record(self) -> None:
        """Record the running processes, for the next supervisor if this one is killed."""
        running = [service.process.pid for service in self.services if service.process is not None]
        self._data.write_json("run/services.json", [[pid, started_at(pid)] for pid in running])


def how(status: int) -> str:
    """Return an exit status of waitpid in words."""
    code = os.waitstatus_to_exitcode(status)
    return f"exit status {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"


def started_at(pid: int) -> str | None:
    """Return the start time of a process in clock ticks since boot; None when it has ended, reaped or not. Together
    with its id it identifies the process uniquely.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return None if fields[0] == "Z" else fields[19]
    except (OSError, IndexError):
        return None


def _still_running(recorded: Sequence[tuple[int, str]], patience: float) -> list[int]:
    """Wait until none of these processes runs, at most ``patience`` seconds; return the processes that still run."""
    deadline = time.monotonic() + patience
    while left := [pid for pid, started in recorded if started_at(pid) == started]:
        if time.monotonic() >= deadline:
            break
        time.sleep(0.05)
    return left


def end_left_behind(data: DataFolder, patience: float = 5.0) -> None:
    """Wait for services that have outlived their supervisor, then kill them. Only processes in the folder's own record
    are killed.
    """
    recorded = [(pid, started) for pid, started in data.read_json("run/services.json") or [] if started is not None]
    for pid in _still_running(recorded, patience):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(pid, signal.SIGKILL)
    _still_running(recorded, patience)  # a killed process runs until the kernel has ended it
    data.write_json("run/services.json", [])
