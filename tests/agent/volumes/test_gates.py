"""A guest that is migrated has its volume open on two hosts, each by its own export, and afterwards on one of them."""

from __future__ import annotations

import os
import pwd
import subprocess
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import VolumeConnection
from compute_agent.contract.volume import VolumeClient, VolumeSpec, client_export
from compute_agent.virt.machine.certificates import HostCertificates
from compute_agent.virt.processes import processes
from compute_agent.virt.processes.rights import Rights
from compute_agent.virt.processes.storage_account import StorageAccount
from compute_agent.volumes import drivers
from compute_agent.volumes.daemons import daemon_process, exports
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.daemons.export_address import Address
from compute_agent.volumes.driver import PoolSettings, VolumeDriver
from tests.agent.volumes.conftest import own_ports
from tests.host.machines import sign

pytestmark = pytest.mark.slow
HOST, OTHER, THIRD = (str(uuid.uuid4()) for _ in range(3))
HERE = VolumeClient(attachment_id=str(uuid.uuid4()), host_id=HOST, local=True)
THERE = replace(HERE, host_id=OTHER, local=False, move=1)
FARTHER = replace(HERE, host_id=THIRD, local=False, move=2)
ENTRY = pwd.getpwnam("nobody")
NOBODY = StorageAccount("nobody", ENTRY.pw_uid, ENTRY.pw_gid)


