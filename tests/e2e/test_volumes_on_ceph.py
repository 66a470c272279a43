"""Two real hosts with one pool of Ceph, from the API to what a guest reads: attached, grown, killed, moved, saved."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from openstack.connection import Connection

from tests.e2e.conftest import Key
from tests.host.lab import Space
from tests.support.ceph import CephForTests, ceph_in
from tests.support.guests import Guest
from tests.support.one_machine import OneMachine, wait_for
from tests.support.volumes import (
    attach,
    becomes,
    begin_to_write,
    compared,
    connected,
    daemons,
    detach,
    end_writing,
    guest,
    image_of,
    made,
    the_daemon,
    writes_on,
    written,
)
from up.places import UNDERLAY
from up.switch import processes_in

pytestmark = [
    pytest.mark.deep,
    pytest.mark.libvirt,
    pytest.mark.ceph,
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]
STORAGE = "192.0.2.200"
"""The cluster's address on the network between the hosts."""
HOSTS = (1, 2)


@pytest.fixture(scope="module")
def root_disks() -> str:
    """The pool where guests have their root disks; empty: they are files of their hosts."""
    return ""


@pytest.fixture(scope="module")
def cloud(root_disks: str) -> Iterator[OneMachine]:
    folder = Path(tempfile.mkdtemp(prefix="nv-ceph-cloud-"))
    cloud = OneMachine(folder / "data", hosts=len(HOSTS))
    cloud.switch.make(len(HOSTS))
    switch = Space(cloud.switch.middle)
    switch.run("ip", "addr", "add", f"{STORAGE}/24", "dev", UNDERLAY)
    try:
        with ceph_in(switch.path, STORAGE) as ceph:
            pool = f"ceph=rbd:{ceph.pool}?conf={ceph.conf}&id={ceph.client}"
            cloud.settings["NOVELLA_AGENT_VOLUME_POOL"] = pool
            cloud.settings["NOVELLA_AGENT_ROOT_DISKS"] = root_disks
            cloud.ceph = ceph  # type: ignore[attr-defined]
            try:
                cloud.up()
                yield cloud
            finally:
                for run in cloud.runs:
                    run.stop()
                for number in HOSTS:
                    for pid in processes_in([cloud.switch.guests(number)]):
                        os.kill(pid, signal.SIGKILL)
    finally:
        cloud.end()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def ceph(cloud: OneMachine) -> CephForTests:
    ceph_for_tests = cloud.ceph  # type: ignore[attr-defined]
    assert isinstance(ceph_for_tests, CephForTests)
    return ceph_for_tests


