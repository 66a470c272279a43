"""bin/up as a person runs it, on simulated hosts: ready, used by the standard client, stopped, taken over, removed."""

from __future__ import annotations

import contextlib
import os
import pwd
import re
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.one_machine import CHECKOUT, ENVIRONMENT, PATIENCE, OneMachine
from up.processes import children

pytestmark = [pytest.mark.deep, pytest.mark.compat]


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[OneMachine]:
    cloud = OneMachine(tmp_path / "data", simulate=2)
    yield cloud
    cloud.end()


def shell(command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["sh", "-c", command],
        capture_output=True,
        text=True,
        cwd=CHECKOUT,
        env=ENVIRONMENT,
        timeout=PATIENCE,
        check=False,
    )


def owners(folder: Path) -> set[int]:
    """The owners of all files below; services that run may take some away meanwhile."""
    result = set()
    for path in folder.rglob("*"):
        with contextlib.suppress(FileNotFoundError):
            result.add(path.stat().st_uid)
    return result


def test_from_an_empty_folder_through_a_killed_worker_and_back(cloud: OneMachine) -> None:
    first = cloud.up()
    assert first.said[-1] == f"Novella is ready: http://127.0.0.1:{cloud.port}/"
    steps = [line for line in first.said if re.match(r"\[\d/8\] ", line)]
    assert [line[1] for line in steps] == list("12345678")
    assert all(re.search(r"\(\d+\.\d s\)$", line) for line in steps)
    for name in ("clouds.yaml", "openrc-admin.sh", "openrc-demo.sh"):
        assert (cloud.data / name).stat().st_mode & 0o777 == 0o600

    commands = [line.strip() for line in first.said if line.startswith(("  export ", "  openstack "))]
    launched = shell("cd /\n" + "\n".join(commands))
    assert launched.returncode == 0, launched.stderr
    assert re.search(r"status\s*\|\s*ACTIVE", launched.stdout)
    signed_in = shell(f". {cloud.data}/openrc-admin.sh; .venv/bin/openstack token issue")
    assert signed_in.returncode == 0, signed_in.stderr

    again = cloud.up(ready=False)
    output, _ = again.process.communicate(timeout=PATIENCE)
    assert again.process.returncode == 1
    assert f"Novella is already running on {cloud.data}" in output

    services = children(first.process.pid)
    assert len(services) == 3
    if os.geteuid() == 0:
        portal = [
            pid
            for word in ("manage.py web", "qworker")
            for pid in (first.service(word), *children(first.service(word)))
        ]
        assert len(portal) > 4
        assert {Path(f"/proc/{pid}").stat().st_uid for pid in portal} == {pwd.getpwnam("novella").pw_uid}
        assert owners(cloud.data / "portal") == {pwd.getpwnam("novella").pw_uid}
    output = first.stop(signal.SIGINT)
    assert first.process.returncode == 0
    assert "bin/up reconnects to them" in output
    assert not any(Path(f"/proc/{pid}").exists() for pid in services)

    second = cloud.up()
    os.kill(second.service("qworker"), signal.SIGKILL)
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
