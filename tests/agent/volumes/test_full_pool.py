"""A pool without room: what does not fit is told and leaves nothing, and what waits goes on when there is room."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from compute_agent.contract.volume import VolumeClient, VolumeSource
from compute_agent.disk_formats.extents import Extent, chunks
from compute_agent.virt.driver import never
from compute_agent.virt.errors import BackupTransferError
from compute_agent.volumes import drivers
from compute_agent.volumes.backup_outlet import StoredBackup, StoredChunk
from compute_agent.volumes.backups.backups import put_together
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.driver import PoolSettings
from compute_agent.volumes.errors import PoolUnavailableError
from compute_agent.volumes.services import Outside, Volumes
from tests.agent.volumes.conftest import MIB, Pool, qemu_io
from tests.agent.volumes.test_backups import Store
from tests.agent.volumes.test_killed_copies import IMAGE, Cache
from tests.support.small_disk import fill, small_disk

CLIENT = VolumeClient(attachment_id="a", host_id="h", local=True)
pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: mounts")


@pytest.fixture(params=["nbd", "dir"])
def pool(request: pytest.FixtureRequest, tmp_path: Path, daemons: Daemons) -> Iterator[Pool]:
    with small_disk(tmp_path / "pool", "24M") as folder:
        driver = drivers.make(PoolSettings("local", request.param, str(folder), "host-1"))
        yield Pool(driver, daemons, folder, driver.prepare())
        daemons.end_all()


@pytest.mark.slow
def test_what_has_no_room_is_refused_and_writes_wait_for_room(pool: Pool, tmp_path: Path) -> None:
    volumes = Volumes([pool.driver], pool.daemons, Outside(Cache(tmp_path / "image")))
    volume = pool.make()
    there = volumes.connect(volume, [CLIENT])
    assert there is not None
    reach = f"nbd+unix:///{there.export}?socket={there.socket}"
    assert "wrote" in qemu_io(reach, f"write -P 1 0 {MIB}")
    (daemon,) = pool.daemons.runtime.glob("*/pid")
    before = daemon.read_text()
    filler = fill(pool.folder)
    assert "No space left" in qemu_io(reach, f"write -P 2 {MIB} {4 * MIB}")
    files = set(pool.folder.rglob("*"))
    (tmp_path / "image").write_bytes(b"\x07" * 4 * MIB)
    new = pool.spec()
    for source in (VolumeSource(), VolumeSource(image=IMAGE), VolumeSource(volume_id=volume.id)):
        with pytest.raises(PoolUnavailableError):
            volumes.create(new, source, never)
    with pytest.raises(PoolUnavailableError):
        volumes.snapshot(volume, "s1")
    pool.driver.sweep()
    assert set(pool.folder.rglob("*")) <= files
    assert "failed" not in qemu_io(reach, f"read -P 1 0 {MIB}")
    filler.unlink()
    assert "wrote" in qemu_io(reach, f"write -P 2 {MIB} {4 * MIB}")
    assert daemon.read_text() == before, "the same daemon goes on"
    volumes.snapshot(volume, "s1")
    volumes.create(new, VolumeSource(image=IMAGE), never)
    assert pool.reads(new, 7, 0, 4 * MIB)
    for each in (volume, new):
        volumes.delete(each)
    assert list((pool.folder / "volumes").iterdir()) == []


@pytest.mark.parametrize("room", [0, 64 << 10], ids=["no room", "room for a part"])
def test_a_backup_that_has_no_room_on_its_way_back_is_reported(tmp_path: Path, room: int) -> None:
    store, key = Store(), str(uuid.uuid4())
    store.sealed[key] = StoredBackup(1 << 30, "", [StoredChunk("0")])
    store.chunks[key] = [next(chunks([Extent(0, MIB, zero=False)], lambda _, length: b"\x01" * length))]
    with small_disk(tmp_path / "staging", "1M") as folder:
        filler = fill(folder)
        os.truncate(filler, filler.stat().st_size - room)
        with pytest.raises(BackupTransferError):
            put_together(store, [key], folder / "restore", never)
