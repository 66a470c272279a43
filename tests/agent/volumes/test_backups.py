"""Backups of real volumes that are written meanwhile: each comes back as it was at its moment."""

from __future__ import annotations

import hashlib
import subprocess
import tempfile
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from compute_agent.contract.messages import Command
from compute_agent.contract.volume import (
    VOLUME,
    VOLUME_COPY,
    BackupVolumeRequest,
    CreateVolumeRequest,
    RestoreVolumeRequest,
    VolumeClient,
    VolumeSource,
    VolumeSpec,
)
from compute_agent.virt.driver import Stopped, never
from compute_agent.virt.errors import BackupTransferError
from compute_agent.virt.fake.images import FakeImageCache
from compute_agent.volumes import drivers
from compute_agent.volumes.backup_outlet import BackupOutlet, Progress, SentBackup, StoredBackup, StoredChunk
from compute_agent.volumes.backups.backup_copies import PoolCopies, moment_of
from compute_agent.volumes.backups.backup_sources import BackupSpec
from compute_agent.volumes.backups.backups import put_together, send_all
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.driver import PoolSettings
from compute_agent.volumes.services import Outside, Volumes
from tests.agent.cast import make_stage, on_stage
from tests.agent.volumes.conftest import Pool, qemu_io

MIB = 1 << 20
CLIENT = VolumeClient(attachment_id="a1", host_id="h", local=True)


@dataclass
class Store(BackupOutlet):
    """The portal's store, in memory; ``fails_at``: the chunk that it does not take."""

    parents: dict[str, str] = field(default_factory=dict)
    chunks: dict[str, list[bytes]] = field(default_factory=dict)
    sealed: dict[str, StoredBackup] = field(default_factory=dict)
    fails_at: int | None = None

    def send_chunk(self, backup_id: str, number: int, chunk: bytes, done: Progress, stopped: Stopped) -> str:
        if number == self.fails_at:
            raise BackupTransferError("The store is full.")
        self.chunks[backup_id] = [*self.chunks.get(backup_id, [])[:number], chunk]
        return hashlib.sha256(chunk).hexdigest()

    def seal(self, backup_id: str, sent: SentBackup, stopped: Stopped) -> None:
        parent = "" if sent.full else self.parents[backup_id]
        self.sealed[backup_id] = StoredBackup(sent.disk_bytes, parent, [StoredChunk(each) for each in sent.digests])

    def stored(self, backup_id: str, stopped: Stopped) -> StoredBackup:
        if backup_id not in self.sealed:
            raise BackupTransferError("It is not there.")
        return self.sealed[backup_id]

    def chunk(self, backup_id: str, number: int, digest: str, done: Progress, stopped: Stopped) -> bytes:
        return self.chunks[backup_id][number]


@dataclass
class Rig:
    volumes: Volumes
    copies: PoolCopies
    store: Store
    pool_id: str
    folder: Path

    def make(self, size_gb: int = 1) -> VolumeSpec:
        volume = VolumeSpec(id=str(uuid.uuid4()), pool_id=self.pool_id, size_gb=size_gb)
        self.volumes.create(volume, VolumeSource(), never)
        return volume

    def open(self, volume: VolumeSpec) -> str:
        connection = self.volumes.connect(volume, [CLIENT])
        assert connection is not None
        return f"nbd+unix:///{connection.export}?socket={connection.socket}"

    def digest(self, uri: str) -> str:
        return hashlib.sha256(_content(uri)).hexdigest()

    def back_up(self, volume: VolumeSpec, parent: str = "") -> tuple[str, bool, int]:
        requested = BackupSpec(str(uuid.uuid4()), parent)
        full = self.run(volume, requested)
        return requested.backup_id, full, sum(map(len, self.store.chunks.get(requested.backup_id, [])))

    def run(self, volume: VolumeSpec, backup: BackupSpec) -> bool:
        self.store.parents[backup.backup_id] = backup.parent_id
        with self.copies.freeze(volume, backup, never) as source:
            digests = send_all(self.store, backup.backup_id, source, never)
            self.store.seal(backup.backup_id, SentBackup(digests, source.disk_bytes, source.full), never)
        self.copies.backed_up(volume, backup)
        return source.full

    def restore(self, volume: VolumeSpec, chain: list[str]) -> str:
        path = self.folder / "restore"
        path.unlink(missing_ok=True)
        put_together(self.store, chain, path, never)
        self.copies.overwrite(volume, path, never)
        result = self.digest(self.open(volume))
        self.volumes.connect(volume, [])
        return result

    def moments(self, volume: VolumeSpec) -> list[str]:
        (stored,) = [each for each in self.volumes.contents(self.pool_id).volumes if each.id == volume.id]
        return stored.snapshots


