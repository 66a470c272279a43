"""Three real hosts: one is drained and gets its guests back, then it dies, and its guest is evacuated."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openstack.connection import Connection

from tests.e2e.conftest import Key
from tests.support.guests import Guest
from tests.support.one_machine import OneMachine, wait_for
from tests.support.town import launch
from tests.support.volumes import attach, connected, guest, made, shown
from up.processes import command_line
from up.switch import processes_in

pytestmark = [
    pytest.mark.deep,
    pytest.mark.libvirt,
    pytest.mark.compat,
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]
NETWORK, ADDRESS = "drains", "10.68.0.11"
HOSTS, DRAINED = (1, 2, 3), 2
HOME = f"host-{DRAINED}"
PATIENCE = 300.0
BOOT = "cat /proc/sys/kernel/random/boot_id"
"""A guest that was started again has another one."""
SUM = "dd if=/dev/vdb bs=1M count=4 2>/dev/null | md5sum"


@pytest.fixture(scope="module")
def cloud() -> Iterator[OneMachine]:
    folder = Path(tempfile.mkdtemp(prefix="nv-drains-"))
    cloud = OneMachine(folder / "data", hosts=len(HOSTS))
    try:
        cloud.up()
        yield cloud
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(cloud.runs[-1].process.pid, signal.SIGCONT)
        cloud.end()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def sdk(cloud: OneMachine, key: Key, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    yield from connected(cloud, key, tmp_path_factory.mktemp("clouds"), NETWORK, "10.68.0.0/24")


@pytest.fixture(scope="module")
def runs(sdk: Connection, key: Key) -> Iterator[Guest]:
    """A guest that runs on the host."""
    yield from guest(sdk, key, NETWORK, ADDRESS, DRAINED)


def other(sdk: Connection, name: str, address: str, status: str, **act: Any) -> str:
    """Launch a server on the host, and bring it into a status."""
    server = launch(sdk, name, sdk.network.find_network(NETWORK).id, address, DRAINED)
    becomes(sdk, server, "ACTIVE")
    action(sdk, server, **act)
    becomes(sdk, server, status)
    return server


def action(sdk: Connection, server: str, **body: Any) -> None:
    answer = sdk.compute.post(f"/servers/{server}/action", json=body, microversion="2.56")
    assert answer.ok, answer.text


def becomes(sdk: Connection, server: str, status: str) -> str:
    """Wait for a status; returns the host."""

    def there() -> bool:
        row = sdk.compute.get_server(server)
        assert row.status != "ERROR", row.fault
        return bool(row.status == status and row.task_state is None)

    wait_for(f"{server} is {status}", there, PATIENCE)
    return str(sdk.compute.get_server(server).compute_host)


def drained(sdk: Connection, path: str, body: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Begin a drain or its return, and wait for its end; returns the name of each server → its row."""
    answer = sdk.compute.post(path, json=body)
    assert answer.ok, answer.text
    ident = answer.json()["drain"]["id"]

    def shown_drain() -> dict[str, Any]:
        result: dict[str, Any] = sdk.compute.get(f"/novella-drains/{ident}").json()["drain"]
        return result

    wait_for("the drain has finished", lambda: shown_drain()["finished_at"], PATIENCE)
    return {row["name"]: row for row in shown_drain()["servers"]} | {"": {"id": ident}}


def where(cloud: OneMachine, server: str) -> list[str]:
    """The hosts that have files of a server."""
    return sorted(path.parent.parent.name for path in cloud.data.glob(f"hosts/*/instances/{server}"))


def running(cloud: OneMachine, server: str) -> list[int]:
    """The numbers of the hosts with a running guest of a server, once for each guest."""
    numbers = []
    for number in HOSTS:
        inside = processes_in([cloud.switch.guests(number), cloud.switch.machine(number)])
        lines = map(command_line, inside)
        numbers += [number for line in lines if line.startswith("/usr/bin/qemu-system") and server in line]
    return numbers


def number_of(host: str) -> int:
    return int(host.rpartition("-")[2])


