"""Two real hosts with pools of their own, and one that both reach: what a guest writes outlives whatever is killed."""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from openstack.connection import Connection

from compute_agent.virt.machine.certificates import HostCertificates
from tests.e2e.conftest import Key
from tests.e2e.test_several_hosts import agent_of, hosts_of
from tests.host.lab import Space
from tests.host.machines import sign
from tests.support.guests import Guest
from tests.support.one_machine import CHECKOUT, OneMachine, wait_for
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
    made,
    shown,
    the_daemon,
    writes_on,
)
from up.data_folder import DataFolder
from up.processes import command_line
from up.programs import environment

pytestmark = [
    pytest.mark.deep,
    pytest.mark.libvirt,
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]
NETWORK = "wires"


@pytest.fixture(scope="module")
def cloud() -> Iterator[OneMachine]:
    folder = Path(tempfile.mkdtemp(prefix="nv-volumes-"))
    cloud = OneMachine(folder / "data", hosts=2)
    cloud.settings["NOVELLA_AGENT_VOLUME_POOL"] = f"local=nbd: both=dir:{folder / 'both'}"
    try:
        cloud.up()
        yield cloud
    finally:
        cloud.end()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def sdk(cloud: OneMachine, key: Key, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Connection]:
    for sdk in connected(cloud, key, tmp_path_factory.mktemp("clouds"), NETWORK, "10.61.0.0/24"):
        for name, specs in (
            ("local", {"volume_backend_name": "local"}),
            ("both", {"volume_backend_name": "both"}),
            ("local-many", {"volume_backend_name": "local", "multiattach": "<is> True"}),
            ("both-many", {"volume_backend_name": "both", "multiattach": "<is> True"}),
        ):
            answer = sdk.block_storage.post("/types", json={"volume_type": {"name": name, "extra_specs": specs}})
            assert answer.ok, answer.text
        yield sdk


@pytest.fixture(scope="module")
def first(sdk: Connection, key: Key) -> Iterator[Guest]:
    """A guest on the first host."""
    yield from guest(sdk, key, NETWORK, "10.61.0.11", 1)


@pytest.fixture(scope="module")
def second(sdk: Connection, key: Key) -> Iterator[Guest]:
    """A guest on the other host."""
    yield from guest(sdk, key, NETWORK, "10.61.0.12", 2)


def place(sdk: Connection, volume: str) -> str:
    """Return which pool of which host a volume lies in."""
    return str(shown(sdk, "volumes", volume)["os-vol-host-attr:host"])


def local(sdk: Connection, host: int, kind: str = "local") -> str:
    """Make a volume in the own pool of a host: where it lies elsewhere it is moved there."""
    volume = made(sdk, size=1, volume_type=kind)
    pool = f"host-{host}@nbd#local"
    if place(sdk, volume) != pool:
        move(sdk, volume, pool)
    return volume


def move(sdk: Connection, volume: str, pool: str) -> None:
    """Move a volume, whether a guest has it or not."""
    status = shown(sdk, "volumes", volume)["status"]
    response = sdk.block_storage.post(f"/volumes/{volume}/action", json={"os-migrate_volume": {"host": pool}})
    assert response.status_code == 202, response.text
    wait_for("it is moved", lambda: place(sdk, volume) == pool)
    becomes(sdk, "volumes", volume, status)
    assert shown(sdk, "volumes", volume)["migration_status"] == "success"


def delete(sdk: Connection, volume: str) -> None:
    assert sdk.block_storage.delete(f"/volumes/{volume}").ok
    wait_for("it is gone", lambda: sdk.block_storage.get(f"/volumes/{volume}").status_code == 404)


def killed(cloud: OneMachine, host: int) -> None:
    """Kill the one storage daemon of a host, and wait until there is another."""
    daemon = the_daemon(cloud, host)
    os.kill(daemon, signal.SIGKILL)
    the_daemon(cloud, host, besides=daemon)


