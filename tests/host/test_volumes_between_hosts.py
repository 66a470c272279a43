"""Volumes between hosts, on the wire: QEMU with the hosts' certificates, through the machines' ports."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.certificates import tls_hostname
from compute_agent.contract.volume import VolumeClient, VolumeSpec
from compute_agent.volumes import drivers
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.daemons.export_address import Address
from compute_agent.volumes.driver import PoolSettings
from tests.host.lab import until
from tests.host.machines import PORT, Client, Machine, export, sniffed

pytestmark = pytest.mark.deep


@pytest.fixture
def hosts(tmp_path: Path) -> Iterator[tuple[Machine, Machine]]:
    """Host 1 with the volume, host 2 with the guest."""
    made = tuple(Machine(number, tmp_path / str(number), f"nvv{os.getpid()}-{number}") for number in (1, 2))
    one, two = made
    one.machine.run(
        "ip", "link", "add", "cable", "type", "veth", "peer", "name", "cable", "netns", str(two.machine.path)
    )
    for host in made:
        host.machine.run("ip", "addr", "add", f"{host.address}/24", "dev", "cable")
        host.machine.run("ip", "link", "set", "cable", "up")
        host.folder.mkdir()
        host.join()
    yield one, two
    for host in made:
        host.host.remove()
        host.machine.remove()


def test_only_the_host_that_is_named_opens_the_volume_and_nothing_of_it_is_readable(
    hosts: tuple[Machine, Machine],
) -> None:
    one, two = hosts
    with export(one, two.id), sniffed(one) as heard:
        assert two.qemu_io(one, "write -P 0xab 0 1M").returncode == 0
        assert two.reads(one)
        assert not two.reads(one, tls=False)
        assert not two.reads(one, name=two.certificates.tls_hostname)  # the daemon is not who the volume is with
        assert not one.reads(one)  # on the machine itself, by its own address, but not named
    passed = b"".join(heard)
    assert len(passed) > 2 << 20
    assert b"\xab" * 64 not in passed


def test_what_is_sniffed_is_readable_without_tls(hosts: tuple[Machine, Machine]) -> None:
    one, two = hosts
    with export(one, ""), sniffed(one) as heard:
        assert two.qemu_io(one, "write -P 0xab 0 1M", tls=False).returncode == 0
        assert one.reads(one, tls=False)  # from the namespace itself, by the machine's address
    assert b"\xab" * 64 in b"".join(heard)


def test_other_ports_of_the_machine_lead_nowhere(hosts: tuple[Machine, Machine]) -> None:
    one, two = hosts
    listening = one.host.listens("0.0.0.0", 10_821)  # noqa: S104
    assert not two.host.connects(one.address, 10_821, patience=1)
    listening.close()


def test_certificates_that_are_over_are_refused_and_new_ones_need_no_new_daemon_or_key(
    hosts: tuple[Machine, Machine],
) -> None:
    one, two = hosts
    with export(one, two.id):
        assert two.qemu_io(one, "write -P 0xab 0 1M").returncode == 0
        two.sign(timedelta(seconds=-60))
        assert not two.reads(one)
        two.sign()
        assert two.reads(one)
    one.sign(timedelta(seconds=3))
    with export(one, two.id):
        until(lambda: not two.reads(one), "the daemon's certificate is over", 30)


def test_what_is_open_goes_on_while_both_hosts_get_new_certificates(hosts: tuple[Machine, Machine]) -> None:
    one, two = hosts
    with export(one, two.id):
        guest = Client(two, one)
        guest.says("write -P 0xab 0 1M")
        assert "wrote 1048576/1048576" in guest.hears()
        one.sign()
        two.sign()
        guest.says("write -P 0xab 1M 1M")
        assert "read 2097152/2097152" in guest.end("read -P 0xab 0 2M")


def test_a_cable_that_is_out_for_a_while_loses_no_write_and_is_no_error(hosts: tuple[Machine, Machine]) -> None:
    """TCP holds the connection meanwhile: the guest waits."""
    one, two = hosts
    with export(one, two.id):
        guest = Client(two, one)
        guest.says("write -P 0xab 0 1M")
        assert "wrote 1048576/1048576" in guest.hears()
        one.machine.run("ip", "link", "set", "cable", "down")
        guest.says("write -P 0xab 1M 1M")
        with pytest.raises(subprocess.TimeoutExpired):
            guest.process.wait(1)
        one.machine.run("ip", "link", "set", "cable", "up")
        output = guest.end("read -P 0xab 0 2M")
        assert "error" not in output.lower()
        assert "read 2097152/2097152" in output


def test_the_daemon_of_a_host_lets_in_the_hosts_that_it_was_given(hosts: tuple[Machine, Machine]) -> None:
    one, two = hosts
    short = Path(tempfile.mkdtemp(prefix="nv-", dir="/tmp"))
    address = Address(lambda: one.address, one.certificates, (PORT, PORT))
    daemons = Daemons(short / "run", short / "sockets", address, short / "kept")
    pool = drivers.make(PoolSettings("local", "nbd", str(short / "pool"), "one"))
    volume = VolumeSpec(id=str(uuid.uuid4()), pool_id=pool.prepare(), size_gb=1)
    pool.create(volume)
    client = VolumeClient(attachment_id=str(uuid.uuid4()), host_id=two.id, local=False)
    try:
        connection = one.host.do(lambda: daemons.connect(pool, volume, [client]))
        assert (connection.address, connection.port, connection.tls) == (one.address, PORT, True)
        assert connection.tls_hostname == tls_hostname(one.id)
        assert two.qemu_io(one, "write -P 0xab 0 1M", export=connection.export).returncode == 0
        assert two.reads(one, export=connection.export)
        assert not two.reads(one, export=connection.export, tls=False)
        assert not one.reads(one, export=connection.export)
        daemons.connect(pool, volume, [replace(client, host_id=one.id)])
        assert one.reads(one, export=connection.export)
        assert not two.reads(one, export=connection.export)
    finally:
        daemons.end_all()
        shutil.rmtree(short)


def test_the_socket_for_guests_of_the_same_host_is_open_to_the_group_that_the_folder_is(tmp_path: Path) -> None:
    short = Path(tempfile.mkdtemp(prefix="nv-", dir="/tmp"))
    (short / "sockets").mkdir(0o710)
    os.chown(short / "sockets", 0, 12345)
    daemons = Daemons(short / "run", short / "sockets", Address(lambda: ""), short / "kept")
    pool = drivers.make(PoolSettings("local", "nbd", str(tmp_path / "pool"), "one"))
    volume = VolumeSpec(id=str(uuid.uuid4()), pool_id=pool.prepare(), size_gb=1)
    pool.create(volume)
    try:
        connection = daemons.connect(
            pool, volume, [VolumeClient(attachment_id=str(uuid.uuid4()), host_id="1", local=True)]
        )
        result = Path(connection.socket).stat()
        assert (result.st_gid, result.st_mode & 0o777) == (12345, 0o660)
    finally:
        daemons.end_all()
        shutil.rmtree(short)