@dataclass
class Storage:
    """A host with a pool, and the certificates of all hosts."""

    driver: VolumeDriver
    daemons: Daemons
    certificates: dict[str, HostCertificates]
    volume: VolumeSpec

    def connect(self, *clients: VolumeClient) -> VolumeConnection:
        return self.daemons.connect(self.driver, self.volume, clients)

    @contextmanager
    def guest(self, connection: VolumeConnection, client: VolumeClient) -> Iterator[Guest]:
        """Open the volume as a guest of the client's host does."""
        name = client_export(
            connection.export, client.attachment_id, multiattach=self.volume.multiattach, move=client.move
        )
        words, image = ["qemu-io"], f"driver=raw,file.driver=nbd,file.export={name}"
        if connection.socket and client.local:
            image += f",file.server.type=unix,file.server.path={connection.socket}"
        else:
            image += f",file.server.type=inet,file.server.host=127.0.0.1,file.server.port={connection.port}"
            image += f",file.tls-creds=t,file.tls-hostname={connection.tls_hostname}"
            folder = self.certificates[client.host_id].folder
            words += ["--object", f"tls-creds-x509,id=t,endpoint=client,dir={folder}"]
        process = subprocess.Popen(
            [*words, "--image-opts", image],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip
        try:
            yield Guest(process)
        finally:
            process.kill()
            process.communicate()

    def reads(self, connection: VolumeConnection, client: VolumeClient, pattern: int, offset: int = 0) -> bool:
        with self.guest(connection, client) as guest:
            return guest.does(f"read -P {pattern} {offset} 4096")


@dataclass
class Guest:
    process: subprocess.Popen[str]

    def does(self, command: str) -> bool:
        """Execute one command of qemu-io; return whether it succeeded."""
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        try:
            self.process.stdin.write(f"{command}\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return False
        line = self.process.stdout.readline()
        if " 4096/4096" not in line:
            return False
        self.process.stdout.readline()  # how fast
        return True


@pytest.fixture(params=["account", pytest.param("root", marks=pytest.mark.deep)])
def storage(request: pytest.FixtureRequest, short: Path, tmp_path: Path) -> Iterator[Storage]:
    if request.param == "account" and os.geteuid() != 0:
        pytest.skip("only root can become another account")
    certificates = {}
    for host in (HOST, OTHER, THIRD):
        certificates[host] = HostCertificates(tmp_path / host)
        sign(certificates[host], host)
    account = NOBODY if request.param == "account" else None
    place = short / "pool"
    driver = drivers.make(PoolSettings("local", "nbd", str(place), "host-1", account=account))
    address = Address(lambda: "127.0.0.1", certificates[HOST], own_ports(12_141, 40))
    rights = Rights(account, [place]) if account is not None else None
    short.chmod(0o711)
    daemons = Daemons(short / "run", short / "sockets", address, short / "kept", rights)
    (short / "sockets").mkdir(0o710)
    volume = VolumeSpec(id=str(uuid.uuid4()), pool_id=driver.prepare(), size_gb=1)
    driver.create(volume)
    yield Storage(driver, daemons, certificates, volume)
    daemons.end_all()
    assert not list(daemon_process.strays(short / "run"))


def test_both_hosts_have_it_open_and_then_only_the_new_one(storage: Storage) -> None:
    first = storage.connect(HERE)
    assert (first.port, bool(first.socket)) == (0, True)
    with storage.guest(first, HERE) as old:
        assert old.does("write -P 1 0 4096")
        both = storage.connect(HERE, THERE)
        assert (both.socket, both.export) == (first.socket, first.export)
        with storage.guest(both, THERE) as new:
            assert old.does("write -P 2 4096 4096"), "its connection stays"
            assert new.does("read -P 1 0 4096")
            assert new.does("read -P 2 4096 4096")
            after = storage.connect(THERE)
            assert after == both
            assert not old.does("write -P 3 0 4096"), "its export has ended"
            assert new.does("write -P 4 4096 4096"), "its connection stays"
    assert not storage.reads(after, HERE, 1)
    assert storage.reads(after, THERE, 4, 4096)


def test_the_old_host_keeps_it_when_the_guest_stays(storage: Storage) -> None:
    first = storage.connect(HERE)
    with storage.guest(first, HERE) as old:
        both = storage.connect(HERE, THERE)
        with storage.guest(both, THERE) as new:
            assert new.does("write -P 5 0 4096")
            assert storage.connect(HERE) == first
            assert not new.does("write -P 6 0 4096")
        assert old.does("read -P 5 0 4096")
    [description] = storage.daemons.descriptions()
    assert (description.gate, storage.daemons.is_whole(description)) == (0, True)


@pytest.mark.deep
def test_it_goes_on_to_a_third_host_and_comes_home(storage: Storage) -> None:
    storage.connect(HERE)
    storage.connect(HERE, THERE)
    there = storage.connect(THERE)
    with storage.guest(there, THERE) as second:
        assert second.does("write -P 1 0 4096")
        farther = storage.connect(THERE, FARTHER)
        assert not storage.reads(farther, replace(FARTHER, host_id=HOST), 1), "it is not named"
        with storage.guest(farther, FARTHER) as third:
            assert third.does("read -P 1 0 4096")
            storage.connect(FARTHER)
            assert not second.does("write -P 2 0 4096")
            home = replace(HERE, move=3)
            back = storage.connect(FARTHER, home)
            with storage.guest(back, home) as first:
                assert first.does("read -P 1 0 4096")
                alone = storage.connect(home)
                assert not third.does("write -P 3 0 4096")
                assert first.does("write -P 4 0 4096")
    assert (alone.port, storage.reads(alone, home, 4)) == (0, True)


@pytest.mark.parametrize("what", ["daemon", "gate"])
def test_a_daemon_that_dies_comes_back_at_the_same_place(storage: Storage, what: str) -> None:
    storage.connect(HERE)
    both = storage.connect(HERE, THERE)
    with storage.guest(both, THERE) as new:
        assert new.does("write -P 7 0 4096")
    folders = {path.parent.name.startswith("gate-"): path.parent for path in storage.daemons.runtime.glob("*/pid")}
    pid = daemon_process.running(folders[what == "gate"])
    assert pid is not None
    processes.kill(pid)
    [description] = storage.daemons.descriptions()
    assert not storage.daemons.is_whole(description)
    assert storage.daemons.repair(storage.driver, description)
    assert not storage.daemons.repair(storage.driver, description)
    assert storage.reads(both, THERE, 7)
    assert storage.reads(both, HERE, 7)


@pytest.mark.deep
def test_a_larger_volume_is_larger_for_both(storage: Storage) -> None:
    storage.connect(HERE)
    storage.connect(HERE, THERE)
    storage.connect(THERE)
    larger = replace(storage.volume, size_gb=2)
    with storage.daemons.opened(storage.volume.id) as daemon:
        storage.driver.grow(larger, daemon)
    result = storage.daemons.export_again(storage.driver, larger)
    assert result is not None
    storage.volume = larger
    with storage.guest(result, THERE) as guest:
        assert guest.does(f"write -P 8 {(2 << 30) - 4096} 4096")


def test_the_other_guest_of_a_shared_volume_notices_nothing(storage: Storage) -> None:
    storage.volume = replace(storage.volume, multiattach=True)
    other = replace(HERE, attachment_id=str(uuid.uuid4()), host_id=THIRD, local=False)
    first = storage.connect(HERE, other)
    with storage.guest(first, other) as stays, storage.guest(first, HERE) as old:
        assert stays.does("write -P 1 0 4096")
        assert old.does("read -P 1 0 4096")
        both = storage.connect(HERE, THERE, other)
        with storage.guest(both, THERE) as new:
            assert new.does("read -P 1 0 4096")
            assert storage.connect(THERE, other) == both
            assert not old.does("write -P 2 0 4096")
            assert new.does("write -P 3 0 4096")
        assert stays.does("read -P 3 0 4096")


def test_an_agent_that_was_killed_leaves_no_gate(storage: Storage) -> None:
    storage.connect(HERE)
    storage.connect(HERE, THERE)
    runtime = storage.daemons.runtime
    [gate] = runtime.glob("gate-*")
    (runtime / storage.volume.id / "daemon.json").unlink()
    storage.daemons.sweep()
    assert not gate.exists()


def test_the_end_of_all_daemons_lists_volumes_and_no_gates(storage: Storage) -> None:
    storage.connect(HERE)
    storage.connect(HERE, THERE)
    assert storage.daemons.end_all() == [storage.volume.id]
    assert not storage.daemons.runtime.exists()


def test_a_node_is_deleted_when_the_connections_of_its_export_have_ended() -> None:
    """QEMU ends them after the answer to ``block-export-del``."""
    looks, done = [2], list[str]()

    class Qmp:
        def execute(self, command: str, **_: object) -> list[dict[str, str]]:
            done.append(command)
            if command == "query-block-exports":
                looks[0] -= "block-export-del" in done
                return [{"id": "export-old", "node-name": "gate-old"}] if looks[0] >= 0 else []
            assert command != "blockdev-del" or looks[0] < 0, "Node gate-old is in use"
            return []

    spec = VolumeSpec(id=str(uuid.uuid4()), pool_id=str(uuid.uuid4()), size_gb=1)
    exports.follow_gate(Qmp(), exports.Description(volume=spec), Path("/nowhere"))  # type: ignore[arg-type]
    assert done == ["query-block-exports", "block-export-del", *["query-block-exports"] * 3, "blockdev-del"]