def agent_killed(cloud: OneMachine, host: int) -> None:
    agent = agent_of(cloud, host)
    os.kill(agent, signal.SIGKILL)
    wait_for("another agent", lambda: agent_of(cloud, host) not in (0, agent))


def listens(cloud: OneMachine) -> bool:
    """Return whether the port of the web is answered at all."""
    with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", cloud.port), 5):
        return True
    return False


def connected_again(guest: Guest) -> None:
    """The way to a guest's shell leads through the portal and its agent."""
    guest.hang_up()
    wait_for("the guest is reached", lambda: guest.run("echo back", check=False) == "back\n")


def manage(cloud: OneMachine, *words: str) -> subprocess.CompletedProcess[str]:
    settings = environment(DataFolder(cloud.data, CHECKOUT / "var"), cloud.port) | cloud.settings
    return subprocess.run(
        [sys.executable, CHECKOUT / "manage.py", *words], capture_output=True, text=True, env=settings, check=False
    )


def findings(cloud: OneMachine) -> list[Any]:
    done = manage(cloud, "doctor", "--json", "--pause", "1")
    return list(json.loads(done.stdout)["findings"])


def test_no_write_is_lost_whatever_is_killed_on_either_side(
    cloud: OneMachine, sdk: Connection, first: Guest, second: Guest
) -> None:
    volume = local(sdk, 2)
    attach(sdk, first, volume)
    assert [len(daemons(cloud, host)) for host in (1, 2)] == [0, 1]
    begin_to_write(first)
    killed(cloud, 2)
    writes_on(first)
    for host in (2, 1):
        agent_killed(cloud, host)
        connected_again(first)
        writes_on(first)
    daemon = the_daemon(cloud, 2)
    os.kill(agent_of(cloud, 2), signal.SIGKILL)  # both at once: the next agent starts the daemon
    os.kill(daemon, signal.SIGKILL)
    the_daemon(cloud, 2, besides=daemon)
    for word in ("manage.py web", "qworker"):
        os.kill(cloud.runs[-1].service(word), signal.SIGKILL)
    killed(cloud, 2)  # the agent needs no portal for it
    wait_for("the web is back", lambda: listens(cloud))
    wait_for("both hosts are back", lambda: {state for state, _ in hosts_of(cloud).values()} == {"up"})
    connected_again(first)
    writes_on(first)
    requested = {"os-extend": {"new_size": 2}}
    assert sdk.block_storage.post(f"/volumes/{volume}/action", json=requested, microversion="3.42").status_code == 202
    wait_for("the disk is larger", lambda: first.run("cat /sys/block/vdb/size").strip() == str(2 << 21))
    becomes(sdk, "volumes", volume, "in-use")
    killed(cloud, 2)
    writes_on(first)
    blocks = end_writing(first)
    detach(sdk, first, volume)
    wait_for("the daemon's end", lambda: daemons(cloud, 2) == [])
    attach(sdk, second, volume)
    compared(second, "vdb", blocks)
    detach(sdk, second, volume)
    delete(sdk, volume)
    assert findings(cloud) == []


@dataclass
class Export:
    """What a storage daemon serves to other hosts, as its own record says."""

    cloud: OneMachine
    host: int
    name: str
    port: int

    @classmethod
    def of(cls, cloud: OneMachine, host: int) -> Export:
        daemon = the_daemon(cloud, host)
        match = re.search(r"--pidfile (\S+)/pid", command_line(daemon))
        assert match
        description = json.loads((Path(match[1]) / "daemon.json").read_text())
        return cls(cloud, host, description["exports"][-1]["name"], description["port"])

    def read(self, host: int, certificates: Path | None) -> str:
        """Read it from where the guests of a host are; return what the program says."""
        words, form = [], f"driver=nbd,host=192.0.2.{self.host},port={self.port},export={self.name}"
        if certificates is not None:
            server = HostCertificates(self.cloud.data / f"hosts/host-{self.host}")
            words = ["--object", f"tls-creds-x509,id=t,endpoint=client,dir={certificates}"]
            form += f",tls-creds=t,tls-hostname={server.tls_hostname}"
        inside = ["nsenter", f"--net={Space(self.cloud.switch.guests(host)).path}", "qemu-io", "-r", *words]
        done = subprocess.run(
            [*inside, "--image-opts", "-c", "read 0 512", form], capture_output=True, text=True, timeout=60, check=False
        )
        return done.stdout + done.stderr


