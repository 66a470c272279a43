"""Guests' disks between two hosts, by real storage daemons over TLS: what arrives, and who may fetch it."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec, LocalDisk, VolumeConnection
from compute_agent.contract.moves import GuestOrigin, SentDisk
from compute_agent.virt.driver import SentFile, SentGuest, never
from compute_agent.virt.errors import ImageUnacceptableError
from compute_agent.virt.machine.certificates import HostCertificates
from compute_agent.virt.processes import processes, progress
from compute_agent.virt.processes.programs import ProgramError
from compute_agent.volumes.copies import copying, disk_transfer
from compute_agent.volumes.copies.copy_journal import CopyJournal
from compute_agent.volumes.copies.disk_transfer import DiskTransfer
from compute_agent.volumes.daemons import daemon_process
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.daemons.export_address import Address
from compute_agent.volumes.errors import CopyFailedError, NoSpaceError
from tests.agent.cast import make_spec
from tests.agent.volumes.conftest import own_ports
from tests.host.machines import sign

moving = pytest.importorskip("compute_agent.virt.libvirt.moving")
paths = pytest.importorskip("compute_agent.virt.libvirt.paths")
pytestmark = [
    pytest.mark.libvirt,
    pytest.mark.skipif(shutil.which("qemu-storage-daemon") is None, reason="needs qemu-storage-daemon"),
]
MIB = 1 << 20
BASE = f"sha512-{'ab' * 64}"


@dataclass
class Machine:
    """One host: its folder, its certificates and its daemons."""

    folder: Path
    id: str = field(default_factory=lambda: str(uuid.uuid4()))

    def __post_init__(self) -> None:
        self.certificates = HostCertificates(self.folder)
        sign(self.certificates, self.id)
        address = Address(lambda: "127.0.0.1", self.certificates, own_ports(12_100, 40))
        self.daemons = Daemons(self.folder / "v", self.folder / "e", address, self.folder / "kept")
        self.transfer = DiskTransfer(self.daemons)
        self.paths = paths.HostPaths(self.folder)
        self.base = self.folder / "images" / "_base" / BASE
        self.base.parent.mkdir(parents=True)

    def disk(self, spec: InstanceSpec) -> Any:
        return self.paths.instance(spec.uuid)

    def receive(self, spec: InstanceSpec, origin: GuestOrigin, base: Path | None, attempt: int = 2) -> Path:
        """Receive the disks as the driver does, without libvirt."""
        driver = SimpleNamespace(_power_off=lambda uuid: None, _folder=self._folder, _paths=self.paths)
        fetch = self.transfer.fetch(spec.uuid, attempt, origin, never)
        moving.MoveOperations.receive_disks(driver, spec, base, origin, fetch)
        return self._folder(spec.uuid).root_disk

    def _folder(self, key: str) -> Any:
        result = self.paths.instance(key)
        result.folder.mkdir(parents=True, exist_ok=True)
        return result


@pytest.fixture
def hosts() -> Iterator[tuple[Machine, Machine]]:
    with tempfile.TemporaryDirectory(prefix="nv-") as folder:
        made = []
        for name in "12":
            (Path(folder) / name).mkdir()
            made.append(Machine(Path(folder) / name))
            made[-1].paths.prepare()
        yield made[0], made[1]
        for each in made:
            each.daemons.end_all()
            each.paths.remove_short()


@pytest.fixture
def spec() -> InstanceSpec:
    made = make_spec()
    return replace(made, flavor=replace(made.flavor, root_gb=1, ephemeral_gb=0, swap_mb=0))


def qemu_img(*words: str) -> str:
    return subprocess.run(["qemu-img", *words], check=True, capture_output=True, text=True).stdout


def write(disk: Path, *commands: str) -> None:
    words = [word for command in commands for word in ("-c", command)]
    subprocess.run(["qemu-io", "-f", "qcow2", *words, str(disk)], check=True, capture_output=True)


def reads(disk: Path, *commands: str) -> bool:
    words = [word for command in commands for word in ("-c", command)]
    done = subprocess.run(["qemu-io", "-f", "qcow2", *words, str(disk)], capture_output=True, text=True, check=False)
    return done.returncode == 0 and "failed" not in done.stdout


DATA = "read -P 0x11 0 64k", "read -P 0xaa 1M 128k", "read -P 0 2M 64k", "read -P 0 3M 1M"


def made(source: Machine, spec: InstanceSpec) -> SentGuest:
    """A root disk over an image: data of the image, data of the guest, and zeros over data of the image."""
    content = bytearray(b"\x11" * 3 * MIB + b"\0" * 13 * MIB)
    source.base.write_bytes(content)
    disk = source._folder(spec.uuid).root_disk
    qemu_img("create", "-q", "-f", "qcow2", "-b", str(source.base), "-F", "raw", str(disk), "1G")
    write(disk, "write -P 0xaa 1M 128k", "write -z 2M 64k")
    return SentGuest((SentFile("root", disk),), source.base)


def test_the_own_data_travels_and_the_image_is_that_of_the_other_host(
    hosts: tuple[Machine, Machine], spec: InstanceSpec
) -> None:
    one, two = hosts
    sent = made(one, spec)
    origin = replace(one.transfer.export(spec.uuid, sent, two.id), address="127.0.0.1")
    assert {disk.name for disk in origin.disks} == {"root", "root.flat"}
    shutil.copy(one.base, two.base)
    disk = two.receive(replace(spec, flavor=replace(spec.flavor, root_gb=2)), origin, two.base)
    info = json.loads(qemu_img("info", "--output=json", str(disk)))
    assert info["virtual-size"] == 2 << 30, "the larger flavor"
    assert info["full-backing-filename"].endswith(f"_base/{BASE}")
    assert str(one.folder) not in info["full-backing-filename"]
    assert reads(disk, *DATA)
    assert info["actual-size"] < 2 * MIB, "the image does not travel"
    one.transfer.end(spec.uuid)
    assert not one.transfer.is_exported(spec.uuid)
    write(sent.files[0].path, "write -P 0xbb 0 64k")


def test_the_end_of_all_daemons_includes_those_of_sent_disks(
    hosts: tuple[Machine, Machine], spec: InstanceSpec
) -> None:
    one, two = hosts
    one.transfer.export(spec.uuid, made(one, spec), two.id)
    (folder,) = one.daemons.runtime.iterdir()
    pid = daemon_process.running(folder)
    assert pid is not None
    assert one.daemons.end_all() == []
    assert processes.ended(pid, 10)


@pytest.mark.deep
def test_without_the_image_the_whole_content_travels(hosts: tuple[Machine, Machine], spec: InstanceSpec) -> None:
    one, two = hosts
    origin = replace(one.transfer.export(spec.uuid, made(one, spec), two.id), address="127.0.0.1")
    disk = two.receive(spec, origin, None)
    info = json.loads(qemu_img("info", "--output=json", str(disk)))
    assert "backing-filename" not in info
    assert reads(disk, *DATA)


def test_only_the_host_that_is_named_may_fetch(
    hosts: tuple[Machine, Machine], spec: InstanceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = hosts
    monkeypatch.setattr(disk_transfer, "PAUSES", (0.0, 0.0, 0.0))
    origin = replace(one.transfer.export(spec.uuid, made(one, spec), str(uuid.uuid4())), address="127.0.0.1")
    with pytest.raises(CopyFailedError):
        two.receive(spec, origin, None)


class Relay:
    """A network between two hosts: it counts what the source sends, and breaks connections."""

    def __init__(self, port: int, *, broken_after: list[int]) -> None:
        """``broken_after``: bytes after which the first connections break; later ones last."""
        self.sent, self.connections = 0, 0
        self._source, self._broken_after = port, broken_after
        self._listening = socket.create_server(("127.0.0.1", 0))
        self._sockets, self._threads = [self._listening], list[threading.Thread]()
        self.port = self._listening.getsockname()[1]

    def __enter__(self) -> Relay:
        self._start(self._accept)
        return self

    def __exit__(self, *_: object) -> None:
        _shut(self._listening)  # no more connections
        self._threads[0].join(60)
        for each in self._sockets:
            _shut(each)
        for thread in self._threads:
            thread.join(60)
        for each in self._sockets:
            each.close()

    def _start(self, work: Callable[[], None]) -> None:
        self._threads.append(threading.Thread(target=work, daemon=True))
        self._threads[-1].start()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listening.accept()
                self._sockets.append(client)
                self.connections += 1
                most = self._broken_after.pop(0) if self._broken_after else sys.maxsize
                server = socket.create_connection(("127.0.0.1", self._source))
                self._sockets.append(server)
                self._start(partial(self._pump, client, server, sys.maxsize, counted=False))
                self._start(partial(self._pump, server, client, most, counted=True))

    def _pump(self, source: socket.socket, target: socket.socket, most: int, *, counted: bool) -> None:
        done = 0
        with contextlib.suppress(OSError):
            while done < most and (data := source.recv(1 << 16)):
                target.sendall(data)
                done += len(data)
                self.sent += len(data) * counted
        _shut(source)
        _shut(target)


def _shut(one: socket.socket) -> None:
    with contextlib.suppress(OSError):
        one.shutdown(socket.SHUT_RDWR)


def large(source: Machine, spec: InstanceSpec, size: int = 12) -> SentGuest:
    """A root disk with ``size`` MiB of random data."""
    disk, data = source._folder(spec.uuid).root_disk, source.folder / "data"
    data.write_bytes(os.urandom(size * MIB))
    qemu_img("convert", "-q", "-f", "raw", "-O", "qcow2", str(data), str(disk))
    return SentGuest((SentFile("root", disk),), None)


def test_a_copy_that_is_cut_continues_where_it_was(
    hosts: tuple[Machine, Machine], spec: InstanceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = hosts
    monkeypatch.setattr(disk_transfer, "PAUSES", (0.0, 0.0, 0.0))
    monkeypatch.setattr(disk_transfer, "PIECE", MIB)
    origin = one.transfer.export(spec.uuid, large(one, spec), two.id)
    cuts = [10**9, 10**9, 600_000, 300_000, 10**9, 10**9, 10**9, 500_000]
    amounts: list[progress.Amount] = []
    with Relay(origin.port, broken_after=cuts) as relay, progress.heard_by(lambda: None, amounts.append):
        disk = two.receive(spec, replace(origin, address="127.0.0.1", port=relay.port), None)
    source = one.disk(spec).root_disk
    size = source.stat().st_size
    assert relay.connections == -(-size // MIB) + 3
    assert size < relay.sent < size + 3 * MIB + MIB, "each cut costs one piece at most"
    assert subprocess.run(["qemu-img", "compare", "-q", str(source), str(disk)], timeout=60).returncode == 0
    assert [amount.done for amount in amounts] == sorted(amount.done for amount in amounts)
    assert {amount.total for amount in amounts} <= {size}


# ----- agents that die ------------------------------------------------------------------------------------------------


class Killed(BaseException):
    """The agent was killed here."""


@pytest.fixture
def copied(monkeypatch: pytest.MonkeyPatch) -> list[range]:
    """The pieces of 1 MiB that were copied completely."""
    done, copy = list[range](), copying.fetch_piece

    def fetch_piece(origin: VolumeConnection, certificates: Any, path: Path, piece: range, *rest: Any) -> None:
        copy(origin, certificates, path, piece, *rest)
        done.append(piece)

    monkeypatch.setattr(copying, "fetch_piece", fetch_piece)
    monkeypatch.setattr(disk_transfer, "PIECE", MIB)
    return done


@contextlib.contextmanager
def killed_in(number: int) -> Iterator[None]:
    """Let the agent be killed in the middle of the piece with this number."""
    copy, left = copying.fetch_piece, [number]

    def fetch_piece(origin: VolumeConnection, certificates: Any, path: Path, piece: range, *rest: Any) -> None:
        if not left[0]:
            copy(origin, certificates, path, piece[: len(piece) // 1024 * 512], *rest)
            raise Killed
        left[0] -= 1
        copy(origin, certificates, path, piece, *rest)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(copying, "fetch_piece", fetch_piece)
        yield


def two_disks(source: Machine, spec: InstanceSpec) -> SentGuest:
    """A root disk of 3 MiB of data and an empty disk with 2 MiB."""
    sent, other = large(source, spec, 3), source._folder(spec.uuid).local_disk(0)
    other.write_bytes(os.urandom(2 * MIB))
    return SentGuest((*sent.files, SentFile("local-0", other)), None)


def same(one: Machine, two: Machine, spec: InstanceSpec) -> bool:
    sent, received = one.disk(spec), two.disk(spec)
    words = ("qemu-img", "compare", "-q", str(sent.root_disk), str(received.root_disk))
    equal = subprocess.run(words, timeout=60, check=False).returncode == 0
    return equal and sent.local_disk(0).read_bytes() == received.local_disk(0).read_bytes()


def test_a_copy_continues_after_the_agent_was_killed_in_each_piece(
    hosts: tuple[Machine, Machine], spec: InstanceSpec, copied: list[range]
) -> None:
    one, two = hosts
    spec = replace(spec, local_disks=[LocalDisk(size_mb=2)])
    origin = replace(one.transfer.export(spec.uuid, two_disks(one, spec), two.id), address="127.0.0.1")
    pieces = sum(-(-disk.size // MIB) for disk in origin.disks)
    for _ in range(pieces):
        with killed_in(1), contextlib.suppress(Killed):
            two.receive(spec, origin, None)
    assert len(copied) == pieces + pieces - 1, "one half piece is repeated after each kill"
    copied.clear()
    two.receive(spec, origin, None)
    assert copied == []
    assert same(one, two, spec)


@pytest.mark.deep
@pytest.mark.parametrize("place", ["_check_header", "_info"])
def test_complete_disks_are_not_copied_again(
    hosts: tuple[Machine, Machine],
    spec: InstanceSpec,
    copied: list[range],
    monkeypatch: pytest.MonkeyPatch,
    place: str,
) -> None:
    one, two = hosts
    spec = replace(spec, local_disks=[LocalDisk(size_mb=2)])
    origin = replace(one.transfer.export(spec.uuid, two_disks(one, spec), two.id), address="127.0.0.1")

    def die(*_: object) -> None:
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(f"compute_agent.virt.libvirt.moving.{place}", die)
        with pytest.raises(Killed):
            two.receive(spec, origin, None)
    two.receive(spec, origin, None)
    assert len(copied) == sum(-(-disk.size // MIB) for disk in origin.disks)
    assert same(one, two, spec)


@pytest.mark.deep
@pytest.mark.parametrize("other", ["move", "journal"])
def test_an_old_part_of_a_copy_is_not_used(
    hosts: tuple[Machine, Machine], spec: InstanceSpec, copied: list[range], other: str
) -> None:
    """After another move the guest has written to its disk."""
    one, two = hosts
    sent = large(one, spec, 3)
    origin = replace(one.transfer.export(spec.uuid, sent, two.id), address="127.0.0.1")
    with killed_in(2), pytest.raises(Killed):
        two.receive(spec, origin, None)
    one.transfer.end(spec.uuid)
    write(sent.files[0].path, "write -P 0xbb 0 64k")
    origin = replace(one.transfer.export(spec.uuid, sent, two.id), address="127.0.0.1")
    if other == "journal":
        for journal in two.disk(spec).folder.glob("*.json"):
            journal.write_bytes(b"{")
    disk = two.receive(spec, origin, None, attempt=3 if other == "move" else 2)
    assert reads(disk, "read -P 0xbb 0 64k")


def test_a_copy_to_a_full_disk_fails_at_the_first_attempt(
    hosts: tuple[Machine, Machine], spec: InstanceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = hosts
    attempts = list[str]()

    def fill(*words: str, **_: object) -> None:
        attempts.append(words[0])
        raise ProgramError("qemu-img exited with 1: error while writing at byte 0: No space left on device")

    monkeypatch.setattr(copying, "run_long", fill)
    disks, name = [SentDisk(name="root", size=MIB)], one.certificates.tls_hostname
    origin = GuestOrigin(disks=disks, port=1, address="127.0.0.1", tls_hostname=name)
    with pytest.raises(NoSpaceError, match="no space left"):
        two.receive(spec, origin, None)
    assert attempts == ["qemu-img"]


@pytest.mark.deep
def test_a_received_disk_is_stored_before_it_is_used(
    hosts: tuple[Machine, Machine], spec: InstanceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other host confirmed the guest's writes, and removes its copy when the move is confirmed."""
    one, two = hosts
    origin = replace(one.transfer.export(spec.uuid, large(one, spec, 3), two.id), address="127.0.0.1")
    stored = dict[int, int]()

    def noted(descriptor: int) -> None:
        status = os.fstat(descriptor)
        stored[status.st_ino] = status.st_blocks * 512

    monkeypatch.setattr(os, "fsync", noted)
    disk = two.receive(spec, origin, None)
    assert stored[disk.stat().st_ino] >= 3 * MIB


