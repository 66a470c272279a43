"""Two real hosts whose guests have their root disks in a pool of Ceph, from the API to what a guest reads."""

from __future__ import annotations

import json
import os
import shutil
import signal
from contextlib import contextmanager
from pathlib import Path

import pytest
from openstack.connection import Connection

from tests.e2e import test_volumes_on_ceph as volumes
from tests.e2e.conftest import Key
from tests.e2e.test_live_migration import COUNTS, counts, migrate, settled
from tests.e2e.test_volumes_on_ceph import rbd
from tests.support.ceph import CephForTests
from tests.support.guests import Guest
from tests.support.one_machine import OneMachine, wait_for
from tests.support.town import launch
from tests.support.volumes import daemons, guest, made, the_daemon

pytestmark = volumes.pytestmark
cloud, ceph, sdk = volumes.cloud, volumes.ceph, volumes.sdk


@pytest.fixture(scope="module")
def root_disks() -> str:
    return "ceph"


def marked(guest: Guest, device: str = "vda") -> None:
    """Look whether the guest's root disk has what a test has written far behind its file systems."""
    guest.hang_up()  # it may have been off
    read = f"dd if=/dev/{device} bs=1M skip=1000 count=2 2>/dev/null | sort -u | head -3"
    wait_for("what is on the root disk", lambda: guest.run(read, check=False).split() == ["written"])


def roots(cloud: OneMachine, ceph: CephForTests, server: str) -> list[str]:
    """The root disks of a server that are in the pool."""
    result = rbd(cloud, ceph, "ls", ceph.pool).decode().split()
    return [name for name in result if name.startswith(f"volume-root-{server}")]


def turns(sdk: Connection, server: str, status: str) -> None:
    wait_for(f"the server is {status}", lambda: sdk.compute.get_server(server).status == status)


def _resized_and_rescued(cloud: OneMachine, sdk: Connection, guest: Guest) -> None:
    cloud.openstack("flavor", "create", "--ram", "128", "--disk", "2", "--vcpus", "1", "m1.larger", cloud="admin")
    for confirm in (False, True):
        sdk.compute.resize_server(guest.server, sdk.compute.find_flavor("m1.larger").id)
        turns(sdk, guest.server, "VERIFY_RESIZE")
        marked(guest)
        assert int(guest.run("cat /sys/block/vda/size")) > 1 << 21
        (sdk.compute.confirm_server_resize if confirm else sdk.compute.revert_server_resize)(guest.server)
        turns(sdk, guest.server, "ACTIVE")
        marked(guest)
        assert (int(guest.run("cat /sys/block/vda/size")) > 1 << 21) is confirm
    sdk.compute.rescue_server(guest.server)
    turns(sdk, guest.server, "RESCUE")
    marked(guest, "vdb")
    sdk.compute.unrescue_server(guest.server)
    turns(sdk, guest.server, "ACTIVE")
    marked(guest)


@pytest.mark.timeout(1200)
def test_a_root_disk_lies_in_the_pool_through_all_that_happens_to_its_guest(
    cloud: OneMachine, sdk: Connection, ceph: CephForTests, key: Key
) -> None:
    def images() -> list[str]:
        return roots(cloud, ceph, server)

    server = launch(sdk, "rooted", sdk.network.find_network("ceph").id, "10.60.0.13", 1)
    with contextmanager(guest)(sdk, key, "ceph", "10.60.0.13", 1, server) as rooted:
        (image,) = images()
        assert b"@base" in rbd(cloud, ceph, "info", f"{ceph.pool}/{image}")
        disk = image.removeprefix("volume-")
        daemon = the_daemon(cloud, 1, disk)
        rooted.run("yes written | dd of=/dev/vda bs=1M seek=1000 count=2 iflag=fullblock conv=fsync")
        os.kill(cloud.runs[-1].service("--host host-1"), signal.SIGKILL)
        os.kill(daemon, signal.SIGKILL)
        the_daemon(cloud, 1, disk, besides=daemon)
        marked(rooted)
        sdk.compute.stop_server(server)
        turns(sdk, server, "SHUTOFF")
        for pid in daemons(cloud, 1, disk):  # as after a restart of the machine
            os.kill(pid, signal.SIGKILL)
        shutil.rmtree(next(Path("/run").glob(f"novella-*-volumes/{disk}")))
        sdk.compute.start_server(server)
        turns(sdk, server, "ACTIVE")
        marked(rooted)
        copy = sdk.compute.create_server_image(server, "of-rooted", wait=True, timeout=300)
        _resized_and_rescued(cloud, sdk, rooted)
        assert rbd(cloud, ceph, "snap", "ls", f"{ceph.pool}/{image}") == b""
        other = sdk.compute.create_server(
            name="copied", image_id=copy.id, flavor_id=sdk.compute.find_flavor("m1.nano").id, key_name="packets",
            networks=[{"uuid": sdk.network.find_network("ceph").id, "fixed_ip": "10.60.0.14"}],
            availability_zone="nova:host-2",
        ).id  # fmt: skip
        with contextmanager(guest)(sdk, key, "ceph", "10.60.0.14", 2, other) as copied:
            marked(copied)
        for each in (server, other):
            gone = sdk.compute.get_server(each)
            sdk.compute.delete_server(each)
            sdk.compute.wait_for_delete(gone)
    wait_for("the disk's end", lambda: images() == [])


