"""The commands of the operator guide for hosts that are rebooted, replaced or have died, run on simulated hosts."""

from __future__ import annotations

import os
import re
import subprocess
import tempfile
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.one_machine import CHECKOUT, ENVIRONMENT, PATIENCE, OneMachine
from up.data_folder import DataFolder
from up.programs import environment

pytestmark = [pytest.mark.deep, pytest.mark.compat, pytest.mark.slow]
GUIDE = (CHECKOUT / "docs/operator-guide.md").read_text()

HOST = "sim-3"
SERVERS = {"web", "db"}


def blocks(heading: str) -> list[str]:
    """The blocks of commands of a section, for the host of this test."""
    section = GUIDE.partition(f"### {heading}\n")[2].partition("\n### ")[0].partition("\n## ")[0]
    result = re.findall(r"^ *```sh\n(.*?)^ *```", section, re.MULTILINE | re.DOTALL)
    return [textwrap.dedent(block).replace("node-3", HOST) for block in result]


@pytest.fixture(scope="module")
def cloud() -> Iterator[OneMachine]:
    with tempfile.TemporaryDirectory(prefix="nv-pages-") as folder:
        Path(folder).chmod(0o711)
        cloud = OneMachine(Path(folder) / "data", simulate=3)
        try:
            cloud.up()
            cloud.openstack("role", "add", "--project", "demo", "--user", "admin", "admin", cloud="admin")
            create = ("server", "create", "--image", "novella-guest", "--flavor", "m1.nano", "--network", "demo-net")
            for name in SERVERS:
                cloud.openstack(
                    "--os-project-name", "demo", *create, "--availability-zone", f"nova:{HOST}", "--wait", name,
                    cloud="admin",
                )  # fmt: skip
            yield cloud
        finally:
            cloud.end()


def run(cloud: OneMachine, block: str) -> str:
    """Run the commands of a block as an operator on the portal's machine."""
    own = environment(DataFolder(cloud.data, CHECKOUT / "var"), cloud.port)
    settings = {"OS_CLIENT_CONFIG_FILE": str(cloud.data / "clouds.yaml"), "OS_CLOUD": "admin"}
    program = f'manage.py() {{ "{CHECKOUT}/.venv/bin/python" "{CHECKOUT}/manage.py" "$@"; }}\n'
    done = subprocess.run(
        ["bash", "-ec", program + block],
        cwd=CHECKOUT,
        env=ENVIRONMENT | own | cloud.settings | settings | {"PATH": f"{CHECKOUT}/.venv/bin:{os.environ['PATH']}"},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    assert done.returncode == 0, f"{block}\n{done.stdout[-3000:]}\n{done.stderr[-3000:]}"
    return done.stdout


def servers(cloud: OneMachine) -> dict[str, tuple[str, str]]:
    """The name of each server → host and status."""
    rows = cloud.openstack_json("server", "list", "--all-projects", "--long", cloud="admin")
    return {row["Name"]: (row["Host"], row["Status"]) for row in rows}


def test_a_host_is_rebooted(cloud: OneMachine) -> None:
    before, after = blocks("Rebooting a host")
    assert servers(cloud) == dict.fromkeys(SERVERS, (HOST, "ACTIVE"))
    assert "0 failed, 0 stay" in run(cloud, before)
    assert {host for host, _ in servers(cloud).values()}.isdisjoint({HOST})
    run(cloud, after)
    assert servers(cloud) == dict.fromkeys(SERVERS, (HOST, "ACTIVE"))


def test_a_host_dies_and_comes_back(cloud: OneMachine) -> None:
    dead, back = blocks("When a host dies")
    assert servers(cloud) == dict.fromkeys(SERVERS, (HOST, "ACTIVE"))
    run(cloud, dead)
    result = servers(cloud)
    assert {status for _, status in result.values()} == {"ACTIVE"}
    assert {host for host, _ in result.values()}.isdisjoint({HOST})
    output = run(cloud, back)
    assert "evacuation" in output
    assert servers(cloud) == dict.fromkeys(SERVERS, (HOST, "ACTIVE"))


def test_a_host_is_replaced(cloud: OneMachine) -> None:
    empty, remove = blocks("Replacing a host")
    assert servers(cloud) == dict.fromkeys(SERVERS, (HOST, "ACTIVE"))
    run(cloud, empty)
    assert HOST not in run(cloud, remove)
    assert {status for _, status in servers(cloud).values()} == {"ACTIVE"}
