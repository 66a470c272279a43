"""Volumes that are cloned and deleted again and again: what the deleted ones leave in the pool is bounded."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
import uuid
from base64 import b64encode
from pathlib import Path
from typing import Any

import pytest

from compute_agent.contract.build import VolumeConnection
from compute_agent.contract.volume import VolumeClient, VolumeEncryption, VolumeSource, VolumeSpec
from compute_agent.virt.driver import never
from compute_agent.virt.errors import StoppedError
from compute_agent.virt.processes import processes
from compute_agent.volumes import drivers, services
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.daemons.export_address import Address
from compute_agent.volumes.driver import PoolCapacity, PoolSettings
from compute_agent.volumes.files import flattening
from compute_agent.volumes.files.qcow2 import Qcow2Driver
from compute_agent.volumes.services import Outside, Volumes
from tests.agent.volumes.conftest import MIB, qemu_io
from tests.agent.volumes.test_killed_agent import die_at, running
from tests.support.landing import first_of_each, rounds

CLIENT = VolumeClient(attachment_id="a", host_id="h", local=True)
KEY = b64encode(b"k" * 32).decode()
ROUNDS = 8


class Host:
    """The volumes of one host with one pool of files."""

    def __init__(self, folder: Path, name: str = "host-1", kind: str = "dir") -> None:
        daemons = Daemons(folder / name / "run", folder / name / "s", Address(lambda: "127.0.0.1"), folder / name / "k")
        driver = drivers.make(PoolSettings("local", kind, str(folder / "pool"), name))
        assert isinstance(driver, Qcow2Driver)
        self.driver, self.daemons = driver, daemons
        self.volumes = Volumes([driver], daemons, Outside(None))  # type: ignore[arg-type]
        (state,) = self.volumes.states()
        self.pool_id = state.id

    def spec(self, key: str = "") -> VolumeSpec:
        encryption = VolumeEncryption(key=key) if key else None
        return VolumeSpec(id=str(uuid.uuid4()), pool_id=self.pool_id, size_gb=1, encryption=encryption)

    def create(self, source: VolumeSource | None = None, key: str = "") -> VolumeSpec:
        volume = self.spec(key)
        self.volumes.create(volume, source or VolumeSource(), never)
        return volume

    def clone(self, source: VolumeSpec, name: str) -> VolumeSpec:
        """Snapshot, clone, and delete the snapshot."""
        self.volumes.snapshot(source, name)
        key = source.encryption.key if source.encryption else ""
        clone = self.create(VolumeSource(volume_id=source.id, snapshot_id=name), key)
        self.volumes.delete_snapshot(source, name, never)
        return clone

    def open(self, volume: VolumeSpec) -> str:
        connection = self.volumes.connect(volume, [CLIENT])
        assert isinstance(connection, VolumeConnection)
        return f"nbd+unix:///{connection.export}?socket={connection.socket}"

    def io(self, volume: VolumeSpec, *commands: str) -> str:
        """Read and write, through the daemon that serves the volume or one for the moment."""
        was_open = self.daemons.description(volume.id) is not None
        output = qemu_io(self.open(volume), *commands)
        if not was_open:
            self.volumes.connect(volume, [])
        return output

    def write(self, volume: VolumeSpec, pattern: int, mib: int = 0) -> None:
        assert "failed" not in self.io(volume, f"write -P {pattern} {mib * MIB} {MIB}")

    def reads(self, volume: VolumeSpec, *patterns: int) -> bool:
        """Return whether the volume's first MiB have these patterns, one each."""
        output = self.io(volume, *(f"read -P {pattern} {at * MIB} {MIB}" for at, pattern in enumerate(patterns)))
        return "failed" not in output and output.count("bytes at offset") == len(patterns)

    def chain(self, volume: VolumeSpec) -> list[str]:
        return self.driver.layers.chain(f"{volume.id}/{self.driver.layers.get(volume.id).top}")

    def flatten(self) -> None:
        self.volumes.flatten(self.pool_id)

    @property
    def used(self) -> int:
        """Bytes that the pool's layers take."""
        return sum(path.stat().st_blocks * 512 for path in self.driver.layers.volumes.glob("*/*.qcow2"))


