"""An agent that is killed while it copies, clones, merges, reverts or removes: nothing of it is left, and all is done
when the command comes again.
"""

from __future__ import annotations

import hashlib
import multiprocessing
import signal
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from msgspec import json

from compute_agent.contract.build import ImageRef, VolumeConnection
from compute_agent.contract.volume import UploadVolumeRequest, VolumeClient, VolumeSource, VolumeSpec
from compute_agent.virt.driver import Stopped, never
from compute_agent.virt.processes import processes
from compute_agent.volumes import drivers
from compute_agent.volumes.backup_outlet import BackupOutlet, Progress, SentBackup, StoredBackup, StoredChunk
from compute_agent.volumes.backups.backup_copies import PoolCopies, moment_of
from compute_agent.volumes.backups.backup_sources import BackupSpec
from compute_agent.volumes.backups.backups import UNFINISHED, put_together, send_all
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.daemons.export_address import Address
from compute_agent.volumes.driver import PoolSettings
from compute_agent.volumes.services import Outside, Volumes
from tests.agent.volumes.conftest import MIB, qemu_io
from tests.agent.volumes.test_killed_agent import die_at, running
from tests.support.landing import first_of_each

pytestmark = pytest.mark.slow
CLIENT = VolumeClient(attachment_id="a", host_id="h", local=True)
IMAGE = ImageRef(id="i", name="i", disk_format="raw", size=MIB, hash_algo="sha512", hash_value="00" * 64)
BACKUP, UPLOADED = str(uuid.UUID(int=1)), str(uuid.UUID(int=2))


@dataclass
class Cache:
    """An image cache with one image, of sevens."""

    path: Path

    def get(self, _image: object, _subject: str, _stopped: object) -> Cache:
        return self


@dataclass
class Outgoing:
    """Keeps what is sent as an image."""

    folder: Path

    @contextmanager
    def file(self, name: str) -> Iterator[Path]:
        yield self.folder / name

    def send(self, path: Path, instance_uuid: str, image_id: str, stopped: Stopped) -> None:
        path.replace(self.folder / "sent")


@dataclass
class Store(BackupOutlet):
    """A store of backups in a folder: it outlives the agent."""

    folder: Path

    def send_chunk(self, backup_id: str, number: int, chunk: bytes, done: Progress, stopped: Stopped) -> str:
        (self.folder / f"{backup_id}-{number}").write_bytes(chunk)
        return hashlib.sha256(chunk).hexdigest()

    def seal(self, backup_id: str, sent: SentBackup, stopped: Stopped) -> None:
        stored = StoredBackup(sent.disk_bytes, "", [StoredChunk(each) for each in sent.digests])
        (self.folder / backup_id).write_bytes(json.encode(stored))

    def stored(self, backup_id: str, stopped: Stopped) -> StoredBackup:
        return json.decode((self.folder / backup_id).read_bytes(), type=StoredBackup)

    def chunk(self, backup_id: str, number: int, digest: str, done: Progress, stopped: Stopped) -> bytes:
        return (self.folder / f"{backup_id}-{number}").read_bytes()


