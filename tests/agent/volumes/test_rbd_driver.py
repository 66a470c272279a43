"""What the driver for Ceph does in its own way: images that are cloned, clients that are shut out, an OSD that dies."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import uuid
from base64 import b64encode
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from dataclasses import replace as replace_settings
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import ImageRef
from compute_agent.contract.volume import ROOT, VolumeClient, VolumeEncryption, VolumeSource, VolumeSpec
from compute_agent.virt.driver import never
from compute_agent.virt.errors import ImageFetchError, ImageUnacceptableError
from compute_agent.virt.processes.processes import kill, read_pid
from compute_agent.volumes import drivers, services
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.daemons.export_address import Address
from compute_agent.volumes.driver import GIB, Opening, PoolSettings
from compute_agent.volumes.drivers.rbd import VOLUME, RbdDriver
from compute_agent.volumes.errors import PoolUnavailableError, VolumeInUseError, VolumeNotFoundError
from compute_agent.volumes.rbd.bases import BASE, IMAGE
from compute_agent.volumes.services import Outside, Volumes
from tests.agent.volumes.conftest import Pool, qemu_io
from tests.support.ceph import CephForTests
from tests.support.one_machine import wait_for

MIB = 1 << 20
KEY = b64encode(b"k" * 32).decode()

pytestmark = pytest.mark.ceph


@pytest.fixture
def driver(ceph: CephForTests) -> Iterator[RbdDriver]:
    made = drivers.make(PoolSettings("ceph", "rbd", f"{ceph.pool}?conf={ceph.conf}&id={ceph.client}", "host-1"))
    assert isinstance(made, RbdDriver)
    yield made
    for image in made.images.names():
        if image.startswith((VOLUME, IMAGE)):
            made.images.remove(image)
    while made.images.sweep((VOLUME, IMAGE)):
        pass


def spec(size_gb: int = 1, key: str = "") -> VolumeSpec:
    encryption = VolumeEncryption(key=key) if key else None
    return VolumeSpec(id=str(uuid.uuid4()), pool_id="", size_gb=size_gb, encryption=encryption)


def command(opening: Opening, *commands: str) -> list[str]:
    words = [word for each in commands for word in ("-c", each)]
    secrets = [
        word
        for each in opening.objects
        for word in ("--object", f"secret,id={each['id']},format=base64,data={each['data']}")
    ]
    read_only = ["-r"] if opening.blockdev.get("read-only") else []
    return ["qemu-io", *secrets, *read_only, "-t", "writeback", *words, "json:" + json.dumps(dict(opening.blockdev))]


def io(opening: Opening, *commands: str) -> str:
    done = subprocess.run(command(opening, *commands), capture_output=True, text=True, timeout=60)
    return done.stdout + done.stderr


def holds(opening: Opening, pattern: int, offset: int, length: int = MIB) -> bool:
    output = io(opening, f"read -P {pattern} {offset} {length}")
    return f"read {length}/{length}" in output and "failed" not in output


def image_file(folder: Path, pattern: bytes = b"\7") -> Path:
    """A file as the image cache has it, of other bits in each test."""
    path = folder / f"sha512-{uuid.uuid4().hex * 4}"
    path.write_bytes(pattern * MIB)
    return path


def test_volumes_of_an_image_are_clones_of_one_that_is_imported_once(driver: RbdDriver, tmp_path: Path) -> None:
    image = image_file(tmp_path)
    first, second = spec(), spec(2)
    for _ in range(2):
        driver.create_from_image(first, image)
    image.write_bytes(b"\x08" * MIB)
    driver.create_from_image(second, image)
    assert holds(driver.opening(second), 7, 0)
    assert holds(driver.opening(second), 0, MIB)
    assert (driver.size(first.id), driver.size(second.id)) == (GIB, 2 * GIB)
    assert [name for name in driver.images.names() if name.startswith(IMAGE)] == [
        name for name, snapshots in driver.images.all_snapshots().items() if [*snapshots] == [BASE]
    ]
    with image.open("r+b") as file:
        file.truncate(GIB + 512)
    with pytest.raises(ImageUnacceptableError):
        driver.create_from_image(spec(), image)
    assert {each.id for each in driver.contents()} == {first.id, second.id}


@pytest.mark.deep
def test_what_a_host_did_not_finish_is_swept_by_itself_alone(driver: RbdDriver, ceph: CephForTests) -> None:
    other = RbdDriver(PoolSettings("ceph", "rbd", driver.settings.location, "host-2"))
    for each in (driver, other):
        driver.images.create(f"{IMAGE}x{each._bases.unfinished}", MIB)
    assert driver.contents() == []
    assert driver.sweep() == [f"{IMAGE}x{driver._bases.unfinished}"]
    assert other.sweep() == [f"{IMAGE}x{other._bases.unfinished}"]


@pytest.mark.deep
def test_an_image_of_the_cloud_without_clones_goes_after_a_while(
    driver: RbdDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    volume = spec()
    driver.create_from_image(volume, image_file(tmp_path))
    monkeypatch.setattr("compute_agent.volumes.rbd.bases.KEPT_UNUSED", -60.0)
    assert driver.sweep() == []
    driver.delete(volume.id)
    monkeypatch.setattr("compute_agent.volumes.rbd.bases.KEPT_UNUSED", 60.0)
    assert driver.sweep() == []
    monkeypatch.setattr("compute_agent.volumes.rbd.bases.KEPT_UNUSED", -60.0)
    assert len(driver.sweep()) == 1


class Unreachable:
    """An image cache to which nothing comes."""

    def get(self, image: ImageRef, *_: Any) -> Any:
        raise ImageFetchError("The image could not be fetched.")


@pytest.mark.deep
def test_a_second_host_makes_a_volume_of_an_image_of_the_pool_without_fetching_it(
    driver: RbdDriver, daemons: Daemons, tmp_path: Path
) -> None:
    other = RbdDriver(PoolSettings("ceph", "rbd", driver.settings.location, "host-2"))
    volumes = Volumes([other], daemons, Outside(Unreachable()))
    (state,) = wait_for("the pool answers", volumes.states)
    path = image_file(tmp_path)
    image = ImageRef(id="i", name="i", disk_format="raw", size=MIB, hash_algo="sha512", hash_value=path.name[7:])
    requested = [replace(spec(2), pool_id=state.id), replace(spec(key=KEY), pool_id=state.id)]
    for volume in requested:
        with pytest.raises(ImageFetchError):
            volumes.create(volume, VolumeSource(image=image), never)
    driver.create_from_image(spec(), path)
    volumes.create(requested[0], VolumeSource(image=image), never)
    assert holds(other.opening(requested[0]), 7, 0)
    assert other.size(requested[0].id) == 2 * GIB
    with pytest.raises(ImageFetchError):
        volumes.create(requested[1], VolumeSource(image=image), never)  # it is encrypted here


@pytest.mark.deep
def test_hosts_that_use_and_remove_one_image_at_once_leave_every_volume_whole(
    driver: RbdDriver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compute_agent.volumes.rbd.bases.KEPT_UNUSED", -60.0)
    hosts = [RbdDriver(PoolSettings("ceph", "rbd", driver.settings.location, name)) for name in ("host-2", "host-3")]
    path, made, done = image_file(tmp_path), [], threading.Event()

    def make(host: RbdDriver) -> None:
        for _ in range(4):
            volume = spec()
            host.create_from_image(volume, path)
            assert holds(host.opening(volume), 7, 0)
            host.delete(volume.id)
        kept = spec()
        host.create_from_image(kept, path)
        made.append(kept)

    def prune() -> None:
        while not done.is_set():
            driver.prune()

    with ThreadPoolExecutor(3) as pool:
        pruning = pool.submit(prune)
        making = [pool.submit(make, host) for host in hosts]
        try:
            for each in making:
                each.result(240)
        finally:
            done.set()
        pruning.result(60)
    for volume in made:
        assert holds(driver.opening(volume), 7, 0)
        driver.delete(volume.id)
    driver.prune()
    driver.prune()
    assert driver.images.names() == []
    assert driver.images.trash() == {}


@pytest.mark.deep
def test_an_encrypted_volume_is_noise_to_the_cluster(driver: RbdDriver, tmp_path: Path) -> None:
    volume = spec(key=KEY)
    driver.create_from_image(volume, image_file(tmp_path))
    assert driver.size(volume.id) == GIB
    driver.snapshot(volume, "s1")
    io(driver.opening(volume), f"write -P 9 0 {MIB}")
    clone = VolumeSpec(id=str(uuid.uuid4()), pool_id="", size_gb=2, encryption=volume.encryption)
    driver.create_from_snapshot(clone, volume.id, "s1")
    assert driver.size(clone.id) == 2 * GIB
    assert holds(driver.opening(clone), 7, 0)
    assert holds(driver.snapshot_opening(volume, "s1"), 7, 0)
    assert holds(driver.opening(volume), 9, 0)
    assert [each for each in driver.changes(volume, "s1") if each.offset == 0]
    plain = VolumeSpec(id=volume.id, pool_id="", size_gb=1)
    output = io(driver.opening(plain), *(f"read -P 9 {offset}k 4k" for offset in range(0, 4096, 64)))
    assert output.count("verification failed") == 64
    wrong = VolumeSpec(id=volume.id, pool_id="", size_gb=1, encryption=VolumeEncryption(key=b64encode(b"x").decode()))
    assert not holds(driver.opening(wrong), 9, 0)


def test_changes_since_a_snapshot_are_what_was_written(driver: RbdDriver) -> None:
    volume = spec()
    driver.create(volume)
    io(driver.opening(volume), f"write -P 1 0 {8 * MIB}")
    driver.snapshot(volume, "b1")
    io(driver.opening(volume), f"write -P 2 {32 * MIB} {MIB}", f"discard 0 {4 * MIB}")
    driver.snapshot(volume, "b2")
    assert [tuple(each) for each in driver.changes(volume, "b1")] == [(0, 8 * MIB, False)]
    result = driver.changes(volume, "b2", "b1")
    assert (0, True) in [(each.offset, each.zero) for each in result]
    assert (32 * MIB, False) in [(each.offset, each.zero) for each in result]
    assert sum(each.length for each in result) <= 8 * MIB
    for call in (lambda: driver.changes(volume, "b2", "b0"), lambda: driver.size("none")):
        with pytest.raises(VolumeNotFoundError):
            call()


def test_a_volume_is_taken_once_on_a_host_and_by_another_only_with_the_first_shut_out(driver: RbdDriver) -> None:
    other = RbdDriver(PoolSettings("ceph", "rbd", driver.settings.location, "host-2"))
    volume = spec()
    driver.create(volume)
    held = driver.hold(volume.id)
    for call in (lambda: driver.hold(volume.id), lambda: driver.delete(volume.id)):
        with pytest.raises(VolumeInUseError):
            call()
    words = command(driver.opening(volume))
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as first:
        assert first.stdin is not None
        assert first.stdout is not None
        first.stdin.write(b"write -P 1 0 1M\nflush\n")
        first.stdin.flush()
        first.stdout.readline()
        for descriptor in other.hold(volume.id):
            os.close(descriptor)
        assert holds(other.opening(volume), 1, 0)
        output, _ = first.communicate(b"write -P 2 0 1M\nflush\nquit\n", timeout=60)
    assert b"failed" in output
    assert holds(other.opening(volume), 1, 0)
    for descriptor in held:
        os.close(descriptor)
    with pytest.raises(VolumeNotFoundError):
        driver.hold("none")


@pytest.mark.deep
def test_a_host_that_was_cut_off_does_not_take_a_volume_back(driver: RbdDriver, daemons: Daemons, short: Path) -> None:
    volume, client = spec(), VolumeClient(attachment_id="a", host_id="h", local=True)
    driver.create(volume)
    daemons.connect(driver, volume, [client])
    elsewhere = Daemons(short / "run2", short / "sockets2", Address(lambda: "127.0.0.1"), short / "kept2")
    other = RbdDriver(replace_settings(driver.settings, host="host-2"))
    try:
        reached = elsewhere.connect(other, volume, [client])
        pid = read_pid(daemons.runtime / volume.id / "pid")
        assert pid is not None
        kill(pid)
        before = daemons.description(volume.id)
        assert before is not None
        with pytest.raises(VolumeInUseError):
            daemons.repair(driver, before)
        uri = f"nbd+unix:///{reached.export}?socket={reached.socket}"
        assert "wrote 4096/4096" in qemu_io(uri, "write -P 5 0 4096")
        daemons.connect(driver, volume, [client])  # the portal's word counts
        assert daemons.runs(volume.id)
        assert "failed" in qemu_io(uri, "write -f -P 6 0 4096")
    finally:
        elsewhere.end_all()


@dataclass
class Joined:
    """A volume that two hosts have open, as in a live migration: its daemons, drivers, ids and URIs."""

    daemons: tuple[Daemons, Daemons]
    drivers: tuple[RbdDriver, RbdDriver]
    ids: tuple[str, str]
    uris: tuple[str, str]

    def io(self, place: int, text: str) -> str:
        return qemu_io(self.uris[place], text)

    def is_repaired(self, place: int) -> bool:
        """Kill a daemon, and let its host start it again."""
        pid = read_pid(self.daemons[place].runtime / self.ids[place] / "pid")
        assert pid is not None
        kill(pid)
        before = self.daemons[place].description(self.ids[place])
        assert before is not None
        return self.daemons[place].repair(self.drivers[place], before)


@pytest.fixture
def joined(driver: RbdDriver, daemons: Daemons, short: Path) -> Iterator[Joined]:
    volume = replace(spec(), id=f"{ROOT}{uuid.uuid4()}")
    client = VolumeClient(attachment_id="a", host_id="", local=True)
    there = replace(volume, id=f"{volume.id}-there")
    elsewhere = Daemons(short / "run2", short / "sockets2", Address(lambda: "127.0.0.1"), short / "kept2")
    other = RbdDriver(replace_settings(driver.settings, host="host-2"))
    driver.create(volume)
    try:
        found = daemons.connect(driver, volume, [client]), elsewhere.join(other, there, volume.id, client)
        first, second = (f"nbd+unix:///{each.export}?socket={each.socket}" for each in found)
        yield Joined((daemons, elsewhere), (driver, other), (volume.id, there.id), (first, second))
    finally:
        elsewhere.end_all()


@pytest.mark.deep
def test_a_second_host_that_has_joined_a_volume_acquires_it(joined: Joined) -> None:
    """The guest writes through the first host, and then through the second."""
    assert "wrote 4096/4096" in joined.io(0, "write -P 1 0 4096")
    assert joined.is_repaired(0)  # which does not block the second one
    assert "wrote 4096/4096" in joined.io(0, "write -P 2 0 4096")
    assert "read 4096/4096" in joined.io(1, "read -P 2 0 4096")
    assert "wrote 4096/4096" in joined.io(1, "write -P 3 0 4096")
    (driver, other), (old, new) = joined.drivers, joined.ids
    other.acquire(old, new)
    assert driver.names() == [new]
    assert "failed" in joined.io(0, "write -f -P 4 0 4096")
    assert "wrote 4096/4096" in joined.io(1, "write -P 5 0 4096")
    with pytest.raises(VolumeNotFoundError):
        joined.is_repaired(0)
    assert joined.is_repaired(1)
    assert "read 4096/4096" in joined.io(1, "read -P 5 0 4096")


@pytest.mark.deep
def test_a_host_that_has_joined_a_volume_is_expelled(joined: Joined) -> None:
    assert "wrote 4096/4096" in joined.io(1, "write -P 1 0 4096")
    (driver, other), (old, new) = joined.drivers, joined.ids
    assert driver.is_joined(old)
    assert not other.is_joined(old)
    with joined.daemons[0].paused(driver, old):
        driver.expel(old)
    assert not driver.is_joined(old)
    assert "failed" in joined.io(1, "write -f -P 2 0 4096")
    assert "read 4096/4096" in joined.io(0, "read -P 1 0 4096")
    assert "wrote 4096/4096" in joined.io(0, "write -P 3 0 4096")
    with pytest.raises(VolumeInUseError):
        other.acquire(old, new)


@pytest.mark.deep
def test_a_host_that_opens_a_root_disk_alone_ends_the_join(joined: Joined) -> None:
    """The guest was evacuated, or has returned, before the host that has joined it could acquire its disk."""
    (driver, other), (old, new) = joined.drivers, joined.ids
    joined.daemons[0].disconnect(old)
    for descriptor in driver.hold(old):
        os.close(descriptor)
    with pytest.raises(VolumeInUseError):
        other.acquire(old, new)
    assert driver.names() == [old]


@pytest.mark.deep
def test_no_write_is_lost_when_the_osd_is_killed_under_it(driver: RbdDriver, ceph: CephForTests) -> None:
    volume = spec()
    driver.create(volume)
    blocks = 200
    writes = [f"write -P {1 + number % 250} {number * 300}k 64k" for number in range(blocks)]
    with subprocess.Popen(
        command(driver.opening(volume)), stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    ) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        writer.stdin.write("\n".join([*(f"{each}\nflush" for each in writes[: blocks // 2]), ""]).encode())
        writer.stdin.flush()
        writer.stdout.readline()
        killed = ceph.pid("osd.0")
        os.kill(killed, signal.SIGKILL)
        rest = "\n".join([*(f"{each}\nflush" for each in writes[blocks // 2 :]), "quit", ""])
        output, _ = writer.communicate(rest.encode(), timeout=120)
    assert b"failed" not in output
    assert ceph.pid("osd.0") != killed
    read_back = io(driver.opening(volume), *(each.replace("write", "read") for each in writes))
    assert read_back.count("read 65536/65536") == blocks
    assert "failed" not in read_back


@pytest.mark.deep
@pytest.mark.parametrize("pool", ["rbd"], indirect=True)
def test_a_daemon_that_is_killed_loses_no_write_it_has_answered(pool: Pool) -> None:
    volume = pool.make()
    client = VolumeClient(attachment_id="a", host_id="h", local=True)
    connection = pool.daemons.connect(pool.driver, volume, [client])
    reach = f"nbd+unix:///{connection.export}?socket={connection.socket}"
    words = ["stdbuf", "-oL", "qemu-io", "-t", "writeback", "-f", "raw", reach]
    places = [f"90 {number * 300}k 4k" for number in range(64)]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdin is not None
        assert writer.stdout is not None
        for place in places:
            writer.stdin.write(f"write -P {place}\n")
            writer.stdin.flush()
            while "wrote 4096" not in (line := writer.stdout.readline()):
                assert line, "it has ended"
        pid = read_pid(pool.daemons.runtime / volume.id / "pid")
        assert pid is not None
        assert kill(pid)
        writer.kill()
    (description,) = pool.daemons.descriptions()
    assert pool.daemons.repair(pool.driver, description)
    output = qemu_io(reach, *(f"read -P {place}" for place in places))
    assert output.count("read 4096/4096") == len(places)
    assert "failed" not in output


def test_a_host_without_the_configuration_says_so(tmp_path: Path) -> None:
    with pytest.raises(PoolUnavailableError, match=r"ceph\.conf"):
        RbdDriver(PoolSettings("ceph", "rbd", f"volumes?conf={tmp_path}/ceph.conf", "host-1")).prepare()


@pytest.mark.deep
def test_clones_of_clones_keep_no_chain_of_deleted_volumes(driver: RbdDriver, daemons: Daemons) -> None:
    volumes = Volumes([driver], daemons, Outside(None))  # type: ignore[arg-type]
    (state,) = volumes.states()
    volume = replace(spec(), pool_id=state.id)
    volumes.create(volume, VolumeSource(), never)
    for number in range(3):
        assert "failed" not in io(driver.opening(volume), f"write -P {number + 1} {number * MIB} {MIB}")
        volumes.snapshot(volume, "s")
        clone = replace(spec(), pool_id=state.id)
        volumes.create(clone, VolumeSource(volume_id=volume.id, snapshot_id="s"), never)
        volumes.delete_snapshot(volume, "s", never)
        volumes.delete(volume)
        assert volumes.kept_of(volume) >= MIB, "measured in whole objects as it goes to the trash"
        volume = clone
    assert len(driver.kept()) == 3
    assert set(RbdDriver(driver.settings).kept().values()) == {0}, "another host cannot measure it"
    assert driver.crowded() == [volume.id]
    volumes.flatten(state.id)
    assert driver.crowded() == []
    assert driver.kept() == {}
    assert driver.depth(volume.id) == 0
    assert not any(name.startswith(VOLUME) for name in driver.images.trash().values())
    assert all(holds(driver.opening(volume), number + 1, number * MIB) for number in range(3))


@pytest.mark.deep
def test_a_clone_is_one_of_few_living_volumes(
    driver: RbdDriver, daemons: Daemons, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(services, "MOST_DEPTH", 2)
    volumes = Volumes([driver], daemons, Outside(None))  # type: ignore[arg-type]
    (state,) = volumes.states()
    chain = [replace(spec(), pool_id=state.id)]
    volumes.create(chain[0], VolumeSource(), never)
    assert "failed" not in io(driver.opening(chain[0]), f"write -P 5 0 {MIB}")
    for _ in range(3):
        volumes.snapshot(chain[-1], "s")
        clone = replace(spec(), pool_id=state.id)
        volumes.create(clone, VolumeSource(volume_id=chain[-1].id, snapshot_id="s"), never)
        chain.append(clone)
    assert [driver.depth(each.id) for each in chain] == [0, 1, 2, 0]
    assert holds(driver.opening(chain[-1]), 5, 0)
    for each in reversed(chain):
        volumes.delete(each)
