"""Two real hosts whose guests have their root disks in a folder that both have mounted: a running guest moves."""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

import pytest
from openstack.connection import Connection

from tests.e2e.conftest import Key
from tests.e2e.test_live_migration import COUNTS, counts, migrate, settled
from tests.support.guests import Guest
from tests.support.one_machine import OneMachine, wait_for
from tests.support.town import launch
from tests.support.volumes import connected, daemons, guest

pytestmark = [
    pytest.mark.deep,
    pytest.mark.libvirt,
    pytest.mark.slow,
    pytest.mark.timeout(1800),
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]
NETWORK, ADDRESS = "folder", "10.69.0.11"
HOSTS = (1, 2)


@pytest.fixture(scope="module")
def cloud() -> Iterator[OneMachine]:
    folder = Path(tempfile.mkdtemp(prefix="nv-folder-"))
    folder.chmod(0o711)
    cloud = OneMachine(folder / "data", hosts=len(HOSTS))
    (folder / "shared").mkdir(mode=0o755)
    cloud.settings["NOVELLA_AGENT_VOLUME_POOL"] = f"shared=dir:{folder}/shared"
    cloud.settings["NOVELLA_AGENT_ROOT_DISKS"] = "shared"
    try:
        cloud.up()
        yield cloud
    finally:
        cloud.end()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def sdk(cloud: OneMachine, key: Key, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    yield from connected(cloud, key, tmp_path_factory.mktemp("clouds"), NETWORK, "10.69.0.0/24")


def roots(cloud: OneMachine, server: str) -> list[str]:
    """The root disks of a server in the folder."""
    return [path.name for path in cloud.data.parent.glob(f"shared/volumes/root-{server}-*")]


def opened(cloud: OneMachine, server: str) -> list[int]:
    """The hosts that have the server's root disk open."""
    return [number for number in HOSTS for _ in daemons(cloud, number, f"root-{server}")]


def is_moving(sdk: Connection, found: Guest) -> bool:
    return sdk.compute.get_server(found.server).task_state is not None


def aborted(cloud: OneMachine, sdk: Connection, moving: Guest, requests: int) -> str:
    """Abort a migration after a number of requests, perhaps during the hand-over or too late. Returns the host, which
    alone has the disk open.
    """
    moving.hang_up()
    body = {"os-migrateLive": {"host": None, "block_migration": "auto"}}
    begin = partial(sdk.compute.post, f"/servers/{moving.server}/action", json=body, microversion="2.80")
    wait_for("the other host has removed what it had prepared", lambda: begin().ok)
    path = f"/servers/{moving.server}/migrations"
    [row] = sdk.compute.get(path, microversion="2.80").json()["migrations"]
    for _ in range(requests):
        sdk.compute.get(path, microversion="2.80")
    abort = partial(sdk.compute.delete, f"{path}/{row['id']}", microversion="2.80")
    wait_for("the abort, or the end", lambda: abort().status_code == 202 or not is_moving(sdk, moving))
    host = settled(sdk, moving)
    wait_for("the guest counts here", lambda: len(counts(sdk, moving)) > 5)
    seen = counts(sdk, moving)[-1]
    wait_for("the guest goes on counting", lambda: counts(sdk, moving)[-1] > seen)
    number = int(host.removeprefix("host-"))
    wait_for("only this host has the disk open", lambda: opened(cloud, moving.server) == [number])
    assert len(roots(cloud, moving.server)) == 1
    return host


def test_a_running_guest_moves_with_its_root_disk_in_the_folder(cloud: OneMachine, sdk: Connection, key: Key) -> None:
    """There and back while it writes: nothing is copied, and nothing that it has written is lost. An abort at any
    moment leaves it on one host.
    """
    server = launch(sdk, "moving", sdk.network.find_network(NETWORK).id, ADDRESS, 1)
    with contextmanager(guest)(sdk, key, NETWORK, ADDRESS, 1, server) as moving:
        moving.run(COUNTS)
        for target in (2, 1):
            wait_for("the guest counts", lambda: len(counts(sdk, moving)) > 5)
            before = counts(sdk, moving)[-1]
            moving.hang_up()
            migrate(sdk, moving)
            assert settled(sdk, moving) == f"host-{target}"
            wait_for("the guest goes on counting", lambda: len(counts(sdk, moving)) > 5)
            after = counts(sdk, moving)
            assert after == list(range(after[0], after[-1] + 1))
            assert after[0] > before
            assert int(moving.run("cat /root/count")) >= after[-1]
            wait_for("only the new host has the disk open", lambda: opened(cloud, server) == [target])  # noqa: B023
            assert len(roots(cloud, server)) == 1
        hosts = [aborted(cloud, sdk, moving, requests) for requests in range(0, 112, 16)]
        assert hosts[0] == "host-1"
        after = counts(sdk, moving)
        assert after == list(range(after[0], after[-1] + 1))
        assert int(moving.run("cat /root/count")) >= after[-1]
        gone = sdk.compute.get_server(server)
        sdk.compute.delete_server(server)
        sdk.compute.wait_for_delete(gone)
    wait_for("the disk's end", lambda: roots(cloud, server) == [])
