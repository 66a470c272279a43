"""What every driver of volumes with real data keeps, by the data itself."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from base64 import b64encode
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import ImageRef
from compute_agent.contract.volume import VolumeClient, VolumeSpec
from compute_agent.virt.driver import never
from compute_agent.virt.errors import ImageUnacceptableError
from compute_agent.virt.processes import processes
from compute_agent.virt.processes.rights import Rights
from compute_agent.volumes import drivers
from compute_agent.volumes.daemons import daemon_process
from compute_agent.volumes.daemons.qmp import Qmp
from compute_agent.volumes.errors import NotExportedError, VolumeInUseError, VolumeNotFoundError
from compute_agent.volumes.files.unmanaged import UnmanageableError
from compute_agent.volumes.services import Outside, Volumes
from tests.agent.volumes.conftest import MIB, PATIENT, Pool, qemu_io

pytestmark = pytest.mark.slow

CLIENT = VolumeClient(attachment_id="a", host_id="h", local=True)
DEEP_DIR = pytest.param("dir", marks=pytest.mark.deep)
FILES = pytest.mark.parametrize("pool", ["nbd", "dir"], indirect=True)
"""For tests about files: the driver for Ceph has tests of its own."""
ONE_OF_FILES = pytest.mark.parametrize("pool", ["nbd", DEEP_DIR], indirect=True)
"""For long tests: both drivers of files share the code."""
ONE_OF_FILES_AND_CEPH = pytest.mark.parametrize(
    "pool", ["nbd", DEEP_DIR, pytest.param("rbd", marks=pytest.mark.ceph)], indirect=True
)
"""For tests that run on Ceph at landing: what a volume is, an image's clones, and one guest at a time."""
KEY = b64encode(b"k" * 32).decode()


def uri(pool: Pool, volume: VolumeSpec, clients: list[VolumeClient] | None = None) -> str:
    connection = pool.daemons.connect(pool.driver, volume, clients or [CLIENT])
    return f"nbd+unix:///{connection.export}?socket={connection.socket}"


def snapshot(pool: Pool, volume: VolumeSpec, name: str) -> None:
    with pool.daemons.opened(volume.id) as daemon:
        pool.driver.snapshot(volume, name, daemon)


def delete_snapshot(pool: Pool, volume: VolumeSpec, name: str) -> None:
    with pool.daemons.opened(volume.id) as daemon:
        pool.driver.delete_snapshot(volume, name, daemon)


def kill(pool: Pool, volume: VolumeSpec) -> None:
    pid = processes.read_pid(pool.daemons.runtime / volume.id / "pid")
    assert pid is not None
    assert processes.kill(pid, signal.SIGKILL)


def test_a_pool_keeps_its_id_and_measures_itself(pool: Pool) -> None:
    assert pool.driver.prepare() == pool.id
    capacity = pool.driver.capacity()
    assert 0 < capacity.free <= capacity.total


@ONE_OF_FILES_AND_CEPH
def test_a_volume_through_its_life(pool: Pool) -> None:
    volume = pool.make()
    pool.driver.create(volume)
    assert pool.reads(volume, 0, 0, 4 * MIB)
    pool.write(volume, 1)
    snapshot(pool, volume, "s1")
    snapshot(pool, volume, "s1")
    pool.write(volume, 2)
    clone = pool.spec(2)
    for _ in range(2):
        pool.driver.create_from_snapshot(clone, volume.id, "s1")
    assert pool.reads(clone, 1)
    assert pool.reads(clone, 0, (1 << 30) + MIB)
    assert pool.reads(volume, 2)
    assert pool.reads(volume, 1, snapshot="s1")
    pool.driver.revert(volume, "s1")
    assert pool.reads(volume, 1)
    for _ in range(2):
        delete_snapshot(pool, volume, "s1")
    pool.driver.delete(volume.id)
    assert pool.reads(clone, 1)
    assert {each.id for each in pool.driver.contents() if not each.gone} == {clone.id}
    pool.driver.delete(clone.id)
    pool.driver.delete(clone.id)
    assert pool.driver.contents() == []
    assert not list(pool.folder.glob("volumes/*"))