@pytest.fixture(scope="module")
def sdk(cloud: OneMachine, key: Key, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    yield from connected(cloud, key, tmp_path_factory.mktemp("clouds"), "ceph", "10.60.0.0/24")


@pytest.fixture(scope="module")
def first(sdk: Connection, key: Key) -> Iterator[Guest]:
    """A guest on the first host."""
    yield from guest(sdk, key, "ceph", "10.60.0.11", 1)


@pytest.fixture(scope="module")
def second(sdk: Connection, key: Key) -> Iterator[Guest]:
    """A guest on the other host, booted from a volume."""
    root = made(sdk, size=1, imageRef=image_of(sdk))
    sdk.compute.create_server(
        name="second", flavor_id=sdk.compute.find_flavor("m1.nano").id, key_name="packets",
        networks=[{"uuid": sdk.network.find_network("ceph").id, "fixed_ip": "10.60.0.12"}],
        availability_zone="nova:host-2",
        block_device_mapping=[{"boot_index": 0, "uuid": root, "source_type": "volume", "destination_type": "volume"}],
    )  # fmt: skip
    yield from guest(sdk, key, "ceph", "10.60.0.12", 2, sdk.compute.find_server("second").id)


def test_a_volume_is_written_through_all_that_happens_to_it_and_read_on_the_other_host(
    cloud: OneMachine, sdk: Connection, ceph: CephForTests, first: Guest, second: Guest
) -> None:
    volume = made(sdk, size=1, imageRef=image_of(sdk))
    attach(sdk, first, volume)
    assert first.run("dd if=/dev/vdb bs=1M count=1 2>/dev/null | tr -d '\\0' | wc -c").strip() != "0"
    begin_to_write(first)
    frozen = written(first)
    requested = {"snapshot": {"volume_id": volume, "force": True, "name": "while-written"}}
    snapshot = sdk.block_storage.post("/snapshots", json=requested).json()["snapshot"]["id"]
    becomes(sdk, "snapshots", snapshot, "available")
    action = f"/volumes/{volume}/action"
    grown = sdk.block_storage.post(action, json={"os-extend": {"new_size": 2}}, microversion="3.42")
    assert grown.status_code == 202, grown.text
    wait_for("the disk is larger", lambda: first.run("cat /sys/block/vdb/size").strip() == str(2 << 21))
    becomes(sdk, "volumes", volume, "in-use")
    writes_on(first)
    os.kill(ceph.pid("osd.0"), signal.SIGKILL)
    writes_on(first)
    daemon = the_daemon(cloud, 1, volume)
    os.kill(daemon, signal.SIGKILL)
    the_daemon(cloud, 1, volume, besides=daemon)
    writes_on(first)
    os.kill(cloud.runs[-1].service("--host host-1"), signal.SIGKILL)
    writes_on(first)
    blocks = end_writing(first)
    detach(sdk, first, volume)
    wait_for("the daemon's end", lambda: daemons(cloud, 1, volume) == [])
    attach(sdk, second, volume)
    assert len(daemons(cloud, 2, volume)) == 1
    compared(second, "vdb", blocks)
    clone = made(sdk, size=2, snapshot_id=snapshot)
    attach(sdk, second, clone, "vdc")
    compared(second, "vdc", frozen)
    for each in (volume, clone):
        detach(sdk, second, each)


def test_backups_of_what_a_guest_writes_are_a_chain_and_come_back(sdk: Connection, first: Guest) -> None:
    volume = made(sdk, size=1)
    attach(sdk, first, volume)
    backups = []
    for pattern in ("one", "two"):
        first.run(f"yes {pattern} | dd of=/dev/vdb bs=64k count=8 seek={8 * len(backups)} iflag=fullblock conv=fsync")
        requested = {"volume_id": volume, "name": pattern, "force": True, "incremental": bool(backups)}
        answer = sdk.block_storage.post("/backups", json={"backup": requested})
        assert answer.status_code == 202, answer.text
        backups.append(becomes(sdk, "backups", answer.json()["backup"]["id"], "available"))
    shown = sdk.block_storage.get(f"/backups/{backups[1]}").json()["backup"]
    assert shown["is_incremental"] is True
    first.run("dd if=/dev/zero of=/dev/vdb bs=64k count=16 conv=fsync")
    detach(sdk, first, volume)
    sums = []
    for backup in backups:
        answer = sdk.block_storage.post(f"/backups/{backup}/restore", json={"restore": {}})
        restored = becomes(sdk, "volumes", answer.json()["restore"]["volume_id"], "available")
        attach(sdk, first, restored)
        sums.append(first.run("for at in 0 8; do dd if=/dev/vdb bs=64k skip=$at count=8 2>/dev/null | sort -u; done"))
        detach(sdk, first, restored)
    assert [[line for line in each.splitlines() if line.isalpha()] for each in sums] == [["one"], ["one", "two"]]


def rbd(cloud: OneMachine, ceph: CephForTests, *words: str) -> bytes:
    """Ask the cluster from where it is."""
    inside = ["nsenter", f"--net={Space(cloud.switch.middle).path}"]
    return subprocess.check_output([*inside, "rbd", "-c", str(ceph.conf), "--id", ceph.client, *words], timeout=120)


def test_an_encrypted_volume_is_plain_to_its_guest_alone(
    cloud: OneMachine, sdk: Connection, ceph: CephForTests, first: Guest
) -> None:
    kind = sdk.block_storage.post("/types", json={"volume_type": {"name": "secret"}}).json()["volume_type"]["id"]
    requested = {"provider": "luks", "cipher": "aes-xts-plain64", "key_size": 256, "control_location": "front-end"}
    assert sdk.block_storage.post(f"/types/{kind}/encryption", json={"encryption": requested}).ok
    volume = made(sdk, size=1, volume_type="secret")
    attach(sdk, first, volume)
    first.run("yes readable | dd of=/dev/vdb bs=64k count=16 iflag=fullblock conv=fsync")
    detach(sdk, first, volume)
    attach(sdk, first, volume)
    assert first.run("head -c 900000 /dev/vdb | sort -u").split() == ["readable"]
    detach(sdk, first, volume)
    kept = rbd(cloud, ceph, "export", "--no-progress", f"{ceph.pool}/volume-{volume}", "-")
    assert kept.startswith(b"LUKS")
    assert b"readable" not in kept
