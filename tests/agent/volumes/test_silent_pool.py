"""A Ceph that does not answer holds up what is about its own pool, and nothing else of the host."""

from __future__ import annotations

import asyncio
import os
import signal
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from compute_agent.contract.messages import Command
from compute_agent.contract.volume import (
    CreateVolumeRequest,
    PoolContents,
    PoolContentsCall,
    VolumeSpec,
)
from compute_agent.virt.fake.images import FakeImageCache
from compute_agent.volumes import drivers
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.driver import PoolSettings
from compute_agent.volumes.errors import PoolUnavailableError
from compute_agent.volumes.services import Outside, Volumes
from compute_agent.volumes.watch import SILENT
from tests.agent.cast import Stage, build, make_spec, make_stage, on_stage, power
from tests.agent.volumes.conftest import long_answers
from tests.agent.volumes.test_commands import command
from tests.support.ceph import CephForTests, ceph_of_its_own

pytestmark = [pytest.mark.deep, pytest.mark.ceph, pytest.mark.slow]

AT_ONCE = 12
"""More than there are threads of any kind."""


@pytest.fixture(autouse=True)
def patient() -> None:
    """Keep the product's limit: silence is the subject here."""


@contextmanager
def stopped(ceph: CephForTests) -> Iterator[None]:
    """Nobody of the cluster answers for the time of the block."""
    pids = [ceph.pid(name) for name in ("mon.a", "osd.0")]
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def volumes_of(ceph: CephForTests, tmp_path: Path, daemons: Daemons) -> Volumes:
    place = f"{ceph.pool}?conf={ceph.conf}&id={ceph.client}"
    pools = [PoolSettings("ceph", "rbd", place, "host-1"), PoolSettings("local", "nbd", str(tmp_path / "p"), "host-1")]
    return Volumes([drivers.make(pool) for pool in pools], daemons, Outside(FakeImageCache()))


def make_in(pool_id: str) -> Command:
    volume = VolumeSpec(id=str(uuid.uuid4()), pool_id=pool_id, size_gb=1)
    return command(CreateVolumeRequest(volume=volume), volume.id)


async def warnings(stage: Stage) -> list[str]:
    report = await stage.host.audit("192.0.2.1")
    assert report.pools is not None
    return [pool.warning for pool in report.pools]


async def test_a_silent_ceph_holds_up_nothing_but_its_own_pool(tmp_path: Path, daemons: Daemons) -> None:
    with ceph_of_its_own() as ceph:
        volumes = volumes_of(ceph, tmp_path, daemons)
        with long_answers():
            far, near = (state.id for state in volumes.states())
        async with on_stage(make_stage(tmp_path, volumes=volumes)) as stage:
            with stopped(ceph):
                waiting = [make_in(far) for _ in range(AT_ONCE)]
                for each in waiting:
                    stage.host.accept(each)
                calls = [
                    asyncio.ensure_future(stage.host.answer(PoolContentsCall(pool_id=far))) for _ in range(AT_ONCE)
                ]
                assert await warnings(stage) == [SILENT, ""]
                await _goes_on(stage, near)
                with pytest.raises(PoolUnavailableError):
                    volumes.driver(far)
                assert not stage.ends(waiting[0])
                assert not calls[0].done()
            for each in waiting:
                await stage.end_of(each)
            await asyncio.gather(*calls)
            while await warnings(stage) != ["", ""]:
                await asyncio.sleep(1)
            assert (await stage.do(make_in(far))).kind == "finished"


async def _goes_on(stage: Stage, near: str) -> None:
    """All that a host does, while calls for the silent pool have all the threads that there are for it."""
    await stage.host.check()
    await stage.host.prune()
    assert await stage.host.guests() == []
    assert isinstance(await stage.host.answer(PoolContentsCall(pool_id=near)), PoolContents)
    spec = make_spec()
    for each in (build(spec), power(spec.uuid, "stop"), make_in(near)):
        assert (await stage.do(each)).kind == "finished"


async def test_an_agent_starts_while_ceph_is_silent(tmp_path: Path, daemons: Daemons) -> None:
    with ceph_of_its_own() as ceph:
        volumes = volumes_of(ceph, tmp_path, daemons)
        with stopped(ceph):
            async with on_stage(make_stage(tmp_path, volumes=volumes)) as stage:
                assert await warnings(stage) == [""]
                (near,) = (state.id for state in volumes.states())
                await _goes_on(stage, near)