@pytest.fixture
def host(short: Path) -> Any:
    result = Host(short)
    yield result
    result.daemons.end_all()


@pytest.mark.slow
@pytest.mark.parametrize("opened", [pytest.param(False, marks=pytest.mark.deep), True], ids=["closed", "in use"])
def test_clones_of_clones_keep_no_data_of_deleted_volumes(host: Host, *, opened: bool) -> None:
    volume = host.create()
    for number in range(ROUNDS):
        if opened:
            host.open(volume)
        host.write(volume, number + 1)
        host.write(volume, number + 1, number + 1)
        clone = host.clone(volume, f"s{number}")
        if opened:
            host.open(clone)
        host.volumes.delete(volume)
        host.flatten()
        volume = clone
        assert len(host.chain(volume)) <= 5
    assert host.used < 3 * (ROUNDS + 2) * MIB
    assert len({name.partition("/")[0] for name in host.chain(volume)}) <= 2
    assert len(list(host.driver.layers.volumes.iterdir())) <= 2
    host.write(volume, 99)
    assert host.reads(volume, 99, *range(1, ROUNDS + 1))


@pytest.mark.deep
@pytest.mark.slow
@rounds(9, 20)
def test_what_deleted_volumes_keep_is_measured(host: Host, rounds: int) -> None:
    """Rounds of writing, cloning and deleting: all that the living volume does not have is said to be kept."""
    volume, most = host.create(), 0
    for number in range(rounds):
        host.write(volume, number + 1)
        clone = host.clone(volume, f"s{number}")
        host.volumes.delete(volume)
        size, volume = host.volumes.kept_of(volume), clone
        most = max(most, size)
        own = sum(path.stat().st_blocks * 512 for path in (host.driver.layers.volumes / volume.id).glob("*.qcow2"))
        (state,) = host.volumes.states()
        assert state.kept is not None
        assert sum(state.kept.values()) == host.used - own
    assert MIB <= most < 3 * MIB
    assert sum((state.kept or {}).values()) >= 2 * MIB, "a volume that reads more than five others has a copy of all"
    host.flatten()
    (state,) = host.volumes.states()
    assert sum((state.kept or {}).values()) <= 3 * MIB
    host.volumes.delete(volume)
    (state,) = host.volumes.states()
    assert state.kept == {}


@pytest.mark.deep
def test_a_closed_encrypted_volume_waits_until_it_is_in_use(host: Host) -> None:
    volume = host.create(key=KEY)
    for number in range(2):  # each layer's header takes QEMU seconds
        host.write(volume, number + 1, number)
        clone = host.clone(volume, f"s{number}")
        host.volumes.delete(volume)
        volume = clone
    before = host.chain(volume)
    host.flatten()
    assert host.chain(volume) == before
    host.open(volume)
    host.flatten()
    assert len(host.chain(volume)) < len(before)
    assert host.reads(volume, 1, 2)


@pytest.mark.deep
@pytest.mark.slow
def test_a_clone_reads_few_living_volumes(host: Host) -> None:
    chain = [host.create()]
    for number in range(services.MOST_DEPTH + 2):
        host.write(chain[-1], number + 1, number)
        host.volumes.snapshot(chain[-1], "s")
        chain.append(host.create(VolumeSource(volume_id=chain[-1].id, snapshot_id="s")))
        assert host.driver.depth(chain[-1].id) <= services.MOST_DEPTH
    assert host.driver.depth(chain[-1].id) == 1
    assert host.reads(chain[-1], *range(1, services.MOST_DEPTH + 3))
    host.write(chain[0], 77)
    assert host.reads(chain[-1], 1)