@dataclass
class Host:
    """What an agent that begins has; ``source``: the volume that all is about, ``target``: the one that is made."""

    short: Path
    source: str
    target: str

    def __post_init__(self) -> None:
        daemons = Daemons(self.short / "run", self.short / "sockets", Address(lambda: "127.0.0.1"), self.short / "kept")
        self.pool = drivers.make(PoolSettings("local", "nbd", str(self.short / "pool"), "host-1"))
        self.store = Store(self.short)
        outside = Outside(Cache(self.short / "image"), Outgoing(self.short), self.store, self.short / "staging")
        self.volumes = Volumes([self.pool], daemons, outside)
        (state,) = self.volumes.states()
        self.pool_id = state.id
        self.copies = PoolCopies(self.volumes, self.short / "staging")

    def spec(self, volume_id: str) -> VolumeSpec:
        return VolumeSpec(id=volume_id, pool_id=self.pool_id, size_gb=1)

    def do(self, command: str) -> None:
        """Carry out one command."""
        source, target, volumes = self.spec(self.source), self.spec(self.target), self.volumes
        frozen = VolumeSource(volume_id=source.id, snapshot_id="s1")
        commands: dict[str, Callable[[], None]] = {
            "image": lambda: volumes.create(target, VolumeSource(image=IMAGE), never),
            "snapshot": lambda: volumes.create(target, frozen, never),
            "volume": lambda: volumes.create(target, VolumeSource(volume_id=source.id), never),
            "fetch": lambda: volumes.fetch(target, self.export(), never),
            "upload": lambda: volumes.upload(
                UploadVolumeRequest(volume=source, image_id=UPLOADED, disk_format="raw"), never
            ),
            "backup": self._back_up,
            "restore": self._restore,
            "reimage": lambda: volumes.reimage(source, IMAGE, source.id, never),
            "revert": lambda: volumes.revert(source, "s1"),
            "delete snapshot": lambda: volumes.delete_snapshot(source, "s1", never),
            "delete": lambda: volumes.delete(source),
        }
        commands[command]()

    def _back_up(self) -> None:
        requested = BackupSpec(BACKUP)
        with self.copies.freeze(self.spec(self.source), requested, never) as result:
            digests = send_all(self.store, BACKUP, result, never)
            self.store.seal(BACKUP, SentBackup(digests, result.disk_bytes, result.full), never)
        self.copies.backed_up(self.spec(self.source), requested)

    def _restore(self) -> None:
        target = self.spec(self.target)
        path = self.copies.staging(target) / f"{UNFINISHED}{target.id}"
        path.unlink(missing_ok=True)
        put_together(self.store, [BACKUP], path, never)
        self.copies.overwrite(target, path, never)
        path.unlink()

    def export(self) -> VolumeConnection:
        """Export the source for the very copy that reads it."""
        copy = VolumeClient(attachment_id=self.target, host_id="", local=True)
        volume_connection = self.volumes.connect(self.spec(self.source), [copy])
        assert volume_connection is not None
        return volume_connection

    def io(self, volume_id: str, *commands: str) -> str:
        """Do this with a volume as a guest would."""
        there = self.volumes.connect(self.spec(volume_id), [CLIENT])
        assert there is not None
        return qemu_io(f"nbd+unix:///{there.export}?socket={there.socket}", *commands)

    def has(self, volume_id: str, *patterns: int) -> bool:
        """Whether a volume begins with these patterns, 1 MiB of each, and zeros after them."""
        requested = [*patterns, 0]
        output = self.io(volume_id, *(f"read -P {pattern} {at * MIB} {MIB}" for at, pattern in enumerate(requested)))
        return output.count("bytes at offset") == len(requested) and "failed" not in output

    def snapshots(self) -> set[str]:
        return {name for each in self.volumes.contents(self.pool_id).volumes for name in each.snapshots}

    def close(self) -> None:
        for volume_id in (self.source, self.target):
            self.volumes.connect(self.spec(volume_id), [])


def be_killed(short: Path, source: str, target: str, command: str, place: str) -> None:
    """Be an agent that is killed when it calls what ``place`` names."""
    die_at(place)
    Host(short, source, target).do(command)


OLD, NEW = (5,), (5, 6)
"""What the snapshot has, and the volume."""
PLACES = [
    ("image", "files.qcow2:Qcow2Driver._make", (7,)),
    ("image", "files.layers:Layers.save", (7,)),
    ("snapshot", "files.qcow2:Qcow2Driver._make_layer", OLD),
    ("snapshot", "files.layers:Layers.save", OLD),
    ("volume", "files.qcow2:Qcow2Driver.create_from_snapshot", NEW),
    ("volume", "files.qcow2:Qcow2Driver.delete_snapshot", NEW),
    ("fetch", "copies.copying:run_long", NEW),
    ("fetch", "daemons.daemon_process:launch", NEW),
    ("upload", "copies.copying:to_file", NEW),
    ("upload", "services:Volumes.delete_snapshot", NEW),
    ("backup", "backups.backup_copies:NbdReader", NEW),
    ("backup", "backups.backup_copies:PoolCopies.backed_up", NEW),
    ("restore", "copies.copying:file_over", NEW),
    ("restore", "copies.copying:run_long", NEW),
    ("reimage", "files.qcow2:Qcow2Driver._lay", (7,)),
    ("reimage", "files.layers:Layers.collect", (7,)),
    ("revert", "files.qcow2:Qcow2Driver._make_layer", OLD),
    ("revert", "files.layers:Layers.collect", OLD),
    ("delete snapshot", "files.merging:concluded", NEW),
    ("delete snapshot", "files.merging:_write_down", NEW),
    ("delete snapshot", "files.merging:_forget", NEW),
    ("delete snapshot", "daemons.qmp:Qmp.execute@blockdev-del", NEW),
    ("delete snapshot", "files.layers:Layers.collect", NEW),
    ("delete", "files.layers:Layers.save", ()),
    ("delete", "files.layers:Layers.collect", ()),
]


