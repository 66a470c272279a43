"""A pool whose folder is not mounted: nothing is created in its place, and nothing of it is taken for deleted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compute_agent.contract.volume import VolumeSource
from compute_agent.virt.driver import never
from compute_agent.virt.fake.images import FakeImageCache
from compute_agent.volumes import drivers
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.driver import PoolSettings
from compute_agent.volumes.errors import PoolUnavailableError
from compute_agent.volumes.services import Outside, Volumes
from tests.agent.volumes.conftest import Pool


@pytest.fixture(params=["nbd", "dir"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> PoolSettings:
    folder = tmp_path / "mount"
    folder.mkdir()
    return PoolSettings("local", request.param, str(folder), "host-1", remembered=tmp_path / "state" / "local")


def host(settings: PoolSettings, daemons: Daemons) -> Volumes:
    """Return the volumes of an agent that has just started."""
    return Volumes([drivers.make(settings)], daemons, Outside(FakeImageCache()))


def unmount(settings: PoolSettings) -> Path:
    """Leave an empty folder in the place of the pool; return where the pool is meanwhile."""
    folder = Path(settings.location)
    aside = folder.with_name("aside")
    folder.rename(aside)
    folder.mkdir()
    return aside


def test_an_agent_that_starts_before_the_folder_is_mounted_creates_no_pool(
    settings: PoolSettings, daemons: Daemons
) -> None:
    [before] = host(settings, daemons).states()
    aside = unmount(settings)
    volumes = host(settings, daemons)
    assert volumes.states() == []
    [warning] = volumes.warnings()
    assert before.id in warning
    assert settings.location in warning
    assert list(Path(settings.location).iterdir()) == []
    Path(settings.location).rmdir()
    aside.rename(settings.location)
    assert [state.id for state in volumes.states()] == [before.id]
    assert volumes.warnings() == []


def test_a_folder_that_vanishes_is_not_created_again(settings: PoolSettings, daemons: Daemons) -> None:
    volumes = host(settings, daemons)
    [state] = volumes.states()
    pool = Pool(drivers.make(settings), daemons, Path(settings.location), state.id)
    volume = pool.make()
    unmount(settings)
    for work in (
        lambda: volumes.create(pool.spec(), VolumeSource(), never),
        lambda: pool.driver.create(pool.spec()),
        lambda: volumes.delete(volume),
        lambda: volumes.contents(state.id),
    ):
        with pytest.raises(PoolUnavailableError):
            work()
    assert list(Path(settings.location).iterdir()) == []
    [now] = volumes.states()
    assert now.id == state.id
    assert "mounted" in now.warning


def test_another_folder_has_a_pool_of_its_own(settings: PoolSettings, daemons: Daemons, tmp_path: Path) -> None:
    [before] = host(settings, daemons).states()
    other = replace(settings, location=str(tmp_path / "other"))
    [after] = host(other, daemons).states()
    assert before.id != after.id
    assert (tmp_path / "other" / "pool.json").exists()