def test_a_host_is_drained_and_gets_its_guests_back(cloud: OneMachine, sdk: Connection, runs: Guest) -> None:
    stopped = other(sdk, "stopped", "10.68.0.12", "SHUTOFF", **{"os-stop": None})
    kept = other(sdk, "kept", "10.68.0.13", "SUSPENDED", suspend=None)
    booted = runs.run(BOOT)
    rows = drained(sdk, "/novella-drains", {"drain": {"host": HOME, "reason": "new memory"}})

    name = sdk.compute.get_server(runs.server).name
    assert {each: (rows[each]["way"], rows[each]["state"]) for each in (name, "stopped", "kept")} == {
        name: ("live", "done"),
        "stopped": ("cold", "done"),
        "kept": (None, "stays"),
    }
    assert rows["kept"]["reason"]
    assert becomes(sdk, kept, "SUSPENDED") == HOME
    for server, status in ((runs.server, "ACTIVE"), (stopped, "SHUTOFF")):
        host = becomes(sdk, server, status)
        assert host != HOME
        wait_for("the drained host has nothing", lambda: where(cloud, server) == [host], PATIENCE)  # noqa: B023
    assert running(cloud, runs.server) == [number_of(becomes(sdk, runs.server, "ACTIVE"))]
    assert runs.run(BOOT) == booted, "it was never started again"

    cloud.openstack("compute", "service", "set", "--enable", HOME, "nova-compute", cloud="admin")
    back = drained(sdk, f"/novella-drains/{rows['']['id']}/action", {"return": None})
    assert {each: row["state"] for each, row in back.items() if each} == {name: "done", "stopped": "done"}
    assert becomes(sdk, runs.server, "ACTIVE") == becomes(sdk, stopped, "SHUTOFF") == HOME
    assert runs.run(BOOT) == booted
    wait_for("one copy each", lambda: where(cloud, runs.server) == where(cloud, stopped) == [HOME], PATIENCE)
    for server in (stopped, kept):
        sdk.compute.delete_server(server)
        sdk.compute.wait_for_delete(sdk.compute.get_server(server), wait=PATIENCE)


def test_a_dead_host_is_evacuated_and_removes_its_guests_when_it_is_back(
    cloud: OneMachine, sdk: Connection, runs: Guest
) -> None:
    cloud.openstack("volume", "service", "set", "--disable", f"{HOME}@nbd", "cinder-volume", cloud="admin")
    volume = made(sdk, size=1)
    assert not str(shown(sdk, "volumes", volume)["os-vol-host-attr:host"]).startswith(HOME)
    attach(sdk, runs, volume)
    runs.run("echo old >/root/disk; dd if=/dev/urandom of=/dev/vdb bs=1M count=4; sync")
    before, booted = runs.run(SUM), runs.run(BOOT)
    runs.hang_up()
    supervisor = cloud.runs[-1].process.pid
    os.kill(supervisor, signal.SIGSTOP)  # otherwise it starts the agent again
    try:
        cloud.switch.power_off(DRAINED)
        cloud.openstack("compute", "service", "set", "--down", HOME, "nova-compute", cloud="admin")
        cloud.openstack("--os-compute-api-version", "2.94", "server", "evacuate", runs.server, cloud="admin")
        host = becomes(sdk, runs.server, "ACTIVE")
        assert host != HOME
        wait_for("the guest answers", lambda: "up" in runs.run("echo up", check=False), PATIENCE)
        assert runs.run(SUM) == before, "its volume has what it has written"
        assert runs.run(BOOT) != booted
        assert not runs.has("/root/disk"), "its disk was created again"
        assert running(cloud, runs.server) == [number_of(host)]
    finally:
        os.kill(supervisor, signal.SIGCONT)
    cloud.openstack("compute", "service", "set", "--up", HOME, "nova-compute", cloud="admin")
    wait_for("the old host has nothing", lambda: where(cloud, runs.server) == [host], PATIENCE)
    assert running(cloud, runs.server) == [number_of(host)]
    wait_for("the evacuation is complete", lambda: evacuations(sdk) == ["completed"], PATIENCE)
    runs.hang_up()
    assert runs.run(SUM) == before


def evacuations(sdk: Connection) -> list[str]:
    """The statuses of all evacuations."""
    path = "/os-migrations?migration_type=evacuation"
    return [row["status"] for row in sdk.compute.get(path, microversion="2.80").json()["migrations"]]