@pytest.mark.slow  # each header takes QEMU seconds
def test_an_encrypted_volume_is_not_readable_in_its_files(pool: Pool) -> None:
    volume = pool.make(key=KEY)
    pool.write(volume, 0x4E)
    assert pool.reads(volume, 0x4E)
    assert all(b"N" * 512 not in path.read_bytes() for path in pool.folder.rglob("*") if path.is_file())
    other = pool.spec(key=b64encode(b"x" * 32).decode(), volume_id=volume.id)
    with pytest.raises(Exception, match=r"(?i)daemon"):
        pool.io(other, "read 0 512")


@ONE_OF_FILES_AND_CEPH
def test_volumes_of_an_image_share_it_and_outlive_it(pool: Pool, tmp_path: Path) -> None:
    image = tmp_path / f"sha512-{'ab' * 32}"
    image.write_bytes(b"\x07" * MIB)
    first, second = pool.spec(), pool.spec()
    for volume in (first, second):
        pool.driver.create_from_image(volume, image)
    image.unlink()
    pool.write(first, 9)
    assert pool.reads(second, 7)
    assert pool.reads(second, 0, MIB, MIB)
    pool.driver.delete(first.id)
    assert pool.reads(second, 7)
    pool.driver.delete(second.id)
    assert not [path for path in pool.folder.glob("images/*") if path.name != "lock"]


@dataclass
class Cached:
    """An image cache with one image."""

    path: Path
    asked_for: list[str] = field(default_factory=list)

    def get(self, _image: object, subject_id: str, _stopped: object) -> Cached:
        self.asked_for.append(subject_id)
        return self


@pytest.mark.parametrize("key", ["", pytest.param(KEY, marks=pytest.mark.deep)], ids=["plain", "encrypted"])
def test_an_image_is_written_over_a_volume_and_its_snapshots_stay(pool: Pool, tmp_path: Path, key: str) -> None:
    image = tmp_path / "image"
    image.write_bytes(b"\x07" * MIB)
    volume = pool.make(key=key)
    pool.write(volume, 1, 0, 4 * MIB)
    snapshot(pool, volume, "s1")
    pool.write(volume, 2, 0, 4 * MIB)
    cached = Cached(image)
    volumes = Volumes([pool.driver], pool.daemons, Outside(cached, staging=tmp_path / "staging"))
    reference = ImageRef(id="i", name="i", disk_format="raw", size=MIB, hash_algo="sha512", hash_value="00" * 64)
    reach = uri(pool, volume)  # of a server that is stopped
    for _ in range(2):
        volumes.reimage(volume, reference, "command's", never)
    assert cached.asked_for == ["command's"] * 2
    output = qemu_io(reach, f"read -P 7 0 {MIB}", f"read -P 0 {MIB} {8 * MIB}")
    assert output.count("bytes at offset") == 2
    assert "failed" not in output
    pool.daemons.disconnect(volume.id)
    assert pool.reads(volume, 1, 0, 4 * MIB, snapshot="s1")
    os.truncate(image, (1 << 30) + 512)
    with pytest.raises(ImageUnacceptableError):
        volumes.reimage(volume, reference, "", never)
    assert pool.reads(volume, 7)
    assert list((tmp_path / "pool").rglob("*.part")) == []


def test_an_image_larger_than_the_volume_is_refused_and_leaves_nothing(pool: Pool, tmp_path: Path) -> None:
    image = tmp_path / f"sha512-{'ab' * 32}"
    with image.open("wb") as file:
        file.truncate((1 << 30) + 512)
    with pytest.raises(ImageUnacceptableError):
        pool.driver.create_from_image(pool.spec(), image)
    pool.driver.sweep()
    assert pool.driver.contents() == []