@pytest.mark.deep
def test_a_daemon_need_not_search_for_a_group(hosts: tuple[Machine, Machine], spec: InstanceSpec) -> None:
    one, two = hosts
    one.transfer.export(spec.uuid, made(one, spec), two.id)
    [group] = (one.folder / "v").glob("*/tls/dh-params.pem")
    subprocess.run(["openssl", "dhparam", "-in", str(group), "-check", "-noout"], check=True, capture_output=True)


def test_data_is_on_the_disk_before_it_is_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So that a copy continues after a restart of the machine, which loses the data that is only in memory."""
    disk, stored = tmp_path / "root.received", list[tuple[str, int]]()
    journal = CopyJournal(disk, "a copy")
    disk.write_bytes(b"data")
    monkeypatch.setattr(
        os, "fsync", lambda number: stored.append((Path(f"/proc/self/fd/{number}").readlink().name, journal.done()))
    )
    journal.record(4)
    assert [(name, done) for name, done in stored if name == disk.name] == [(disk.name, 0)]
    assert CopyJournal(disk, "a copy").done() == 4


@pytest.mark.deep
def test_a_disk_that_the_new_flavor_has_no_room_for_leaves_nothing(
    hosts: tuple[Machine, Machine], spec: InstanceSpec
) -> None:
    one, two = hosts
    spec = replace(spec, local_disks=[LocalDisk(size_mb=2)])
    origin = replace(one.transfer.export(spec.uuid, two_disks(one, spec), two.id), address="127.0.0.1")
    smaller = replace(spec, local_disks=[LocalDisk(size_mb=1)])
    for _ in range(2):  # the second time, as a new process of the agent does
        two.receive(smaller, origin, None)
    assert two.disk(spec).local_disk(0).stat().st_size == MIB
    assert not list(two.disk(spec).folder.glob("*.received"))


@pytest.mark.deep
def test_a_whole_content_is_copied_again_only_if_it_was_incomplete(
    hosts: tuple[Machine, Machine], spec: InstanceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = hosts
    origin = replace(one.transfer.export(spec.uuid, made(one, spec), two.id), address="127.0.0.1")
    disk, copies = two.receive(spec, origin, None), list[Path]()
    monkeypatch.setattr(copying, "fetch_file", lambda *words: copies.append(words[2]))
    assert two.receive(spec, origin, None) == disk
    assert (copies, reads(disk, *DATA)) == ([], True)


@pytest.mark.deep
def test_a_network_that_stays_away_ends_the_copy(
    hosts: tuple[Machine, Machine], spec: InstanceSpec, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = hosts
    monkeypatch.setattr(disk_transfer, "PAUSES", (0.0, 0.0, 0.0))
    monkeypatch.setattr(disk_transfer, "PIECE", MIB)
    origin = one.transfer.export(spec.uuid, large(one, spec), two.id)
    with Relay(origin.port, broken_after=[10**9, 10**9, *[0] * 50]) as relay, pytest.raises(CopyFailedError):
        two.receive(spec, replace(origin, address="127.0.0.1", port=relay.port), None)
    assert relay.connections == 2 + 4
    assert not two.disk(spec).root_disk.exists()
    assert one.disk(spec).root_disk.exists()


def test_a_disk_that_names_another_file_is_refused(hosts: tuple[Machine, Machine], spec: InstanceSpec) -> None:
    one, two = hosts
    secret = two.folder / "secret"
    secret.write_bytes(b"x" * MIB)
    two.base.write_bytes(b"x" * MIB)
    disk = one._folder(spec.uuid).root_disk
    qemu_img("create", "-q", "-f", "qcow2", "-b", str(secret), "-F", "raw", str(disk), "1G")
    sent = SentGuest((SentFile("root", disk),), None)
    origin = replace(one.transfer.export(spec.uuid, sent, two.id), address="127.0.0.1")
    with pytest.raises(ImageUnacceptableError):
        two.receive(spec, origin, two.base)
    assert not two.disk(spec).root_disk.exists()


@pytest.mark.deep
def test_daemons_that_start_at_once_get_different_ports(hosts: tuple[Machine, Machine]) -> None:
    """The port of a daemon is free until the daemon listens."""
    (first, _), daemons = hosts[0].daemons._address.ports, hosts[0].daemons
    given = [daemons._free_port() for _ in range(40)]
    assert sorted(given) == [first + number for number in range(40)]
    assert daemons._free_port() == given[0]
