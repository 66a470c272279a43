"""Garbage in a pool of files is collected while volumes are created and changed, here or by another host."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from compute_agent.contract.volume import VolumeSpec
from compute_agent.virt.errors import HostError
from compute_agent.volumes.files import layers
from compute_agent.volumes.files.qcow2 import Qcow2Driver
from tests.agent.volumes.conftest import MIB, Pool

pytestmark = pytest.mark.slow


@dataclass
class Scene:
    """A volume with a snapshot, laid on a layer of a deleted volume, and garbage that is swept."""

    pool: Pool
    driver: Qcow2Driver
    volume: VolumeSpec
    changed: VolumeSpec
    """The volume to read in the end; it begins with the pattern 7."""
    image: Path

    @classmethod
    def prepare(cls, pool: Pool, folder: Path) -> Scene:
        driver = pool.driver
        assert isinstance(driver, Qcow2Driver)
        base = pool.spec(volume_id="bbbbbbbb-0000-0000-0000-000000000000")
        driver.create(base)
        pool.write(base, 7)
        driver.snapshot(base, "s0")
        volume = pool.spec(volume_id="cccccccc-0000-0000-0000-000000000000")
        driver.create_from_snapshot(volume, base.id, "s0")
        driver.snapshot(volume, "s1")
        driver.delete(base.id)
        (pool.folder / "volumes" / base.id / "9.qcow2").touch()
        image = folder / "image"
        image.write_bytes(b"\7" * MIB)
        disk = pool.folder / "unmanaged"
        disk.mkdir()
        (disk / "disk").write_bytes(b"\7" * MIB)
        return cls(pool, driver, volume, volume, image)

    def clone(self) -> None:
        """Clone the volume's snapshot, and delete the snapshot and the volume."""
        self.changed = self.pool.spec(volume_id="aaaaaaaa-0000-0000-0000-000000000000")
        self.driver.create_from_snapshot(self.changed, self.volume.id, "s1")
        state = self.driver.layers.get(self.volume.id)
        state.gone, state.snapshots = True, {}
        self.driver.layers.save(self.volume.id, state)

    def snapshot(self) -> None:
        self.driver.snapshot(self.volume, "s2")
        self.driver.delete_snapshot(self.volume, "s1")

    def revert(self) -> None:
        self.driver.revert(self.volume, "s1")

    def extend(self) -> None:
        self.changed = self.pool.spec(2, volume_id=self.volume.id)
        self.driver.grow(self.changed)

    def import_image(self) -> None:
        self.changed = self.pool.spec(volume_id="aaaaaaaa-0000-0000-0000-000000000000")
        self.driver.create_from_image(self.changed, self.image)

    def adopt(self) -> None:
        self.changed = self.pool.spec(volume_id="aaaaaaaa-0000-0000-0000-000000000000")
        self.driver.adopt(self.changed, "disk")


CHANGES: list[Callable[[Scene], None]] = [
    Scene.snapshot, Scene.revert, Scene.extend, Scene.import_image, Scene.adopt
]  # fmt: skip
MOMENTS = [*((Scene.clone, moment) for moment in range(8)), *((change, 4) for change in CHANGES)]
"""Changes, and how many states are read before."""


@pytest.mark.parametrize("pool", ["dir"], indirect=True)
@pytest.mark.parametrize(("change", "moment"), MOMENTS, ids=lambda each: getattr(each, "__name__", str(each)))
def test_a_change_while_states_are_read_loses_nothing(
    pool: Pool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: Callable[[Scene], None], moment: int
) -> None:
    scene = Scene.prepare(pool, tmp_path)
    other = Interloper(lambda: change(scene))
    monkeypatch.setattr(layers.fcntl, "flock", other.flock)
    find, reads = scene.driver.layers.find, iter(range(1000))

    def interrupted(volume_id: str) -> Any:
        if threading.current_thread() is threading.main_thread() and next(reads) == moment:
            other.run()
        return find(volume_id)

    monkeypatch.setattr(scene.driver.layers, "find", interrupted)
    scene.driver.sweep()
    other.thread.join()
    monkeypatch.undo()
    assert other.began
    assert other.failed is None
    scene.driver.sweep()
    assert pool.reads(scene.changed, 7)


@dataclass
class Interloper:
    """Another thread, standing for another host, which does its work until it is done or has to wait for a lock."""

    work: Callable[[], None]
    began: bool = False
    failed: HostError | None = None
    settled: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._run)
        self._flock = fcntl.flock

    def run(self) -> None:
        self.began = True
        self.thread.start()
        assert self.settled.wait(60)

    def flock(self, descriptor: int, kind: int) -> None:
        if threading.current_thread() is self.thread and not kind & fcntl.LOCK_NB:
            try:
                self._flock(descriptor, kind | fcntl.LOCK_NB)
            except BlockingIOError:
                self.settled.set()
            else:
                return
        self._flock(descriptor, kind)

    def _run(self) -> None:
        try:
            self.work()
        except HostError as error:
            self.failed = error
        finally:
            self.settled.set()
