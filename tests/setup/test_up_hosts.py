"""bin/up with several hosts whose guests are simulated: each has an agent, namespaces and a folder all the same."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from compute_agent.network.kernel import namespace
from tests.support.one_machine import OneMachine
from up.processes import children, command_line

AUTOMATIC = ("--os-compute-api-version", "2.30")
pytestmark = [pytest.mark.deep, pytest.mark.libvirt, pytest.mark.compat, pytest.mark.slow]


@pytest.fixture(params=[2, 3])
def cloud(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[OneMachine]:
    if os.geteuid() != 0:
        pytest.skip("needs root: network namespaces")
    cloud = OneMachine(tmp_path / "data", hosts=request.param, settings={"NOVELLA_AGENT_DRIVER": "fake"})
    yield cloud
    cloud.end()
    assert namespace.listed(cloud.netns) == []


def test_simulated_guests_run_on_several_hosts(cloud: OneMachine) -> None:
    cloud.up()
    numbers = range(1, cloud.hosts + 1)
    agents = [line for pid in children(cloud.runs[-1].process.pid) if "compute_agent" in (line := command_line(pid))]
    assert len(agents) == cloud.hosts
    rows = cloud.openstack_json("hypervisor", "list", "--long", cloud="admin")
    result = {row["Hypervisor Hostname"]: (row["State"], row["Host IP"]) for row in rows}
    assert result == {f"host-{number}": ("up", f"192.0.2.{number}") for number in numbers}
    create = ("server", "create", "--image", "novella-guest", "--flavor", "m1.nano", "--network", "demo-net", "--wait")
    for number in numbers:
        cloud.openstack(*create, f"server-{number}")
    rows = cloud.openstack_json("server", "list", "--all-projects", "--long", cloud="admin")
    assert sorted((row["Host"], row["Status"]) for row in rows) == [(f"host-{n}", "ACTIVE") for n in numbers]
    moved, home = rows[0]["ID"], rows[0]["Host"]
    cloud.openstack(*AUTOMATIC, "server", "migrate", "--live-migration", "--wait", moved, cloud="admin")
    assert cloud.openstack_json("server", "show", moved, cloud="admin")["OS-EXT-SRV-ATTR:host"] != home
    assert sorted(path.name for path in (cloud.data / "hosts").iterdir()) == [f"host-{number}" for number in numbers]
    for number in numbers:
        assert (cloud.data / f"log/agent-host-{number}.log").stat().st_size
    assert cloud.switch.machine(cloud.hosts) in namespace.listed(cloud.netns)