READ = "read 512/512"


def test_the_port_of_a_volume_is_for_the_host_of_its_guest_alone(
    cloud: OneMachine, sdk: Connection, first: Guest, tmp_path: Path
) -> None:
    volume = local(sdk, 2)
    attach(sdk, first, volume)
    export = Export.of(cloud, 2)
    pki = {host: HostCertificates(cloud.data / f"hosts/host-{host}").folder for host in (1, 2)}
    assert READ in export.read(1, pki[1])
    assert READ not in export.read(1, None), "in plain text"
    assert READ not in export.read(2, pki[2]), "by the certificate of a host that was not named"
    strange = HostCertificates(tmp_path)
    sign(strange, (pki[1] / "host-id").read_text())  # the same name, by an authority of its own
    (tmp_path / "pki" / "ca-cert.pem").write_bytes((pki[1] / "ca-cert.pem").read_bytes())
    assert READ not in export.read(1, strange.folder), "by somebody else's authority"
    detach(sdk, first, volume)
    assert READ not in export.read(1, pki[1]), "after the last guest"
    delete(sdk, volume)


@pytest.mark.parametrize("victim", [1, 2], ids=["of the guest", "of the volume"])
def test_an_agent_that_is_killed_while_a_volume_comes_and_goes(
    cloud: OneMachine, sdk: Connection, first: Guest, victim: int
) -> None:
    volume = local(sdk, 2)
    for delay in (0.0, 0.1, 0.25, 0.5):
        sdk.compute.create_volume_attachment(first.server, volume_id=volume)
        time.sleep(delay)  # the moment within the attachment is the point of the test
        agent_killed(cloud, victim)
        wait_for("it is decided", lambda: shown(sdk, "volumes", volume)["status"] in ("in-use", "available"))
        if shown(sdk, "volumes", volume)["status"] == "in-use":
            connected_again(first)
            wait_for("the disk in the guest", lambda: "vdb" in first.run("ls /sys/block"))
            assert len(daemons(cloud, 2)) == 1
            sdk.compute.delete_volume_attachment(first.server, volume)
            time.sleep(delay)
            agent_killed(cloud, victim)
            becomes(sdk, "volumes", volume, "available")
        wait_for("the daemon's end", lambda: daemons(cloud, 2) == [])
        connected_again(first)
        assert not first.has("/sys/block/vdb")
        assert list(sdk.compute.volume_attachments(first.server)) == []
    delete(sdk, volume)
    assert findings(cloud) == []


