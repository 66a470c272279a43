"""Volumes in files whose agent was killed in the middle of a snapshot, or whose pool others are busy with."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Any

import pytest

from compute_agent.volumes.daemons.qmp import DaemonError
from compute_agent.volumes.errors import VolumeInUseError
from compute_agent.volumes.files import layers
from tests.agent.volumes.conftest import MIB, Pool, qemu_io
from tests.agent.volumes.test_drivers import FILES, kill, snapshot, uri


@pytest.mark.slow
@FILES
def test_a_killed_snapshot_is_finished_by_its_repetition(pool: Pool) -> None:
    volume = pool.make()
    reach = uri(pool, volume)
    qemu_io(reach, f"write -P 1 0 {MIB}")
    for name in ("s1", "s2"):  # the state is there, and the daemon still writes to the layer below
        with pytest.raises(DaemonError):
            pool.driver.snapshot(volume, name, NoDaemon())
    qemu_io(reach, f"write -P 2 0 {MIB}")
    snapshot(pool, volume, "s2")
    qemu_io(reach, f"write -P 3 0 {MIB}")
    assert pool.reads(volume, 2, snapshot="s2")
    kill(pool, volume)
    assert uri(pool, volume) == reach
    assert "failed" not in qemu_io(reach, f"read -P 3 0 {MIB}")


@FILES
def test_who_comes_after_a_killed_snapshot_gets_the_data(pool: Pool) -> None:
    volume = pool.make()
    qemu_io(uri(pool, volume), f"write -P 1 0 {MIB}")
    with pool.daemons.opened(volume.id) as daemon, pytest.raises(DaemonError):
        pool.driver.snapshot(volume, "s1", HalfDaemon(daemon))
    assert "failed" not in qemu_io(uri(pool, volume), f"read -P 1 0 {MIB}")


@FILES
def test_what_others_change_is_swept_another_time(pool: Pool) -> None:
    busy, free = pool.make(), pool.make()
    for volume in (busy, free):
        (pool.folder / "volumes" / volume.id / "9.qcow2").touch()
    with pool.driver.layers.locked(busy.id), pool.driver.layers.locked_images():
        assert pool.driver.sweep() == [f"layer 9 of volume {free.id}"]
    assert pool.driver.sweep() == [f"layer 9 of volume {busy.id}"]


@FILES
@pytest.mark.parametrize("given_back", [True, False])
def test_a_lock_that_a_starting_program_has_for_a_moment_is_waited_for(
    pool: Pool, monkeypatch: pytest.MonkeyPatch, *, given_back: bool
) -> None:
    volume, pauses = pool.make(), list[float]()
    copy = os.dup(lock := pool.driver.layers.hold(volume.id, "host-1"))  # as a program has it that is not loaded yet
    os.close(lock)

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if given_back and len(pauses) == 3:
            os.close(copy)

    monkeypatch.setattr(layers.time, "sleep", sleep)
    if given_back:
        os.close(pool.driver.layers.hold(volume.id, "host-1"))
    else:
        with pytest.raises(VolumeInUseError):
            pool.driver.layers.hold(volume.id, "host-1")
        os.close(copy)
    assert len(pauses) == (3 if given_back else layers.TRIES - 1)


@dataclass
class HalfDaemon:
    """A daemon that the agent is killed at, before a layer is laid on the others."""

    daemon: Any

    def execute(self, command: str, /, **arguments: object) -> Any:
        if command == "blockdev-snapshot":
            raise DaemonError(f"{command}: the agent was killed")
        return self.daemon.execute(command, **arguments)


class NoDaemon:
    """A daemon that is told nothing: the agent was killed before."""

    def execute(self, command: str, /, **arguments: object) -> object:
        raise DaemonError(f"{command}: the agent was killed")
