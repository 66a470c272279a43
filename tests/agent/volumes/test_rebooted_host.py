"""A machine that starts anew: its volumes are served again as guests are defined with them, here and elsewhere."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import VolumeConnection
from compute_agent.contract.volume import VolumeClient, VolumeSpec
from compute_agent.virt.fake.images import FakeImageCache
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.daemons.export_address import Address
from compute_agent.volumes.services import Outside, Volumes
from tests.agent.volumes.conftest import MIB, Pool, qemu_io
from tests.agent.volumes.test_drivers import KEY, ONE_OF_FILES, kill
from tests.support.landing import diagonal

CLIENT = VolumeClient(attachment_id="a", host_id="h", local=True)
OTHER = replace(CLIENT, attachment_id="b")


def agent(pool: Pool, short: Path) -> Volumes:
    """Return the volumes of the host as an agent that begins has them, after what it does at once."""
    pool.daemons = Daemons(short / "run", short / "sockets", Address(lambda: "127.0.0.1"), short / "kept")
    volumes = Volumes([pool.driver], pool.daemons, Outside(FakeImageCache()))
    volumes.sweep()
    volumes.check()
    return volumes


def reboot(pool: Pool, short: Path, *volumes: VolumeSpec) -> None:
    """Lose what is in memory, and all processes."""
    for volume in volumes:
        kill(pool, volume)
    shutil.rmtree(short / "run")


def reach(connection: VolumeConnection | None) -> str:
    assert connection is not None
    return f"nbd+unix:///{connection.export}?socket={connection.socket}"


@pytest.mark.slow
@ONE_OF_FILES
@diagonal(what=["agent", "machine"], notified=[False, True])
def test_a_grown_volume_is_served_as_guests_are_defined_with_it(
    pool: Pool, short: Path, what: str, notified: bool
) -> None:
    volumes, volume = agent(pool, short), pool.make()
    names = [reach(volumes.connect(volume, [CLIENT]))]
    for size in (2, 3):
        grown = replace(volume, size_gb=size)
        names = [*names[-1:], reach(volumes.grow(grown))]
        if notified or size == 2:
            assert names[1:] == [reach(volumes.connect(grown, [CLIENT]))]
            names = names[1:]
    assert "wrote" in qemu_io(names[-1], f"write -P 5 {(2 << 30) - MIB} {MIB}")
    if what == "machine":
        reboot(pool, short, volume)
    volumes = agent(pool, short)
    for name in names:  # also one that a guest has not left yet
        assert "failed" not in qemu_io(name, f"read -P 5 {(2 << 30) - MIB} {MIB}"), name
    assert reach(volumes.connect(grown, [CLIENT])) == names[-1]
    assert reach(volumes.connect(grown, [OTHER])) not in names
    volumes.connect(grown, [])
    for _ in range(2):  # what was given back is served no more
        assert pool.daemons.descriptions() == []
        volumes = agent(pool, short)
    assert list((short / "kept").iterdir()) == []


@pytest.mark.deep
@pytest.mark.slow
@ONE_OF_FILES
def test_an_encrypted_volume_waits_for_its_key_and_is_served_under_the_same_name(pool: Pool, short: Path) -> None:
    volumes, volume = agent(pool, short), pool.make(key=KEY)
    volumes.connect(volume, [CLIENT])
    volumes.grow(larger := replace(volume, size_gb=2))
    before = reach(volumes.connect(larger, [CLIENT]))
    assert "wrote" in qemu_io(before, f"write -P 5 0 {MIB}")
    assert all(KEY not in path.read_text() for path in (short / "kept").iterdir())
    reboot(pool, short, volume)
    volumes = agent(pool, short)
    assert pool.daemons.descriptions() == []
    assert [state.unserved for state in volumes.states()] == [[volume.id]]
    assert reach(volumes.connect(larger, [CLIENT])) == before
    assert "failed" not in qemu_io(before, f"read -P 5 0 {MIB}")
    assert [state.unserved for state in volumes.states()] == [[]]