@pytest.fixture(params=["nbd", "dir"])
def rig(request: pytest.FixtureRequest, tmp_path: Path, daemons: Daemons) -> Rig:
    made = drivers.make(PoolSettings("local", request.param, str(tmp_path / "pool"), "host-1"))
    volumes = Volumes([made], daemons, Outside(FakeImageCache()))
    (state,) = volumes.states()
    return Rig(volumes, PoolCopies(volumes, tmp_path), Store(), state.id, tmp_path)


ONE_OF_RIGS = pytest.mark.parametrize("rig", ["nbd", pytest.param("dir", marks=pytest.mark.deep)], indirect=True)
"""For long tests: both drivers of files share the code."""


@ONE_OF_RIGS
@pytest.mark.slow
def test_a_chain_of_a_volume_in_use_comes_back_moment_by_moment(rig: Rig) -> None:
    volume = rig.make()
    uri = rig.open(volume)
    parent, chain, moments = "", list[str](), []
    for number in range(4):
        qemu_io(uri, f"write -P {number + 1} {number * 3}M {5 - number}M", f"write -z {number}M 64k")
        backup_id, full, size = rig.back_up(volume, parent)
        moments.append(([*chain, backup_id], rig.digest(uri)))
        qemu_io(uri, f"write -P {number + 100} {20 + number}M 1M")  # belongs to the next one
        assert full == (number == 0)
        assert number == 0 or size < 6 * MIB, "an increment has what has changed"
        kept = {moment_of(backup_id)} | ({moment_of(parent)} if parent else set())
        assert set(rig.moments(volume)) == kept
        chain.append(backup_id)
        parent = backup_id
    assert len({digest for _, digest in moments}) == 4
    target = rig.make(2)
    for links, digest in reversed(moments):
        qemu_io(rig.open(target), "write -P 77 0 24M", "write -P 77 1500M 8M")
        rig.volumes.connect(target, [])
        assert rig.restore(target, links) == digest
        output = qemu_io(rig.open(target), "read -P 0 1500M 8M")
        assert "read 8388608/8388608" in output
        assert "failed" not in output
        rig.volumes.connect(target, [])


@pytest.mark.slow
def test_a_restore_leaves_nothing_of_what_the_volume_had(pool: Pool, tmp_path: Path) -> None:
    volumes = Volumes([pool.driver], pool.daemons, Outside(FakeImageCache()))
    rig = Rig(volumes, PoolCopies(volumes, tmp_path), Store(), pool.id, tmp_path)
    volumes.states()
    source, target = pool.make(1), pool.make(2)
    qemu_io(rig.open(source), "write -P 5 3M 1M", "write -z 5M 1M", "write -P 6 1000M 64k")
    qemu_io(rig.open(target), "write -P 77 0 24M", "write -P 77 990M 20M", "write -P 77 1500M 8M")
    volumes.connect(target, [])
    volumes.snapshot(target, "before")
    backup_id, _, _ = rig.back_up(source)
    rig.restore(target, [backup_id])
    zeros = [f"read -P 0 {at} {length}" for at, length in (("0", "3M"), ("4M", "20M"), ("990M", "10M"))]
    rest = ["read -P 5 3M 1M", "read -P 6 1000M 64k", f"read -P 0 {1000 * MIB + 65536} {10 * MIB - 65536}"]
    output = qemu_io(rig.open(target), *zeros, *rest, "read -P 0 1500M 8M")
    assert (output.count("read "), "failed" in output) == (7, False), output
    volumes.connect(target, [])
    assert pool.reads(target, 77, 0, 24 * MIB, snapshot="before")


