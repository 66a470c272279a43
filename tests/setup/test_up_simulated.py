"""bin/up as a person runs it, on simulated hosts: ready, used by the standard client, stopped, taken over, removed."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

PATIENCE = 180.0
ENVIRONMENT = {name: value for name, value in os.environ.items() if not name.startswith(("NOVELLA_", "OS_", "DJANGO_"))}


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def children(pid: int) -> list[int]:
    listed = Path(f"/proc/{pid}/task/{pid}/children")
    return [int(child) for child in listed.read_text().split()] if listed.exists() else []


@dataclass
class Running:
    """One run of bin/up and what it has said so far."""

    process: subprocess.Popen[str]
    said: list[str] = field(default_factory=list)

    def read_until(self, pattern: str) -> str:
        """Read lines until one matches."""
        assert self.process.stdout is not None
        deadline = time.monotonic() + PATIENCE
        for line in self.process.stdout:
            self.said.append(line.rstrip("\n"))
            if re.search(pattern, line):
                return line.rstrip("\n")
            if time.monotonic() > deadline:
                break
        raise AssertionError(f"no {pattern!r} in:\n" + "\n".join(self.said))

    def stop(self, number: int = signal.SIGTERM) -> str:
        if self.process.poll() is None:
            self.process.send_signal(number)
        rest, _ = self.process.communicate(timeout=PATIENCE)
        self.said += rest.splitlines()
        return rest


@dataclass
class Cloud:
    """A data folder and a port for the runs of one test."""

    checkout: Path
    data: Path
    port: int
    runs: list[Running] = field(default_factory=list)

    def up(self) -> Running:
        command = [self.checkout / "bin/up", "--simulate", "2", "--data", self.data, "--port", str(self.port)]
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=self.checkout, env=ENVIRONMENT
        )
        self.runs.append(Running(process))
        return self.runs[-1]

    def clean(self) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [self.checkout / "bin/up", "--clean", "--data", self.data],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=ENVIRONMENT,
            check=False,
        )

    def openstack(self, *arguments: str) -> str:
        done = subprocess.run(
            [self.checkout / ".venv/bin/openstack", "--os-cloud", "demo", *arguments],
            capture_output=True,
            text=True,
            timeout=PATIENCE,
            env=ENVIRONMENT | {"OS_CLIENT_CONFIG_FILE": str(self.data / "clouds.yaml")},
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout


@pytest.fixture
def cloud(checkout: Path, tmp_path: Path) -> Iterator[Cloud]:
    cloud = Cloud(checkout, tmp_path / "data", free_port())
    yield cloud
    for run in cloud.runs:
        run.stop()
    cloud.clean()


@pytest.mark.compat
def test_from_an_empty_folder_through_a_killed_worker_and_back(cloud: Cloud) -> None:
    first = cloud.up()
    ready = first.read_until(r"^Novella is ready")
    assert ready == f"Novella is ready: http://127.0.0.1:{cloud.port}/"
    steps = [line for line in first.said if re.match(r"\[\d/8\] ", line)]
    assert [line[1] for line in steps] == list("12345678")
    assert all(re.search(r"\(\d+\.\d s\)$", line) for line in steps)
    for name in ("clouds.yaml", "openrc-admin.sh", "openrc-demo.sh"):
        assert (cloud.data / name).stat().st_mode & 0o777 == 0o600

    printed = next(line.strip() for line in first.said if "server create" in line)
    launched = subprocess.run(
        ["sh", "-c", printed], capture_output=True, text=True, cwd=cloud.checkout, env=ENVIRONMENT, timeout=PATIENCE
    )
    assert launched.returncode == 0, launched.stderr
    assert re.search(r"status\s*\|\s*ACTIVE", launched.stdout)
    sourced = f". {cloud.data}/openrc-admin.sh; .venv/bin/openstack token issue"
    assert subprocess.run(["sh", "-c", sourced], cwd=cloud.checkout, env=ENVIRONMENT, timeout=PATIENCE).returncode == 0

    again = cloud.up()
    said, _ = again.process.communicate(timeout=PATIENCE)
    assert again.process.returncode == 1
    assert f"Novella is already running on {cloud.data}" in said

    services = children(first.process.pid)
    assert len(services) == 3
    said = first.stop(signal.SIGINT)
    assert first.process.returncode == 0
    assert "bin/up takes them over again" in said
    assert not any(Path(f"/proc/{pid}").exists() for pid in services)

    second = cloud.up()
    second.read_until(r"^Novella is ready")
    worker = next(
        pid for pid in children(second.process.pid) if b"qworker" in Path(f"/proc/{pid}/cmdline").read_bytes()
    )
    os.kill(worker, signal.SIGKILL)
    second.read_until(r"worker ended \(signal SIGKILL\)")
    smallest = ("--image", "novella-guest", "--flavor", "m1.nano", "--network", "demo-net")
    cloud.openstack("server", "create", *smallest, "--wait", "after-the-kill")
    listed = cloud.openstack("server", "list", "-f", "value", "-c", "Name", "-c", "Status", "--sort-column", "Name")
    assert listed.splitlines() == ["after-the-kill ACTIVE", "first-guest ACTIVE"]

    cleaned = cloud.clean()
    assert cleaned.returncode == 0, cleaned.stderr
    assert not cloud.data.exists()
    second.stop()
    assert second.process.returncode == 0