@pytest.mark.parametrize("opened", [False, True], ids=["closed", "open"])
def test_snapshots_are_deleted_in_any_order(pool: Pool, opened: bool) -> None:
    orders = list(itertools.permutations(("s1", "s2", "s3")))
    for order in orders if opened else orders[::3]:
        volume = pool.make()
        clones = {}
        if opened:
            reach = uri(pool, volume)
        for number, name in enumerate(("s1", "s2", "s3"), 1):
            write = f"write -P {number} {number * MIB} {MIB}", f"write -P {number} 0 {MIB}"
            qemu_io(reach, *write) if opened else pool.io(volume, *write)
            snapshot(pool, volume, name)
        if order[0] != "s1":  # without a clone, layers are merged
            clones["s2"] = pool.spec()
            pool.driver.create_from_snapshot(clones["s2"], volume.id, "s2")
        left = {"s1": 1, "s2": 2, "s3": 3}
        for name in order:
            delete_snapshot(pool, volume, name)
            del left[name]
            for other, pattern in left.items():
                assert pool.reads(volume, pattern, snapshot=other), (order, name, other)
        checks = [f"read -P {number} {number * MIB} {MIB}" for number in (1, 2, 3)] + [f"read -P 3 0 {MIB}"]
        output = qemu_io(reach, *checks) if opened else pool.io(volume, *checks)
        assert output.count("read ") == 4
        assert "failed" not in output
        for clone in clones.values():
            assert pool.reads(clone, 2)
        pool.daemons.disconnect(volume.id)
        pool.driver.delete(volume.id)
        for clone in clones.values():
            assert pool.reads(clone, 1, MIB)
            pool.driver.delete(clone.id)
        assert pool.driver.contents() == []


def test_an_open_volume_grows_beside_its_older_export(pool: Pool) -> None:
    volume = pool.make()
    before = uri(pool, volume)
    qemu_io(before, f"write -P 5 0 {MIB}")
    larger = pool.spec(2, volume_id=volume.id)
    for _ in range(2):
        with pool.daemons.opened(volume.id) as daemon:
            pool.driver.grow(larger, daemon)
        connection = pool.daemons.export_again(pool.driver, larger)
    assert connection is not None
    after = f"nbd+unix:///{connection.export}?socket={connection.socket}"
    assert after != before
    output = qemu_io(after, f"read -P 5 0 {MIB}", f"write -P 6 {(2 << 30) - MIB} {MIB}")
    assert "failed" not in output
    qemu_io(before, f"write -P 7 0 {MIB}")
    assert uri(pool, larger) == after
    assert "failed" not in qemu_io(after, f"read -P 7 0 {MIB}", f"read -P 6 {(2 << 30) - MIB} {MIB}")
    assert "not found" in qemu_io(before, "read 0 512") or "available" in qemu_io(before, "read 0 512")
    pool.daemons.disconnect(volume.id)
    assert pool.driver.size(volume.id) == 2 << 30
    assert pool.reads(volume, 7)
    assert not pool.daemons.runs(volume.id)


@FILES
def test_a_daemon_that_is_killed_loses_no_write_it_has_answered_and_comes_back_as_it_was(pool: Pool) -> None:
    volume = pool.make()
    reach = uri(pool, volume)
    snapshot(pool, volume, "s1")
    writes = [word for number in range(64) for word in ("-c", f"write -P 90 {number * 300 * 1024} 4096")]
    command = ["stdbuf", "-oL", "qemu-io", "-t", "writeback", "-f", "raw", *writes, "-c", "sleep 600000", reach]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        answered = 0
        while answered < 64:
            line = writer.stdout.readline()
            assert line, "it has ended"
            answered += "wrote 4096/4096" in line
        kill(pool, volume)
        writer.kill()
    (description,) = pool.daemons.descriptions()
    assert not pool.daemons.runs(volume.id)
    assert pool.daemons.repair(pool.driver, description)
    assert not pool.daemons.repair(pool.driver, description)
    reads = [f"read -P 90 {number * 300 * 1024} 4096" for number in range(64)]
    output = qemu_io(reach, *reads)
    assert output.count("read 4096/4096") == 64
    assert "failed" not in output
    assert pool.reads(volume, 0, 0, 64 * 300 * 1024, snapshot="s1")


MUTE = """\
import os, socket, sys, time
words = dict(zip(sys.argv, sys.argv[1:]))
listener = socket.socket(socket.AF_UNIX)
listener.bind(words["--chardev"].partition("path=")[2].partition(",")[0])
listener.listen()
if pid := os.fork():
    with open(words["--pidfile"], "w") as file:
        file.write(str(pid))
    os._exit(0)
time.sleep(600)
"""


