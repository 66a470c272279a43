"""Services killed in mid-launch: the instance ends ACTIVE, or ERROR with its reason, and nothing is leaked."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path

import pytest

from tests.support.one_machine import OneMachine, wait_for

pytestmark = [pytest.mark.libvirt, pytest.mark.compat]
CREATE = ("server", "create", "--image", "novella-guest", "--flavor", "m1.nano", "--network", "demo-net")


def guests_of(cloud: OneMachine) -> list[str]:
    """The QEMU processes in this cloud's network namespace."""
    pids = subprocess.run(["ip", "netns", "pids", cloud.netns], capture_output=True, text=True, check=True).stdout
    lines = []
    for pid in pids.split():
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if line.startswith("/usr/bin/qemu-system"):
            lines.append(line)
    return lines


def taps_of(cloud: OneMachine) -> list[str]:
    links = subprocess.run(
        ["ip", "-n", cloud.netns, "-j", "link", "show"], capture_output=True, text=True, check=True
    ).stdout
    return [link["ifname"] for link in json.loads(links) if link["ifname"].startswith("tap")]


def status_of(cloud: OneMachine, name: str) -> str:
    done = cloud.client("server", "show", name, "-f", "value", "-c", "status")
    return done.stdout.strip()


def assert_nothing_is_left(cloud: OneMachine) -> None:
    assert cloud.openstack_json("server", "list", "--all-projects", cloud="admin") == []
    wait_for("the guests are gone", lambda: guests_of(cloud) == [])
    wait_for("the taps are gone", lambda: taps_of(cloud) == [])
    limits = {row["Name"]: row["Value"] for row in cloud.openstack_json("limits", "show", "--absolute")}
    used = {name: value for name, value in limits.items() if name.lower().endswith("used") and value}
    used = {name: value for name, value in used.items() if "floating" not in name.lower()}  # no launch here takes one
    groups = {name for name in used if "securitygroup" in name.lower().replace("_", "")}
    assert used == dict.fromkeys(groups, 1), "only the project's default security group stays"
    assert cloud.openstack_json("port", "list", "--device-owner", "compute:nova") == []
    wait_for("the disks are gone", lambda: not list(cloud.data.glob("hosts/*/instances/[!.]*")))


@pytest.mark.parametrize(
    ("delay", "victim"),
    [
        (0.6, "compute_agent"),
        pytest.param(0.05, "qworker", marks=pytest.mark.deep),
        pytest.param(0.05, "compute_agent", marks=pytest.mark.deep),
        pytest.param(0.05, "manage.py web", marks=pytest.mark.deep),
        pytest.param(0.6, "qworker", marks=pytest.mark.deep),
        pytest.param(0.6, "manage.py web", marks=pytest.mark.deep),
    ],
)
def test_a_service_killed_in_mid_launch(cloud: OneMachine, victim: str, delay: float) -> None:
    name = f"killed-{victim.split()[-1].replace('_', '-')}-{int(delay * 100)}"
    cloud.openstack(*CREATE, name)
    subprocess.run(["sleep", str(delay)], check=True)  # the instant within the launch is the point of the test
    os.kill(cloud.runs[-1].service(victim), signal.SIGKILL)
    status = wait_for(
        "the launch ends", lambda: next((s for s in [status_of(cloud, name)] if s in {"ACTIVE", "ERROR"}), None)
    )
    if status == "ERROR":
        assert cloud.openstack("server", "show", name, "-f", "value", "-c", "fault") != ""
    else:
        assert len(guests_of(cloud)) == 1
    cloud.openstack("server", "delete", "--wait", name)
    assert_nothing_is_left(cloud)


@pytest.mark.deep
def test_guests_go_on_while_novella_is_stopped(cloud: OneMachine) -> None:
    cloud.openstack(*CREATE, "--wait", "survivor")
    [guest] = guests_of(cloud)
    output = cloud.runs[-1].stop(signal.SIGINT)
    assert "guests" in output
    assert guests_of(cloud) == [guest]
    cloud.up()
    assert status_of(cloud, "survivor") == "ACTIVE"
    assert guests_of(cloud) == [guest]
    cloud.openstack("server", "stop", "survivor")
    wait_for("it stops", lambda: status_of(cloud, "survivor") == "SHUTOFF")
    cloud.openstack("server", "start", "survivor")
    wait_for("it starts", lambda: status_of(cloud, "survivor") == "ACTIVE")
    cloud.openstack("server", "delete", "--wait", "survivor")
    assert_nothing_is_left(cloud)
