"""Volumes of a shared folder that get another id: the data, the snapshots and the lock of a daemon stay theirs."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.volume import VolumeSpec
from compute_agent.volumes import drivers
from compute_agent.volumes.driver import PoolSettings, VolumeDriver
from compute_agent.volumes.errors import VolumeInUseError, VolumeNotFoundError
from tests.agent.volumes.conftest import MIB, Pool, qemu_io
from tests.agent.volumes.test_drivers import kill, snapshot, uri

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("pool", ["dir"], indirect=True)]


@pytest.fixture
def other(pool: Pool) -> VolumeDriver:
    """The same folder on another host."""
    driver = drivers.make(PoolSettings("local", "dir", str(pool.folder), "host-2"))
    assert driver.prepare() == pool.id
    return driver


def renamed(pool: Pool, driver: VolumeDriver, volume: VolumeSpec, name: str) -> VolumeSpec:
    driver.rename(volume.id, name)
    return replace(volume, id=name)


def test_data_and_snapshots_are_the_same_under_the_new_id(pool: Pool, other: VolumeDriver) -> None:
    volume = pool.make()
    pool.write(volume, 1)
    snapshot(pool, volume, "s1")
    pool.write(volume, 2)
    moved = renamed(pool, other, volume, "there")
    assert (pool.driver.names(), other.previous_id("there")) == (["there"], volume.id)
    assert pool.reads(moved, 2)
    assert pool.reads(moved, 1, snapshot="s1")
    assert other.sweep() == []
    snapshot(pool, moved, "s2")
    back = renamed(pool, pool.driver, moved, volume.id)
    assert (other.names(), other.previous_id(volume.id)) == ([volume.id], "there")
    assert pool.reads(back, 2)
    pool.driver.delete_snapshot(back, "s2")
    pool.driver.revert(back, "s1")
    assert pool.reads(back, 1)
    pool.driver.delete(back.id)
    assert list((pool.folder / "volumes").iterdir()) == []


def test_an_open_volume_is_renamed_by_no_host(pool: Pool, other: VolumeDriver) -> None:
    volume = pool.make()
    reach = uri(pool, volume)
    for driver in (pool.driver, other):
        with pytest.raises(VolumeInUseError):
            driver.rename(volume.id, "there")
    assert "failed" not in qemu_io(reach, f"write -P 3 0 {MIB}")
    kill(pool, volume)
    moved = renamed(pool, other, volume, "there")
    description = pool.daemons.description(volume.id)
    assert description is not None
    with pytest.raises(VolumeNotFoundError):
        pool.daemons.repair(pool.driver, description)
    assert pool.reads(moved, 3)


def test_another_volume_keeps_its_id(pool: Pool, other: VolumeDriver) -> None:
    first, second = pool.make(), pool.make()
    pool.write(first, 1)
    renamed(pool, other, second, "second")
    with pytest.raises(VolumeInUseError, match="already"):
        other.rename("second", first.id)
    assert pool.reads(first, 1)
    assert (other.previous_id("second"), other.previous_id(first.id)) == (second.id, "")
    with pytest.raises(VolumeNotFoundError):
        other.rename(second.id, "third")


def test_a_host_that_is_killed_before_the_rename_has_renamed_nothing(
    pool: Pool, other: VolumeDriver, monkeypatch: pytest.MonkeyPatch
) -> None:
    class KilledError(BaseException):
        pass

    def killed(self: Path, target: Path) -> None:
        raise KilledError

    volume = pool.make()
    pool.write(volume, 1)
    snapshot(pool, volume, "s1")
    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed)
        with pytest.raises(KilledError):
            other.rename(volume.id, "there")
    assert pool.reads(volume, 1)
    assert pool.reads(renamed(pool, other, volume, "there"), 1)


def test_a_snapshot_of_an_open_volume_is_deleted_by_another_host_and_merged_by_its_own(
    pool: Pool, other: VolumeDriver
) -> None:
    volume = pool.make()
    snapshot(pool, volume, "s0")
    snapshot(pool, volume, "s1")
    reach = uri(pool, volume)
    qemu_io(reach, f"write -P 4 0 {MIB}")
    assert not pool.driver.can_merge(volume.id)
    with pytest.raises(VolumeInUseError):
        other.delete_snapshot(volume, "s1")
    for name in ("s0", "s1", "s1"):
        other.forget_snapshot(volume, name)
    assert pool.driver.snapshots(volume.id) == []
    assert pool.driver.can_merge(volume.id)
    with pool.daemons.opened(volume.id) as daemon:
        pool.driver.delete_snapshot(volume, "", daemon)
    assert not pool.driver.can_merge(volume.id)
    assert "failed" not in qemu_io(reach, f"read -P 4 0 {MIB}")
    other.forget_snapshot(replace(volume, id="nothing"), "s1")
