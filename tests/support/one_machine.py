"""bin/up as a person runs it: started, read, used by the standard client, stopped, removed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from compute_agent.network.kernel import namespace
from compute_agent.virt.libvirt.paths import HostPaths
from tests.host.lab import processes_naming
from tests.support import openstack_program
from up.data_folder import DataFolder
from up.health import free_port
from up.processes import children, command_line
from up.switch import Switch

CHECKOUT = Path(__file__).resolve().parents[2]
PATIENCE = 240.0
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("NOVELLA_", "OS_", "DJANGO_"))}


def wait_for(what: str, check: Callable[[], Any], seconds: float = PATIENCE) -> Any:
    """Return what ``check`` says once that is true; AssertionError when it never is."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if result := check():
            return result
        time.sleep(0.1)
    raise AssertionError(f"{what}: not within {seconds:.0f} s")


@dataclass
class Running:
    """One run of bin/up and what it has said so far."""

    process: subprocess.Popen[str]
    said: list[str] = field(default_factory=list)

    def read_until(self, pattern: str) -> str:
        """Read lines until one matches, or bin/up has ended: how long it takes is bounded by the test's own timeout."""
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))
            if re.search(pattern, line):
                return line.rstrip("\n")
        raise AssertionError(f"no {pattern!r} in:\n" + "\n".join(self.said))

    def stop(self, number: int = signal.SIGTERM) -> str:
        if self.process.poll() is None:
            self.process.send_signal(number)
        try:
            rest, _ = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired as error:
            left = "\n".join(map(command_line, children(self.process.pid)))
            message = f"bin/up has said {error.output!r} and not ended; below it there are:\n{left}"
            raise AssertionError(message) from error
        self.said += rest.splitlines()
        return rest

    def service(self, word: str) -> int:
        """The process id of the service whose command line has this word."""
        return next(pid for pid in children(self.process.pid) if word in command_line(pid))


@dataclass
class OneMachine:
    """A data folder and a port for the runs of one test.

    ``simulate`` 0 boots real guests: on this machine, or on several ``hosts`` at a switch.
    """

    data: Path
    simulate: int = 0
    hosts: int = 0
    port: int = field(default_factory=free_port)
    settings: dict[str, str] = field(default_factory=dict)
    runs: list[Running] = field(default_factory=list)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def netns(self) -> str:
        """The namespace of this machine's guests, which outlives bin/up."""
        return DataFolder(self.data, CHECKOUT / "var").netns

    @property
    def machine(self) -> str:
        """The namespace that stands for the machine where guests are real: no bridge of a test lies beside its own."""
        return f"{self.netns}-machine"

    @property
    def switch(self) -> Switch:
        """Where the hosts of ``hosts`` are, and their faults."""
        return Switch(self.netns)

    def agent_command(self) -> str:
        return command_line(self.runs[-1].service("compute_agent"))

    def up(self, *, ready: bool = True) -> Running:
        """Start bin/up; with ``ready`` wait for its last line."""
        command = [CHECKOUT / "bin/up", "--data", self.data, "--port", str(self.port)]
        if self.simulate:
            command += ["--simulate", str(self.simulate)]
        if self.hosts:
            command += ["--hosts", str(self.hosts)]
        if not self.simulate and not self.hosts and os.geteuid() == 0:
            namespace.ensure(self.machine)
            subprocess.run(["ip", "-n", self.machine, "link", "set", "lo", "up"], check=True)
            self.settings.setdefault("NOVELLA_AGENT_MACHINE_NETNS", self.machine)
        process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            cwd=CHECKOUT,
            env=ENVIRONMENT | self.settings,
        )
        self.runs.append(Running(process))
        if ready:
            self.runs[-1].read_until(r"^Novella is ready")
        return self.runs[-1]

    def clean(self) -> subprocess.CompletedProcess[str]:
        """Remove everything."""
        return subprocess.run(
            [CHECKOUT / "bin/up", "--clean", "--data", self.data],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=ENVIRONMENT | self.settings,
            check=False,
        )

    def end(self) -> None:
        """Stop all runs and remove everything."""
        for run in self.runs:
            run.stop()
        disks = [HostPaths(each.absolute()).short for each in self.data.glob("hosts/*")]
        cleaned = self.clean()
        assert cleaned.returncode == 0, cleaned.stdout + cleaned.stderr
        assert not self.data.exists()
        assert [line for each in disks for line in processes_naming(f"{each}/")] == []
        namespace.remove(self.machine)

    def client(self, *arguments: str, cloud: str = "demo") -> subprocess.CompletedProcess[str]:
        """Run the real ``openstack`` command line."""
        settings = {"OS_CLIENT_CONFIG_FILE": str(self.data / "clouds.yaml")}
        return openstack_program.run(("--os-cloud", cloud, *arguments), ENVIRONMENT | settings)

    def openstack(self, *arguments: str, cloud: str = "demo") -> str:
        done = self.client(*arguments, cloud=cloud)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def openstack_json(self, *arguments: str, cloud: str = "demo") -> Any:
        return json.loads(self.openstack(*arguments, "-f", "json", cloud=cloud))

    def console(self, server: str) -> str:
        """Return what a real guest has written to its console, from its host's file: to ask costs nothing."""
        (path,) = self.data.glob(f"hosts/*/instances/{server}/console.log")
        return path.read_text(errors="replace")

    def password(self, user: str = "demo") -> str:
        """The seeded password, from clouds.yaml."""
        text = (self.data / "clouds.yaml").read_text()
        section = text[text.index(f"  {user}:\n") :]
        return str(json.loads(re.search(r"password: (.+)", section)[1]))  # type: ignore[index]


@contextlib.contextmanager
def running(**options: Any) -> Iterator[OneMachine]:
    """A cloud that runs, and of which nothing is left."""
    folder = Path(tempfile.mkdtemp(prefix="nv-e2e-"))
    cloud = OneMachine(folder / "data", **options)
    try:
        cloud.up()
        yield cloud
    finally:
        cloud.end()
        shutil.rmtree(folder, ignore_errors=True)