@pytest.mark.slow
def test_no_clone_fills_the_pool_by_a_copy(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(services, "MOST_DEPTH", 0)
    volume = host.create()
    host.write(volume, 1)
    monkeypatch.setattr(host.driver, "capacity", lambda: PoolCapacity(100 * MIB, 5 * MIB))
    with pytest.raises(services.PoolUnavailableError):
        host.clone(volume, "s")
    assert host.reads(volume, 1)


@pytest.mark.deep
@pytest.mark.slow
def test_layers_that_other_volumes_read_are_copied_into_the_one_they_share(host: Host) -> None:
    """A clone keeps what its source has written over; the source deletes its snapshots and makes others."""
    volume, clone = host.create(), None
    for number in range(5):
        host.write(volume, number + 1)
        host.write(volume, number + 1, number + 1)
        name = f"s{number}"
        host.volumes.snapshot(volume, name)
        new = host.create(VolumeSource(volume_id=volume.id, snapshot_id=name))
        host.volumes.delete_snapshot(volume, name, never)
        if clone is not None:
            host.volumes.delete(clone)
        clone = new
    assert clone is not None
    host.flatten()
    assert len(host.chain(volume)) <= 3
    assert host.reads(volume, 5, 1, 2, 3, 4, 5)
    assert host.reads(clone, 5, 1, 2, 3, 4, 5)


@pytest.mark.deep
@pytest.mark.slow
def test_what_another_host_has_open_waits(short: Path, host: Host) -> None:
    other = Host(short, "host-2")
    try:
        volume = host.create()
        for number in range(3):
            host.write(volume, number + 1, number)
            clone = host.clone(volume, f"s{number}")
            host.volumes.delete(volume)
            volume = clone
        before = host.chain(volume)
        other.open(volume)
        host.flatten()
        assert host.chain(volume) == before
        other.flatten()
        assert len(host.chain(volume)) < len(before)
        assert other.reads(volume, 1, 2, 3)
    finally:
        other.daemons.end_all()


@pytest.mark.slow
def test_copying_stops_for_whoever_wants_the_volume(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    volume = host.create()
    for number in range(3):
        host.write(volume, number + 1, number)
        clone = host.clone(volume, f"s{number}")
        host.volumes.delete(volume)
        volume = clone
    waiting = threading.Thread(target=lambda: host.volumes.snapshot(volume, "wanted"))
    known, stops = flattening.concluded, []

    def concluded(daemon: Any, job: str, stopped: Any) -> dict[str, Any]:
        waiting.start()
        while not stopped():
            pass
        stops.append(job)
        known(daemon, job, never)
        raise StoppedError("stopped")

    monkeypatch.setattr(flattening, "concluded", concluded)
    host.flatten()
    waiting.join()
    assert stops
    assert host.driver.snapshots(volume.id) == ["wanted"]
    assert host.reads(volume, 1, 2, 3)


PLACES = [
    ("files.qcow2:Qcow2Driver._follow", True),
    ("daemons.qmp:Qmp.execute@block-stream", True),
    ("files.flattening:concluded", True),
    ("files.flattening:dismissed", True),
    ("files.flattening:_save", True),
    ("files.qcow2:Qcow2Driver._collect_others", True),
    ("files.flattening:concluded", False),
    ("files.flattening:_save", False),
]


def be_killed(short: Path, place: str) -> None:
    host = Host(short)
    die_at(place)
    host.flatten()


@pytest.mark.slow
@pytest.mark.parametrize(("place", "opened"), first_of_each(PLACES, lambda row: row[0].partition(":")[0]))
def test_an_agent_killed_while_it_copies_leaves_a_whole_volume(short: Path, place: str, *, opened: bool) -> None:
    host = Host(short)
    try:
        volume = host.create()
        for number in range(3):
            host.write(volume, number + 1, number)
            clone = host.clone(volume, f"s{number}")
            host.volumes.delete(volume)
            volume = clone
        if opened:
            host.open(volume)
        process = multiprocessing.get_context("spawn").Process(target=be_killed, args=(short, place))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        host = Host(short)
        host.volumes.sweep()
        assert host.reads(volume, 1, 2, 3)
        host.flatten()
        assert host.reads(volume, 1, 2, 3)
        assert len({name.partition("/")[0] for name in host.chain(volume)}) <= 2
        if opened:
            for pid in running(short / "host-1"):
                os.kill(pid, signal.SIGKILL)
                processes.ended(pid, 5)
            host.volumes.check()
            assert host.reads(volume, 1, 2, 3)
    finally:
        host.daemons.end_all()