@pytest.mark.deep
@ONE_OF_RIGS
@pytest.mark.slow
def test_one_that_was_broken_off_is_made_again_and_one_that_is_not_sure_is_full(rig: Rig) -> None:
    volume = rig.make()
    uri = rig.open(volume)
    qemu_io(uri, "write -P 1 0 20M")
    requested = BackupSpec(str(uuid.uuid4()))
    rig.store.fails_at = 1
    with pytest.raises(BackupTransferError):
        rig.run(volume, requested)
    assert rig.moments(volume) == []
    rig.store.fails_at = None
    with rig.copies.freeze(volume, requested, never):
        pass  # as an agent that was killed leaves it
    qemu_io(uri, "write -P 2 1M 1M")
    assert rig.run(volume, requested)
    before = rig.digest(uri)
    _, full, _ = rig.back_up(volume, parent=str(uuid.uuid4()))
    assert full, "it is not known what has changed since that one"
    rig.volumes.connect(volume, [])
    closed, full, _ = rig.back_up(volume, parent="")
    target = rig.make()
    assert rig.restore(target, [closed]) == before


@pytest.mark.deep
@ONE_OF_RIGS
@pytest.mark.slow
def test_after_the_newest_backup_is_deleted_the_next_one_has_the_changes_since_its_parent(rig: Rig) -> None:
    volume = rig.make()
    uri = rig.open(volume)
    qemu_io(uri, "write -P 1 0 20M")
    first, _, _ = rig.back_up(volume)
    qemu_io(uri, "write -P 2 0 1M")
    rig.back_up(volume, first)
    qemu_io(uri, "write -P 3 4M 1M")
    last, full, size = rig.back_up(volume, first)
    assert not full
    assert size < 4 * MIB
    assert rig.restore(rig.make(), [first, last]) == rig.digest(uri)


@ONE_OF_RIGS
@pytest.mark.slow
def test_after_a_revert_a_backup_is_full(rig: Rig) -> None:
    volume = rig.make()
    rig.volumes.snapshot(volume, "before")
    first, _, _ = rig.back_up(volume)
    rig.volumes.revert(volume, "before")
    uri = rig.open(volume)
    qemu_io(uri, "write -P 9 2M 1M")
    last, full, _ = rig.back_up(volume, first)
    assert full
    assert rig.restore(rig.make(), [last]) == rig.digest(uri)


@pytest.mark.slow
@pytest.mark.parametrize("driver", ["fake", "nbd"])
async def test_backups_and_restores_by_their_commands(tmp_path: Path, daemons: Daemons, driver: str) -> None:
    store = Store()
    made = drivers.make(PoolSettings("local", driver, str(tmp_path / "pool"), "host-1"))
    volumes = Volumes([made], daemons, Outside(FakeImageCache(), None, store, tmp_path / "restores"))
    (pool,) = volumes.states()
    spec = VolumeSpec(id=str(uuid.uuid4()), pool_id=pool.id, size_gb=1)
    async with on_stage(make_stage(tmp_path, volumes=volumes)) as stage:

        async def do(body: Any, kind: str = VOLUME, subject: str = spec.id) -> Any:
            key = str(uuid.uuid4())
            return await stage.do(Command(id=key, subject_kind=kind, subject_id=subject, generation=0, body=body))

        await do(CreateVolumeRequest(volume=spec))
        ids = [str(uuid.uuid4()) for _ in range(2)]
        for number, key in enumerate(ids):
            parent = ids[0] if number else ""
            store.parents[key] = parent
            end = await do(BackupVolumeRequest(volume=spec, backup_id=key, parent_id=parent), VOLUME_COPY, key)
            assert (end.kind, end.detail["full"]) == ("finished", "false" if number else "true")
        assert (await do(RestoreVolumeRequest(volume=spec, backup_ids=ids))).kind == "finished"
        store.fails_at = 0
        end = await do(BackupVolumeRequest(volume=spec, backup_id="b3"), VOLUME_COPY, "b3")
        assert (end.kind, end.message) == ("failed", "The store is full.")
        store.sealed.clear()
        end = await do(RestoreVolumeRequest(volume=spec, backup_ids=ids))
        assert end.kind == "failed"
        assert list((tmp_path / "restores").iterdir()) == []


def _content(uri: str) -> bytes:
    """Return the first 24 MiB of an export."""
    with tempfile.NamedTemporaryFile() as file:
        words = ["qemu-img", "dd", "-f", "raw", "-O", "raw", "bs=1M", "count=24", f"if={uri}", f"of={file.name}"]
        subprocess.run(words, check=True, capture_output=True)
        return Path(file.name).read_bytes()
