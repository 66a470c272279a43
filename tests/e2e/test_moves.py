"""A real guest that moves between two hosts: its disk, its volume and its address, confirmed, reverted and resized."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from openstack.connection import Connection

from tests.e2e.conftest import Key
from tests.support.guests import Guest
from tests.support.one_machine import OneMachine, wait_for
from tests.support.volumes import attach, connected, guest, made

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
NETWORK, ADDRESS = "moves", "10.66.0.11"
PATIENCE = 240.0
SUMS = "sync; md5sum /root/data; dd if=/dev/vdb bs=1M count=4 2>/dev/null | md5sum"


@pytest.fixture(scope="module")
def cloud() -> Iterator[OneMachine]:
    folder = Path(tempfile.mkdtemp(prefix="nv-moves-"))
    cloud = OneMachine(folder / "data", hosts=2)
    try:
        cloud.up()
        yield cloud
    finally:
        cloud.end()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def sdk(cloud: OneMachine, key: Key, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    yield from connected(cloud, key, tmp_path_factory.mktemp("clouds"), NETWORK, "10.66.0.0/24")


@pytest.fixture(scope="module")
def first(sdk: Connection, key: Key) -> Iterator[Guest]:
    yield from guest(sdk, key, NETWORK, ADDRESS, 1)


def server(sdk: Connection, found: Guest) -> Any:
    return sdk.compute.get_server(found.server)


def becomes(sdk: Connection, found: Guest, status: str) -> str:
    """Wait for a status; returns the host."""

    def there() -> bool:
        row = server(sdk, found)
        assert row.status != "ERROR", row.fault
        return bool(row.status == status and row.task_state is None)

    wait_for(status, there, PATIENCE)
    return str(server(sdk, found).compute_host)


def act(sdk: Connection, found: Guest, **body: Any) -> None:
    found.hang_up()
    answer = sdk.compute.post(f"/servers/{found.server}/action", json=body, microversion="2.56")
    assert answer.ok, answer.text


def runs(found: Guest) -> None:
    wait_for("the guest answers", lambda: "up" in found.run("echo up", check=False), PATIENCE)


def files(cloud: OneMachine, found: Guest) -> list[str]:
    """The hosts that have files of the guest."""
    return sorted(path.parent.parent.name for path in cloud.data.glob(f"hosts/*/instances/{found.server}"))


def test_a_guest_moves_with_its_data(cloud: OneMachine, sdk: Connection, first: Guest) -> None:
    volume = made(sdk, size=1)
    attach(sdk, first, volume)
    first.run("dd if=/dev/urandom of=/root/data bs=1M count=4; dd if=/dev/urandom of=/dev/vdb bs=1M count=4; sync")
    before, [source] = first.run(SUMS), files(cloud, first)

    act(sdk, first, migrate=None)
    target = becomes(sdk, first, "VERIFY_RESIZE")
    assert len(files(cloud, first)) == 2
    runs(first)
    assert first.run(SUMS) == before
    act(sdk, first, confirmResize=None)
    assert becomes(sdk, first, "ACTIVE") == target
    wait_for("the old host has nothing", lambda: len(files(cloud, first)) == 1, PATIENCE)
    assert files(cloud, first) != [source]

    first.run("echo lost >/root/later; sync")
    act(sdk, first, migrate=None)
    becomes(sdk, first, "VERIFY_RESIZE")
    runs(first)
    assert first.run("cat /root/later") == "lost\n"
    first.run("rm /root/later; sync")
    act(sdk, first, revertResize=None)
    assert becomes(sdk, first, "ACTIVE") == target
    runs(first)
    assert first.run("cat /root/later") == "lost\n", "its disk as it was before the move"
    assert first.run(SUMS) == before
    wait_for("the other host has nothing", lambda: len(files(cloud, first)) == 1, PATIENCE)


def test_a_resize_goes_elsewhere_when_its_host_is_full(cloud: OneMachine, sdk: Connection, first: Guest) -> None:
    home = becomes(sdk, first, "ACTIVE")
    full = sdk.compute.create_aggregate(name="full", availability_zone=None)
    sdk.compute.add_host_to_aggregate(full, home)
    sdk.compute.set_aggregate_metadata(full, {"ram_allocation_ratio": "0.01"})
    before = first.run(SUMS)
    act(sdk, first, resize={"flavorRef": sdk.compute.find_flavor("m1.tiny").id})
    assert becomes(sdk, first, "VERIFY_RESIZE") != home
    runs(first)
    assert first.run(SUMS) == before
    act(sdk, first, confirmResize=None)
    becomes(sdk, first, "ACTIVE")
    wait_for("the old host has nothing", lambda: len(files(cloud, first)) == 1, PATIENCE)
