"""An agent that is killed within a command about a volume: started again, it finds its daemons and finishes."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import shutil
import signal
import uuid
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from compute_agent.contract.build import ImageRef
from compute_agent.contract.volume import VolumeClient, VolumeSource, VolumeSpec
from compute_agent.virt.processes import processes
from compute_agent.volumes import drivers
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.daemons.export_address import Address
from compute_agent.volumes.driver import PoolSettings
from compute_agent.volumes.services import Outside, Volumes
from tests.agent.volumes.conftest import MIB, qemu_io
from tests.support.landing import first_of_each

CLIENT = VolumeClient(attachment_id="a", host_id="h", local=True)
PATTERN = f"-P 5 0 {MIB}"
IMAGE = ImageRef(id="i", name="i", disk_format="raw", size=MIB, hash_algo="sha512", hash_value="00" * 64)


def agent(short: Path) -> Volumes:
    """Return the volumes of a host as an agent that begins has them."""
    daemons = Daemons(short / "run", short / "sockets", Address(lambda: "127.0.0.1"), short / "kept")
    pool = drivers.make(PoolSettings("local", "nbd", str(short / "pool"), "host-1"))
    return Volumes([pool], daemons, Outside(Cached(short / "image"), staging=short / "staging"))


@dataclass
class Cached:
    """An image that is on the host."""

    path: Path

    def get(self, *_: object) -> Any:
        return self


def work(volumes: Volumes, volume: VolumeSpec, command: str) -> Any:
    """Carry out one command."""
    match command:
        case "create":
            return volumes.create(volume, VolumeSource(), lambda: False)
        case "connect":
            return volumes.connect(volume, [CLIENT])
        case "disconnect":
            return volumes.connect(volume, [])
        case "snapshot":
            return volumes.snapshot(volume, "s1")
        case "reimage":
            return volumes.reimage(volume, IMAGE, "c", lambda: False)
        case _:
            return volumes.grow(volume)


def die_at(place: str) -> None:
    """Let this process be killed when it calls what ``place`` names: of a call that has a word, that with this one."""
    place, _, word = place.partition("@")
    module, _, name = place.partition(":")
    owner: Any = importlib.import_module(f"compute_agent.volumes.{module}")
    *path, last = name.split(".")
    for each in path:
        owner = getattr(owner, each)
    known = getattr(owner, last)

    def dying(*given: Any, **named: Any) -> Any:
        if not word or word in given:
            os.kill(os.getpid(), signal.SIGKILL)
        return known(*given, **named)

    setattr(owner, last, dying)


def be_killed(short: Path, volume: VolumeSpec, command: str, place: str) -> None:
    """Be an agent that is killed when it calls what ``place`` names."""
    die_at(place)
    work(agent(short), volume, command)


def running(short: Path) -> list[int]:
    """Return the daemons of the host, by their command lines."""
    values = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            if f"{short}/run/".encode() in (path / "cmdline").read_bytes():
                values.append(int(path.name))
        except OSError:
            continue
    return values


@pytest.mark.slow
def test_daemons_and_sockets_of_nobody_are_ended_when_an_agent_begins(short: Path) -> None:
    volumes = agent(short)
    (pool,) = volumes.states()
    lost, kept = (VolumeSpec(id=str(uuid.uuid4()), pool_id=pool.id, size_gb=1) for _ in range(2))
    try:
        for volume in (lost, kept):
            work(volumes, volume, "create")
            work(volumes, volume, "connect")
        shutil.rmtree(short / "run" / lost.id)
        (short / "kept" / f"{lost.id}.json").unlink()
        assert len(running(short)) == 2
        agent(short).sweep()
        assert len(running(short)) == 1
        assert [path.stem for path in (short / "sockets").iterdir()] == [kept.id]
        assert volumes.daemons.end_all() == [kept.id]
        assert running(short) == list((short / "sockets").iterdir()) == []
    finally:
        for pid in running(short):
            processes.kill(pid)


PLACES = [
    ("create", "files.layers:Layers.save"),
    ("connect", "daemons.daemon:Daemons._start"),
    ("connect", "daemons.daemon_process:Qmp"),
    ("connect", "daemons.exports:open_nodes"),
    ("connect", "daemons.exports:add_export"),
    ("disconnect", "daemons.daemon_process:end"),
    ("disconnect", "daemons.daemon:shutil.rmtree"),
    ("snapshot", "files.qcow2:Qcow2Driver._follow"),
    ("grow", "files.qcow2:Qcow2Driver._follow"),
    ("snapshot", "daemons.qmp:Qmp.execute@blockdev-snapshot"),
    ("grow", "daemons.qmp:Qmp.execute@blockdev-snapshot"),
    ("grow", "daemons.exports:follow"),
    ("reimage", "files.qcow2:Qcow2Driver._lay"),
    ("reimage", "daemons.daemon:Daemons.repair"),
]


KIND = {"grow": "snapshot", "create": "connect"}
"""Commands that are half done in the same way as another one."""


@pytest.mark.slow
@pytest.mark.parametrize(("command", "place"), first_of_each(PLACES, lambda row: KIND.get(row[0], row[0])))
def test_a_killed_agent_comes_even_with_its_daemons(short: Path, command: str, place: str) -> None:
    volumes = agent(short)
    (pool,) = volumes.states()
    volume = VolumeSpec(id=str(uuid.uuid4()), pool_id=pool.id, size_gb=1)
    try:
        if command != "create":
            work(volumes, volume, "create")
        if command not in {"create", "connect"}:
            there = work(volumes, volume, "connect")
            assert "failed" not in qemu_io(f"nbd+unix:///{there.export}?socket={there.socket}", f"write {PATTERN}")
        (short / "image").write_bytes(b"\x07" * MIB)
        before = running(short)
        requested = msgspec.structs.replace(volume, size_gb=2) if command == "grow" else volume
        context = multiprocessing.get_context("spawn")
        process = context.Process(target=be_killed, args=(short, requested, command, place))
        process.start()
        process.join()
        assert process.exitcode == -signal.SIGKILL
        volumes = agent(short)
        volumes.sweep()
        volumes.check()
        if command in {"snapshot", "grow"}:
            assert running(short) == before  # a guest that has it open goes on
        work(volumes, requested, command)
        there = volumes.connect(requested, [CLIENT])
        assert there is not None
        assert len(running(short)) == 1
        reach = f"nbd+unix:///{there.export}?socket={there.socket}"
        pattern = {"create": "-P 0 0 4096", "connect": "-P 0 0 4096", "reimage": f"-P 7 0 {MIB}"}.get(command, PATTERN)
        output = qemu_io(reach, f"read {pattern}", "write -P 6 0 4096", "read -P 6 0 4096", "length")
        assert output.count("bytes at offset") == 3, output
        assert "failed" not in output
        assert volumes.connect(requested, []) is None
        assert running(short) == []
        assert list((short / "sockets").iterdir()) == list((short / "run").iterdir()) == []
    finally:
        volumes.daemons.end_all()
        for pid in running(short):
            processes.kill(pid)