@pytest.mark.parametrize("kind", ["local-many", "both-many"])
def test_two_guests_of_two_hosts_have_one_volume(
    cloud: OneMachine, sdk: Connection, first: Guest, second: Guest, kind: str
) -> None:
    volume = made(sdk, size=1, volume_type=kind)
    for each in (first, second):
        sdk.compute.create_volume_attachment(each.server, volume_id=volume, device="/dev/vdb")
        wait_for("the disk in the guest", lambda: "vdb" in each.run("ls /sys/block"))  # noqa: B023
    wait_for("both have it", lambda: len(shown(sdk, "volumes", volume)["attachments"]) == 2)
    assert sum(len(daemons(cloud, host)) for host in (1, 2)) == 1, "one opens the data"
    (here,) = [host for host in (1, 2) if daemons(cloud, host)]
    for each, other, at, word in ((first, second, 1, "one"), (second, first, 2, "two")):
        write = f"yes {word} | dd of=/dev/vdb bs=64k count=4 seek={at * 1024} iflag=fullblock conv=fsync"
        each.run(write)
        killed(cloud, here)
        read = f"echo 3 >/proc/sys/vm/drop_caches; dd if=/dev/vdb bs=64k count=4 skip={at * 1024} 2>/dev/null | sort -u"
        assert other.run(read).split() == [word]
    requested = {"os-extend": {"new_size": 2}}
    assert sdk.block_storage.post(f"/volumes/{volume}/action", json=requested, microversion="3.42").status_code == 202
    for each in (first, second):
        wait_for("it is larger", lambda: each.run("cat /sys/block/vdb/size").strip() == str(2 << 21))  # noqa: B023
    becomes(sdk, "volumes", volume, "in-use")
    sdk.compute.delete_volume_attachment(first.server, volume)
    wait_for("one has it", lambda: len(shown(sdk, "volumes", volume)["attachments"]) == 1)
    wait_for("the first has it no more", lambda: not first.has("/sys/block/vdb"))
    begin_to_write(second)
    blocks = end_writing(second)
    detach(sdk, second, volume)
    attach(sdk, first, volume)
    compared(first, "vdb", blocks)
    detach(sdk, first, volume)
    wait_for("the daemons' end", lambda: daemons(cloud, 1) == daemons(cloud, 2) == [])
    delete(sdk, volume)
    assert findings(cloud) == []


def test_a_volume_moves_between_hosts_while_its_guest_writes(
    cloud: OneMachine, sdk: Connection, first: Guest, second: Guest
) -> None:
    volume = local(sdk, 2)
    attach(sdk, first, volume)
    begin_to_write(first)
    for pool in ("host-1@nbd#local", "both@dir#both", "host-2@nbd#local"):
        move(sdk, volume, pool)
        writes_on(first)
    assert [len(daemons(cloud, host)) for host in (1, 2)] == [0, 1], "nothing is left of what it was"
    requested = {"os-migrate_volume": {"host": "host-1@nbd#local"}}
    assert sdk.block_storage.post(f"/volumes/{volume}/action", json=requested).status_code == 202
    time.sleep(0.3)  # within the move
    for host in (1, 2):
        agent_killed(cloud, host)
    connected_again(first)
    becomes(sdk, "volumes", volume, "in-use")
    writes_on(first)
    blocks = end_writing(first)
    detach(sdk, first, volume)
    move(sdk, volume, "both@dir#both")  # nobody has it: its host sends it
    attach(sdk, second, volume)
    compared(second, "vdb", blocks)
    detach(sdk, second, volume)
    delete(sdk, volume)
    wait_for("nothing is held open", lambda: daemons(cloud, 1) == daemons(cloud, 2) == [])
    assert findings(cloud) == []


@contextmanager
def dead(cloud: OneMachine, sdk: Connection, host: int) -> Iterator[None]:
    """Let a host's power fail, and an operator say so, for as long as the block lasts."""
    run = cloud.runs[-1]
    (service,) = [each for each in sdk.compute.services() if each.host == f"host-{host}"]
    os.kill(run.process.pid, signal.SIGSTOP)  # nobody starts its agent again
    try:
        cloud.switch.power_off(host)
        sdk.compute.update_service_forced_down(service, forced=True)
        yield
    finally:
        os.kill(run.process.pid, signal.SIGCONT)
    wait_for("its agent is back", lambda: agent_of(cloud, host))
    sdk.compute.update_service_forced_down(service, forced=False)
    wait_for("it is up", lambda: hosts_of(cloud)[f"host-{host}"][0] == "up")


