"""The cloud of a chaos run: real processes under bin/up's supervisor, with their own folder and database."""

from __future__ import annotations

import math
import os
import queue
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from tools.chaos.checks.journals import JOURNAL, switch_off
from tools.chaos.clouds.commands import finished
from tools.chaos.clouds.database import Database
from tools.chaos.packets.hosts import Hosts as PacketHosts
from up import health
from up.data_folder import DataFolder
from up.places import Places
from up.prepare import Preparation, Progress
from up.processes import descendants
from up.programs import BOOTSTRAP, CHECKOUT, JOIN_TOKENS, Hosts, environment, manage, tool
from up.service import Program, Service
from up.supervisor import Supervisor

READY_WITHIN = 120.0
STEP = 0.05
GROUPS = 2
WEB = 2
"""Number of web processes that share the port."""
AGENT = "agent"
HOSTS_OF_AGENT = 2
FAILS, HANGS = BAD = ("chaos-fails", "chaos-hangs")
"""Names of hosts on which every build fails or hangs; each has its own agent process."""
_FAULTY = {FAILS: "fake:start_guest:retryable", HANGS: "fake:create_disk:hang"}
CAPACITY, CAPACITY_WITH_PACKETS = "16:16384:120", "48:49152:360"
"""vCPUs, MiB of memory and GiB of disk of a simulated host: so few that some launches find no host. Runs with packets
have fewer hosts, so each of their hosts is larger.
"""

MOVE_SECONDS = 2
"""Seconds that a simulated host takes to move a guest."""

SETTINGS = {
    "NOVELLA_WORKERS": "2",
    "NOVELLA_LOG_LEVEL": "INFO",
    "NOVELLA_HEARTBEAT_INTERVAL": "1",
    "NOVELLA_HOST_DOWN_AFTER": "6",
    "NOVELLA_AUDIT_INTERVAL": "5",
    "NOVELLA_CAST_TIMEOUT": "6",
    "NOVELLA_BUILD_TIMEOUT": "10",
    "NOVELLA_HOST_QUEUE_TIMEOUT": "15",
    "NOVELLA_POWER_TIMEOUT": "8",
    "NOVELLA_DELETE_TIMEOUT": "8",
    "NOVELLA_SNAPSHOT_TIMEOUT": "12",
    "NOVELLA_LIVE_MIGRATION_TIMEOUT": "12",
    "NOVELLA_SQLITE_TIMEOUT": "5",
    "NOVELLA_LOCKOUT_ATTEMPTS": "0",
    "NOVELLA_RATE_LIMITS": "none",
}
"""Settings of the cloud. Deadlines are short enough to pass within the run."""


class CloudError(Exception):
    """The cloud does not start, or does not become ready again. The message gives the reason."""


class _Supervisor(Supervisor):
    """A supervisor that can also keep services stopped until they are released (``hold``, ``release``)."""

    def hold(self, order: Sequence[str]) -> None:
        """Stop the services of these kinds, and do not restart them."""
        for kind in order:
            held = [each for each in self.services if each.name.startswith(kind)]
            self._stop([each for each in held if each.running])
            for service in held:
                service.start_at = math.inf

    def kill(self, service: Service) -> None:
        """End a service immediately, and do not restart it."""
        service.end_group()
        while service.running:
            self._wait(STEP)
        service.start_at = math.inf

    def release(self) -> None:
        """Start the services that ``hold`` has stopped."""
        for service in self.services:
            if service.start_at == math.inf:
                service.start_at, service.ends = 0.0, 0