def prepare(host: Host, command: str) -> None:
    """Make what the command is about: open where it may be open."""
    source, target = host.spec(host.source), host.spec(host.target)
    (host.short / "image").write_bytes(b"\x07" * MIB)
    host.volumes.create(source, VolumeSource(), never)
    host.io(source.id, f"write -P 5 0 {MIB}")
    around = command == "delete snapshot"  # what lies between two others can be merged
    for name in ("s0", "s1") if around else ("s1",):
        host.volumes.snapshot(source, name)
    host.io(source.id, f"write -P 6 {MIB} {MIB}")
    if around:
        host.volumes.snapshot(source, "s2")
    if command == "restore":
        host.do("backup")
        host.volumes.create(target, VolumeSource(), never)
        host.io(target.id, f"write -P 8 0 {8 * MIB}")
    if command in {"restore", "reimage", "revert", "delete", "fetch"}:
        host.close()
    if command == "fetch":
        host.export()


def check(host: Host, command: str, result: tuple[int, ...]) -> None:
    """Look at what the command was to make."""
    if command == "delete":
        assert host.volumes.contents(host.pool_id).volumes == []
        return
    if command == "upload":
        with (host.short / "sent").open("rb") as sent:
            assert sent.read(3 * MIB) == b"\x05" * MIB + b"\x06" * MIB + bytes(MIB)
        return
    if command == "backup":
        host.volumes.create(host.spec(host.target), VolumeSource(), never)
        host.do("restore")
    if command == "delete snapshot":
        assert host.pool.layers.get(host.source).layers.keys() == {1, 2, 4}, "two are merged"
        host.volumes.snapshot(host.spec(host.source), "s3")
        host.volumes.delete_snapshot(host.spec(host.source), "s2", never)
        assert len(host.pool.layers.get(host.source).layers) == 3, "and the next two can be"
    changed = host.source if command in {"reimage", "revert", "delete snapshot"} else host.target
    assert host.has(changed, *result)


KIND = {"volume": "snapshot", "fetch": "upload", "reimage": "image", "revert": "snapshot"}
"""Commands that are half done in the same way as another one."""


@pytest.mark.parametrize(("command", "place", "result"), first_of_each(PLACES, lambda row: KIND.get(row[0], row[0])))
def test_what_is_half_done_is_cleaned_and_then_finished(
    short: Path, command: str, place: str, result: tuple[int, ...]
) -> None:
    host = Host(short, str(uuid.uuid4()), str(uuid.uuid4()))
    known = {"s1", moment_of(BACKUP)}  # the moment of a backup stays for the next one
    try:
        prepare(host, command)
        before, kept = running(short), host.snapshots() - known
        arguments = (short, host.source, host.target, command, place)
        process = multiprocessing.get_context("spawn").Process(target=be_killed, args=arguments)
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        host = Host(short, host.source, host.target)
        host.volumes.sweep()
        host.volumes.check()
        assert running(short) == before, "guests that have it open go on, and no copy does"
        assert host.snapshots() - known == kept
        assert list((short / "staging").glob("*")) == []
        host.do(command)
        assert host.snapshots() - known == kept
        assert list((short / "staging").glob("*")) == []
        check(host, command, result)
        for volume_id in (host.target, host.source):
            host.volumes.delete(host.spec(volume_id))
        left = [*(short / "pool" / "volumes").iterdir(), *(short / "pool" / "images").iterdir()]
        assert [path.name for path in left] in ([], ["lock"])
        assert running(short) == []
    finally:
        host.volumes.daemons.end_all()
        for pid in running(short):
            processes.kill(pid)