@pytest.mark.timeout(1200)
def test_a_running_guest_moves_with_its_root_disk_in_the_pool(
    cloud: OneMachine, sdk: Connection, ceph: CephForTests, key: Key
) -> None:
    """There and back while it writes: nothing is copied, and nothing that it has written is lost. An abort leaves it
    where it is.
    """

    def clients(server: str) -> list[int]:
        found = roots(cloud, ceph, server)
        shown = (rbd(cloud, ceph, "status", f"{ceph.pool}/{name}", "--format", "json") for name in found)
        return [len(json.loads(each)["watchers"]) for each in shown]

    server = launch(sdk, "moving", sdk.network.find_network("ceph").id, "10.60.0.17", 1)
    with contextmanager(guest)(sdk, key, "ceph", "10.60.0.17", 1, server) as moving:
        moving.run("yes written | dd of=/dev/vda bs=1M seek=1000 count=2 iflag=fullblock conv=fsync")
        moving.run(COUNTS)
        for target in ("host-2", "host-1"):
            wait_for("the guest counts", lambda: len(counts(sdk, moving)) > 5)
            before = counts(sdk, moving)[-1]
            moving.hang_up()
            migrate(sdk, moving)
            assert settled(sdk, moving) == target
            wait_for("the guest goes on counting", lambda: len(counts(sdk, moving)) > 5)
            after = counts(sdk, moving)
            assert after == list(range(after[0], after[-1] + 1))
            assert after[0] > before
            assert int(moving.run("cat /root/count")) >= after[-1]
            marked(moving)
            wait_for("only the new host has the disk open", lambda: clients(server) == [1])
        rows = sdk.compute.get("/os-migrations", microversion="2.80").json()["migrations"]
        assert {row["status"] for row in rows if row["instance_uuid"] == server} == {"completed"}
        migrate(sdk, moving)
        path = f"/servers/{server}/migrations"
        [row] = sdk.compute.get(path, microversion="2.80").json()["migrations"]
        wait_for("the abort", lambda: sdk.compute.delete(f"{path}/{row['id']}", microversion="2.80").status_code != 409)
        assert settled(sdk, moving) == "host-1"
        seen = counts(sdk, moving)[-1]
        wait_for("the guest goes on counting", lambda: counts(sdk, moving)[-1] > seen)
        wait_for("only the old host has the disk open", lambda: clients(server) == [1])
        marked(moving)
        gone = sdk.compute.get_server(server)
        sdk.compute.delete_server(server)
        sdk.compute.wait_for_delete(gone)
    wait_for("the disk's end", lambda: roots(cloud, ceph, server) == [])


def test_the_root_disk_of_a_host_that_is_cut_off_goes_on_as_a_volume(
    cloud: OneMachine, sdk: Connection, ceph: CephForTests, key: Key
) -> None:
    network = sdk.network.find_network("ceph").id
    server = launch(sdk, "lost", network, "10.60.0.15", 1)
    with contextmanager(guest)(sdk, key, "ceph", "10.60.0.15", 1, server) as lost:
        lost.run("yes written | dd of=/dev/vda bs=1M seek=1000 count=2 iflag=fullblock conv=fsync")
    volume = made(sdk, size=1)
    bootable = {"os-set_bootable": {"bootable": True}}
    assert sdk.block_storage.post(f"/volumes/{volume}/action", json=bootable).ok
    kept, (root,) = f"{ceph.pool}/volume-{volume}", roots(cloud, ceph, server)
    rbd(cloud, ceph, "rm", "--no-progress", kept)
    rbd(cloud, ceph, "rename", f"{ceph.pool}/{root}", kept)
    sdk.compute.create_server(
        name="found", flavor_id=sdk.compute.find_flavor("m1.nano").id, key_name="packets",
        networks=[{"uuid": network, "fixed_ip": "10.60.0.16"}], availability_zone="nova:host-2",
        block_device_mapping=[{"boot_index": 0, "uuid": volume, "source_type": "volume", "destination_type": "volume"}],
    )  # fmt: skip
    with contextmanager(guest)(sdk, key, "ceph", "10.60.0.16", 2, sdk.compute.find_server("found").id) as result:
        marked(result)
        assert len(json.loads(rbd(cloud, ceph, "status", kept, "--format", "json"))["watchers"]) == 1
        for pid in daemons(cloud, 1, root.removeprefix("volume-")):  # the first host would serve its guest again
            os.kill(pid, signal.SIGKILL)
        gone = sdk.compute.get_server(server)
        sdk.compute.delete_server(gone)
        sdk.compute.wait_for_delete(gone)
        marked(result)
        result.run("dd if=/dev/zero of=/dev/vda bs=1M seek=1000 count=1 conv=fsync")