def test_the_volumes_of_a_host_that_an_operator_says_is_dead(
    cloud: OneMachine, sdk: Connection, first: Guest, second: Guest
) -> None:
    """What lies elsewhere is given to others; what lies there is refused in words, and is whole when it is back."""
    shared, own = made(sdk, size=1, volume_type="both"), local(sdk, 2)
    written = {}
    for volume, device in ((shared, "vdb"), (own, "vdc")):
        attach(sdk, second, volume, device)
        begin_to_write(second, device)
        written[volume] = end_writing(second, device)
    with dead(cloud, sdk, 2):
        for volume in written:
            assert shown(sdk, "volumes", volume)["status"] == "in-use", "its server may come back with it"
            action = f"/volumes/{volume}/action"
            assert sdk.block_storage.post(action, json={"os-force_detach": {}}).status_code == 202
            becomes(sdk, "volumes", volume, "available")
        attach(sdk, first, shared)
        compared(first, "vdb", written[shared])
        refused = sdk.compute.post(
            f"/servers/{first.server}/os-volume_attachments", json={"volumeAttachment": {"volumeId": own}}
        )
        assert refused.status_code >= 400, "its data cannot be reached"
        becomes(sdk, "volumes", own, "available")
    assert list(sdk.compute.volume_attachments(second.server)) == []
    wait_for("its agent has told", lambda: sdk.compute.get_server(second.server).status == "SHUTOFF")
    sdk.compute.start_server(second.server)
    wait_for("it runs", lambda: sdk.compute.get_server(second.server).status == "ACTIVE")
    connected_again(second)
    assert not second.has("/sys/block/vdb") | second.has("/sys/block/vdc")
    begin_to_write(first)
    assert end_writing(first) > 5
    detach(sdk, first, shared)
    attach(sdk, first, own)
    compared(first, "vdb", written[own])
    detach(sdk, first, own)
    for volume in written:
        delete(sdk, volume)
    wait_for("nothing is held open", lambda: daemons(cloud, 1) == daemons(cloud, 2) == [])
    wait_for("all is well", lambda: findings(cloud) == [])


def test_an_evacuated_server_has_its_volume_and_address_on_another_host(
    cloud: OneMachine, sdk: Connection, second: Guest
) -> None:
    """The volume has everything that was written, and the dead host removes its guest when it is back."""
    volume = made(sdk, size=1, volume_type="both")
    attach(sdk, second, volume)
    begin_to_write(second)
    blocks = end_writing(second)
    admin = {"microversion": "2.94"}
    with dead(cloud, sdk, 2):
        response = sdk.compute.post(f"/servers/{second.server}/action", json={"evacuate": {}}, **admin)
        assert response.status_code == 200, response.text
        wait_for("it runs", lambda: sdk.compute.get_server(second.server).status == "ACTIVE")
        assert sdk.compute.get_server(second.server).compute_host == "host-1"
        connected_again(second)
        compared(second, "vdb", blocks)
        begin_to_write(second)
    wait_for("the old guest is gone", lambda: [each.status for each in sdk.compute.migrations()][:1] == ["completed"])
    assert end_writing(second) > 5
    detach(sdk, second, volume)
    delete(sdk, volume)
    wait_for("nothing is held open", lambda: daemons(cloud, 1) == daemons(cloud, 2) == [])
    wait_for("all is well", lambda: findings(cloud) == [])


def test_nothing_is_left(cloud: OneMachine, sdk: Connection) -> None:
    assert sdk.block_storage.get("/volumes").json()["volumes"] == []
    limits = sdk.block_storage.get("/limits").json()["limits"]["absolute"]
    assert {name: used for name, used in limits.items() if name.startswith("totalGigabytesUsed")} == {
        "totalGigabytesUsed": 0
    }
    for pool in sdk.block_storage.get("/scheduler-stats/get_pools?detail=true").json()["pools"]:
        assert pool["capabilities"]["allocated_capacity_gb"] == 0, pool
    folders = [*cloud.data.glob("hosts/*/volumes"), cloud.data.parent / "both"]
    assert len(folders) == 3
    left = [path for folder in folders for path in folder.rglob("*") if path.suffix == ".qcow2"]
    assert left == []