class Cloud:
    """All processes of the cloud. Only the main thread calls ``step``; other threads pass it work with ``do``."""

    def __init__(
        self,
        folder: Path,
        database: Database,
        hosts: int,
        ports: tuple[int, int],
        *,
        packets: bool = False,
        small: bool = False,
    ) -> None:
        """Define the programs without starting them. ``ports``: the port of web, and the port of the proxy in front of
        it. With ``packets`` each host has its own network; with ``small`` there is one process of each kind.
        """
        self.folder, self.database = folder, database
        self.port, self.proxy_port = ports
        self.small = small
        each = 1 if packets else HOSTS_OF_AGENT
        counts = [min(each, hosts - at) for at in range(0, hosts, each)]
        self._agents = {f"chaos-{at + 1}": count for at, count in enumerate(counts)}
        self._agents |= dict.fromkeys(BAD, 1) if not small else {}
        self._groups, self._webs = (1, 1) if small else (GROUPS, WEB)
        self.hosts = [f"{name}-{at + 1}" for name, count in self._agents.items() for at in range(count)]
        self.data = DataFolder(folder, CHECKOUT / "var")
        self.wired = PacketHosts(Places(self.data.netns), self.hosts, folder / "hosts") if packets else None
        """The hosts with their networks; None if the run does not send packets."""
        self.log: Callable[[str], None] = print
        self.seeded: dict[str, Any] = {}
        self._work: queue.SimpleQueue[Callable[[], None]] = queue.SimpleQueue()
        self._supervisor: _Supervisor | None = None
        self._programs: list[Program] = []

    @property
    def images(self) -> Path:
        """The folder of images."""
        return self.data.path / "portal/images"

    @property
    def files(self) -> list[Path]:
        """The folders that are copied with the database."""
        return [self.images, self.data.path / "portal/volume-backups"]

    def images_kept(self) -> frozenset[str]:
        """Return the names of the files of complete images."""
        return frozenset(path.name for path in self.images.glob("*") if path.is_file() and not path.suffix)

    # ----- making and running ---------------------------------------------------------------------------------------

    def claim(self) -> None:
        """Create the folder, and set this process's environment to the environment of all programs, so that Django can
        be set up.
        """
        for name in [name for name in os.environ if name.startswith(("NOVELLA_", "DJANGO_", "OS_"))]:
            del os.environ[name]
        os.environ.update(SETTINGS)
        if self.database.url:
            os.environ["NOVELLA_DATABASE_URL"] = self.database.url
        os.environ.update(environment(self.data, self.port))
        self.data.claim()

    def prepare(self) -> None:
        """Create the database, the seed data and the list of programs."""
        hosts = Hosts(self.hosts, simulated=True, switched=self.wired is not None)
        preparation = Preparation(self.data, self.port, hosts, Progress(0, 2))
        preparation.database()
        preparation.static_files()
        preparation.cloud()
        self.seeded = self.data.read_json(BOOTSTRAP)
        self.data.write_json(JOIN_TOKENS, self.seeded["join_tokens"])
        if self.wired is not None:
            self.wired.make()
        self._programs = self._make_programs()
        self._supervisor = _Supervisor(self.data, self._programs, self._hear)
        self._supervisor.prepare()

    def _make_programs(self) -> list[Program]:
        web = manage("web", "--port", str(self.port), "--processes", str(self._webs))
        programs = [Program("web", web, environment(self.data, self.port, "web"), stop_within=8)]
        for number in range(1, self._groups + 1):
            command = manage("qworker", "--periodic")
            programs.append(Program(f"worker-{number}", command, environment(self.data, self.port, "worker")))
        for name, count in self._agents.items():
            programs.append(Program(f"{AGENT}-{name}", self._agent(name, count), _agent_environment()))
        return programs

    def _agent(self, name: str, count: int) -> list[str]:
        """Return the command of an agent with ``count`` hosts."""
        capacity = CAPACITY_WITH_PACKETS if self.wired is not None else CAPACITY
        options = ["--portal", f"http://127.0.0.1:{self.proxy_port}", "--fake-capacity", capacity]
        options += ["--fake-move-seconds", str(MOVE_SECONDS)]
        options += ["--join-token-file", str(self.folder / JOIN_TOKENS), "--driver", _FAULTY.get(name, "fake")]
        if self.wired is None:
            state = str(self.folder / "hosts")
            options += ["--host", name, "--simulate", str(count), "--state-dir", state]
            return [sys.executable, "-m", "compute_agent", *options]
        host = f"{name}-1"
        options += ["--host", host, "--state-dir", str(self.folder / "hosts" / host), *self.wired.agent_options(host)]
        return tool("tools.chaos.packets.agent", *options)

    def _hear(self, line: str) -> None:
        """Log the messages of the supervisor, but not the output of programs, which have their own logs."""
        if " | " not in line:
            self.log(f"supervisor: {line}")

    def step(self) -> None:
        """Run the functions that other threads have queued, then one step of the supervisor."""
        if self._supervisor is None:
            return
        while not self._work.empty():
            self._work.get()()
        self._supervisor.step(STEP)

    @property
    def interrupted(self) -> bool:
        return self._supervisor is not None and self._supervisor.stopping

    def wait_until_ready(self) -> None:
        """Step until the web, the worker groups and all hosts are ready. Raises CloudError."""
        deadline = time.monotonic() + READY_WITHIN
        while time.monotonic() < deadline and not self.interrupted:
            self.step()
            if self._is_ready(len(self.hosts)):
                return
        raise CloudError(f"the cloud is not ready: {health.ask(self.port)} of {len(self.hosts)} hosts")

    def stop(self) -> None:
        """End all programs, including those that are stopped with SIGSTOP."""
        if self._supervisor is None:
            return
        for service in self._supervisor.services:
            _signal(service, signal.SIGCONT)
        names = [program.name for program in self._programs]
        self._supervisor.stop([*(name for name in names if name != "web"), "web"])

    def remove_hosts(self) -> None:
        """Remove the hosts' networks if the run has any. Raises PacketsError."""
        if self.wired is not None:
            self.wired.remove()

    # ----- stopping and starting again ------------------------------------------------------------------------------

    def hold(self, *kinds: str) -> None:
        """Stop the programs of these kinds, in this order; they are not restarted until ``release``."""

        def work() -> None:
            assert self._supervisor is not None  # noqa: S101 - as above
            for kind in kinds:
                for name in self.names(kind):
                    _signal(self._service(name), signal.SIGCONT)
            self._supervisor.hold(kinds)

        self.do(work)

    def release(self, usable: int) -> None:
        """Start the services that ``hold`` has stopped, and wait until the cloud is ready with that many usable hosts:
        those that the records show neither in maintenance nor forced down. Raises CloudError.
        """

        def work() -> None:
            assert self._supervisor is not None  # noqa: S101 - as above
            self._supervisor.release()

        self.do(work)
        deadline = time.monotonic() + READY_WITHIN
        while not self._is_ready(usable):
            if time.monotonic() > deadline or self.interrupted:
                raise CloudError(f"the cloud does not come back: {health.ask(self.port)}")
            time.sleep(0.2)

    def _is_ready(self, usable: int) -> bool:
        found = health.ask(self.port)
        return found is not None and found.ok and found.workers >= self._groups and found.hosts_up >= usable

    def answers(self, within: float) -> str:
        """Wait until the portal has recovered without intervention, and return a phrase with the seconds it took.
        Raises CloudError.
        """
        began = time.monotonic()
        while not ((found := health.ask(self.port)) and found.ok):
            if time.monotonic() - began > within or self.interrupted:
                raise CloudError(f"the portal does not find the database: {health.ask(self.port)}")
            time.sleep(0.2)
        return f"worked again after {time.monotonic() - began:.1f} s"

    def command(self, *words: str) -> str:
        """Run ``manage.py`` with these arguments, and return its output. Raises CommandError."""
        return finished(manage(*words), environment(self.data, self.port))

    # ----- what faults do -------------------------------------------------------------------------------------------

    def do(self, work: Callable[[], None]) -> None:
        """Let the main thread call ``work``, and wait until it has returned, for at most a minute."""
        done = threading.Event()

        def run() -> None:
            try:
                work()
            finally:
                done.set()

        self._work.put(run)
        done.wait(60)

    def names(self, kind: str) -> list[str]:
        """Return the names of the programs of a kind: ``web``, ``worker`` or ``agent``."""
        return [program.name for program in self._programs if program.name.startswith(kind)]

    def kill(self, name: str) -> None:
        """Send SIGKILL to the master process of a program; the supervisor restarts the program."""
        self.do(lambda: self._signal_master(name, signal.SIGKILL))

    def kill_everything(self) -> None:
        """Send SIGKILL to the master processes of all programs at the same time."""

        def all_of_them() -> None:
            for program in self._programs:
                self._signal_master(program.name, signal.SIGKILL)

        self.do(all_of_them)

    def agents(self) -> dict[str, list[str]]:
        """Return the programs of the hosts on which builds succeed, each with the names of its hosts."""
        well = {name: count for name, count in self._agents.items() if name not in BAD}
        return {f"{AGENT}-{name}": [f"{name}-{at + 1}" for at in range(count)] for name, count in well.items()}

    def power_off(self, program: str) -> None:
        """Power off all hosts of an agent: its process is killed and not restarted, and its guests no longer run."""

        def work() -> None:
            assert self._supervisor is not None  # noqa: S101 - as above
            self._supervisor.kill(self._service(program))

        self.do(work)
        for host in self.agents()[program]:
            switch_off(self.folder / "hosts" / host / JOURNAL)

    def power_on(self, program: str) -> None:
        """Start the agent of hosts that are powered off; their guests stay off until they are started."""

        def work() -> None:
            service = self._service(program)
            service.start_at, service.ends = 0.0, 0

        self.do(work)

    def _signal_master(self, name: str, number: signal.Signals) -> None:
        """Send a signal to a program that may have ended: only the supervisor collects its end, which
        ``Popen.send_signal`` would do as well.
        """
        service = self._service(name)
        if service.process is not None:
            os.kill(service.process.pid, number)

    def stop_program(self, name: str) -> None:
        """Send SIGSTOP to all processes of a program."""
        self.do(lambda: _signal(self._service(name), signal.SIGSTOP))

    def go_on(self, name: str) -> None:
        """Send SIGCONT to all processes of a program."""
        self.do(lambda: _signal(self._service(name), signal.SIGCONT))

    def one_process(self, name: str, pick: int, number: signal.Signals) -> int | None:
        """Send a signal to one of the processes below a program's master. Returns its process id, or None if there is
        no such process.
        """
        found: list[int] = []

        def work() -> None:
            service = self._service(name)
            below = descendants(service.process.pid) if service.process is not None else []
            if below:
                found.append(below[pick % len(below)])
                os.kill(found[0], number)

        self.do(work)
        return found[0] if found else None

    def _service(self, name: str) -> Service:
        assert self._supervisor is not None  # noqa: S101 - faults begin when the cloud runs
        return next(service for service in self._supervisor.services if service.name == name)


def _signal(service: Service, number: signal.Signals) -> None:
    if service.process is None:
        return
    try:
        os.killpg(service.process.pid, number)
    except ProcessLookupError:
        return


def _agent_environment() -> dict[str, str]:
    names = {"PATH", "HOME", "LANG", "LC_ALL", "TMPDIR", "SQLITE_TMPDIR"}
    passed = {name: value for name, value in os.environ.items() if name in names}
    return passed | {"PYTHONPATH": str(CHECKOUT), "PYTHONUNBUFFERED": "1"}