@FILES
def test_a_daemon_that_does_not_answer_is_ended_and_started_again(
    pool: Pool, short: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """QEMU's own has no word for those who speak to it while it starts."""
    mute, once = short / "mute.py", short / "once"
    mute.write_text(MUTE)
    program = short / "qemu-storage-daemon"
    mutely = f'if mkdir {once} 2>/dev/null; then exec {sys.executable} {mute} "$@"; fi'
    program.write_text(f'#!/bin/sh\n{mutely}\nexec {daemon_process.PROGRAM} "$@"\n')
    program.chmod(0o755)
    monkeypatch.setattr(daemon_process, "PROGRAM", str(program))
    patience = itertools.chain([0.5], itertools.repeat(PATIENT))
    monkeypatch.setattr(daemon_process, "Qmp", lambda path, _: Qmp(path, next(patience)))
    monkeypatch.setattr(pool.daemons, "_rights", Rights(allowed=["execve"]))  # for the script
    volume = pool.make()
    assert "failed" not in qemu_io(uri(pool, volume), f"write -P 1 0 {MIB}")
    left = subprocess.run(["pgrep", "-f", str(mute)], capture_output=True, text=True, check=False).stdout
    assert left == ""
    pool.daemons.disconnect(volume.id)
    assert pool.reads(volume, 1)


def test_a_second_opener_is_refused(pool: Pool, short: Path) -> None:
    volume = pool.make()
    uri(pool, volume)
    with pytest.raises(VolumeInUseError):
        pool.driver.hold(volume.id)
    for change in (lambda: pool.driver.delete(volume.id), lambda: pool.driver.snapshot(volume, "s1")):
        with pytest.raises(VolumeInUseError):
            change()
    pool.daemons.disconnect(volume.id)
    for descriptor in pool.driver.hold(volume.id):
        os.close(descriptor)


@ONE_OF_FILES_AND_CEPH
@pytest.mark.parametrize("notified", [True, False], ids=["notified of the end", "not notified"])
def test_the_guest_before_reaches_nothing_when_another_has_the_volume(pool: Pool, notified: bool) -> None:
    """It may run on after the volume was taken from it by force, and QEMU connects again."""
    volume = pool.make()
    reach = uri(pool, volume)
    export, _, socket = reach.removeprefix("nbd+unix:///").partition("?socket=")
    image = f"driver=raw,file.driver=nbd,file.server.type=unix,file.server.path={socket},file.export={export}"
    before = subprocess.Popen(
        ["qemu-io", "--image-opts", image + ",file.reconnect-delay=5"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
    )  # fmt: skip
    assert before.stdin is not None
    assert before.stdout is not None
    before.stdin.write("write -P 1 0 4096\n")
    before.stdin.flush()
    assert "wrote 4096/4096" in before.stdout.readline()
    if notified:
        pool.daemons.disconnect(volume.id)
    other = uri(pool, volume, [VolumeClient(attachment_id="b", host_id="h", local=True)])
    assert "wrote" in qemu_io(other, f"write -P 2 0 {MIB}")
    output = before.communicate("write -P 3 0 4096\nquit\n", timeout=60)[0]
    assert "wrote" not in output
    assert "failed" not in qemu_io(other, f"read -P 2 0 {MIB}")


def test_other_hosts_are_refused_without_certificates(pool: Pool) -> None:
    volume = pool.make()
    with pytest.raises(NotExportedError):
        uri(pool, volume, [VolumeClient(attachment_id="a", host_id="h", local=False)])
    assert not pool.daemons.runs(volume.id)


def test_a_new_volume_reads_nothing_of_a_deleted_one(pool: Pool) -> None:
    old = pool.make()
    pool.write(old, 0x41, 0, 8 * MIB)
    pool.driver.delete(old.id)
    assert pool.reads(pool.make(), 0, 0, 16 * MIB)


def test_what_was_never_written_reads_as_zeros_after_growth_reverts_and_merges(pool: Pool) -> None:
    gib, volume = 1 << 30, pool.make()
    for name, pattern in (("s0", 1), ("s1", 2)):
        pool.write(volume, pattern, gib - MIB)
        snapshot(pool, volume, name)
    volume = pool.spec(2, volume_id=volume.id)
    pool.driver.grow(volume)
    pool.write(volume, 3, gib + 4 * MIB)
    clone = pool.spec(2)
    pool.driver.create_from_snapshot(clone, volume.id, "s1")
    assert pool.reads(clone, 2, gib - MIB)
    assert pool.reads(clone, 0, gib, 16 * MIB)
    delete_snapshot(pool, volume, "s0")
    assert pool.reads(volume, 3, gib + 4 * MIB)
    pool.driver.revert(volume, "s1")
    assert pool.reads(volume, 2, gib - MIB)
    assert pool.reads(volume, 0, gib, 16 * MIB)
    volume = pool.spec(3, volume_id=volume.id)
    pool.driver.grow(volume)
    assert pool.reads(volume, 0, gib, 16 * MIB)
    assert pool.reads(volume, 0, 2 * gib, 16 * MIB)
    for each in (volume, clone):
        pool.driver.delete(each.id)
    assert pool.reads(pool.make(3), 0, gib - 16 * MIB, 32 * MIB)


@ONE_OF_FILES
@pytest.mark.parametrize("key", ["", pytest.param(KEY, marks=pytest.mark.deep)], ids=["plain", "encrypted"])
def test_what_a_closed_volume_needs_no_more_is_merged(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    volumes = Volumes([pool.driver], pool.daemons, Outside(Cached(tmp_path)))
    volume = pool.make(key=key)
    for number in range(4):
        pool.write(volume, number + 1, number * MIB, 4 * MIB)
        volumes.snapshot(volume, f"s{number}")
    folder = tmp_path / "pool" / "volumes" / volume.id
    with monkeypatch.context() as patched:
        patched.setattr("compute_agent.volumes.services.MERGE_SECONDS", -1.0)
        volumes.delete_snapshot(volume, "s1", never)
    assert len(list(folder.glob("*.qcow2"))) >= 4
    for name in ("s0", "s2"):
        volumes.delete_snapshot(volume, name, never)
    assert len(list(folder.glob("*.qcow2"))) == 2
    assert list(pool.daemons.runtime.iterdir()) == []
    assert all(pool.reads(volume, number + 1, number * MIB) for number in range(4))
    assert pool.reads(volume, 4, 3 * MIB, 4 * MIB, snapshot="s3")


@FILES
def test_changes_since_a_snapshot_are_what_was_written(pool: Pool) -> None:
    volume = pool.make()
    pool.write(volume, 1, 0, 2 * MIB)
    snapshot(pool, volume, "b1")
    pool.io(volume, f"write -P 2 {MIB} {MIB}", f"write -P 3 {8 * MIB} {MIB}", f"write -z {0} {MIB}")
    snapshot(pool, volume, "b2")
    pool.write(volume, 4, 32 * MIB)
    assert [tuple(each) for each in pool.driver.changes(volume, "b1")] == [(0, 2 * MIB, False)]
    assert [tuple(each) for each in pool.driver.changes(volume, "b2", "b1")] == [
        (0, MIB, True),
        (MIB, MIB, False),
        (8 * MIB, MIB, False),
    ]
    with pytest.raises(VolumeNotFoundError):
        pool.driver.changes(volume, "b2", "b0")


def test_a_snapshot_is_renamed_while_its_volume_is_open_and_grows(pool: Pool) -> None:
    volume = pool.make()
    pool.driver.create(volume)
    pool.write(volume, 1)
    uri(pool, volume)
    snapshot(pool, volume, "s1")
    with pool.daemons.opened(volume.id) as daemon:
        pool.driver.grow(replace(volume, size_gb=2), daemon)
    volume = replace(volume, size_gb=2)
    for _ in range(2):
        pool.driver.rename_snapshot(volume, "s1", "a name: x")
    assert pool.driver.snapshots(volume.id) == ["a name: x"]
    assert [each.unmanaged for each in pool.driver.contents()] == [{"a name: x": 1 << 30}]
    assert pool.driver.size(volume.id) == 2 << 30
    assert pool.reads(volume, 1, snapshot="a name: x")
    snapshot(pool, volume, "s2")
    with pytest.raises(VolumeInUseError):
        pool.driver.rename_snapshot(volume, "s2", "a name: x")
    with pytest.raises(VolumeNotFoundError):
        pool.driver.rename_snapshot(volume, "s3", "s4")
    delete_snapshot(pool, volume, "a name: x")
    assert pool.driver.snapshots(volume.id) == ["s2"]


@ONE_OF_FILES
@pytest.mark.parametrize("form", ["raw", "qcow2"])
def test_a_disk_that_is_nobody_s_becomes_a_volume_and_a_volume_such_a_disk(
    pool: Pool, form: str, tmp_path: Path
) -> None:
    folder = pool.folder / "unmanaged"
    folder.mkdir(exist_ok=True)
    file = folder / "old disk"
    subprocess.run(["qemu-img", "create", "-q", "-f", form, str(file), "3M"], check=True)
    subprocess.run(["qemu-io", "-f", form, "-c", "write -P 7 1M 1M", str(file)], check=True, capture_output=True)
    assert [(each.name, each.size, each.reason) for each in pool.driver.unmanaged()] == [("old disk", 3 * MIB, "")]
    volume = pool.spec(1)
    unfinished = pool.folder / "volumes" / volume.id
    unfinished.mkdir()
    os.link(file, unfinished / "1.qcow2")
    for _ in range(2):
        pool.driver.adopt(volume, "old disk")
    assert (pool.driver.unmanaged(), file.exists()) == ([], False)
    pool.driver.sweep()
    assert pool.reads(volume, 7, MIB)
    assert pool.reads(volume, 0, 3 * MIB)
    pool.write(volume, 9, 2 * MIB)

    volumes = Volumes([pool.driver], pool.daemons, Outside(Cached(tmp_path)))
    for _ in range(2):
        volumes.unmanage(volume, "left.qcow2", never)
    assert pool.driver.contents() == []
    [left] = pool.driver.unmanaged()
    assert (left.name, left.size, left.reason) == ("left.qcow2", 1 << 30, "")
    again = pool.spec(1)
    pool.driver.adopt(again, "left.qcow2")
    assert pool.reads(again, 7, MIB)
    assert pool.reads(again, 9, 2 * MIB)


@FILES
def test_what_something_else_uses_or_lies_elsewhere_is_not_taken_over(pool: Pool, tmp_path: Path) -> None:
    folder = pool.folder / "unmanaged"
    folder.mkdir(exist_ok=True)
    outside = tmp_path / "outside"
    outside.write_bytes(b"x" * MIB)
    (folder / "link").symlink_to(outside)
    os.link(outside, folder / "second-name")
    (folder / "folder").mkdir()
    os.mkfifo(folder / "pipe")
    (folder / "empty").touch()
    make = ["qemu-img", "create", "-q", "-f", "qcow2"]
    subprocess.run([*make, "-b", str(outside), "-F", "raw", str(folder / "laid")], check=True)
    subprocess.run([*make, "-o", f"data_file={tmp_path}/data", str(folder / "data"), "1M"], check=True)
    (folder / "short").write_bytes(b"QFI\xfb")
    result = {each.name: each.reason for each in pool.driver.unmanaged()}
    assert result.keys() == {"link", "second-name", "folder", "pipe", "empty", "laid", "data", "short"}
    assert all(result.values()), result
    volume = pool.spec(1)
    for name in (*result, "../../outside", "..", "", "/etc/passwd"):
        with pytest.raises(UnmanageableError):
            pool.driver.adopt(volume, name)
    with pytest.raises(VolumeNotFoundError):
        pool.driver.adopt(volume, "missing")
    (folder / "large").touch()
    os.truncate(folder / "large", (1 << 30) + 512)
    with pytest.raises(UnmanageableError):
        pool.driver.adopt(volume, "large")
    assert outside.read_bytes() == b"x" * MIB
    assert (folder / "large").exists()
    pool.driver.sweep()
    assert pool.driver.contents() == []


def test_every_host_of_a_pool_finds_the_same_secret(pool: Pool) -> None:
    secret = pool.driver.secret()
    assert len(bytes.fromhex(secret)) == 32
    assert drivers.make(pool.driver.settings).secret() == secret


@FILES
def test_the_secret_of_a_pool_is_for_the_host_alone(pool: Pool) -> None:
    pool.driver.secret()
    (file,) = pool.folder.glob("*.secret")
    assert file.stat().st_mode & 0o077 == 0
