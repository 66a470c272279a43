"""A volume that several guests have at once: each has an export of its own, which ends without the others'."""

from __future__ import annotations

import base64
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import VolumeConnection
from compute_agent.contract.volume import VolumeClient, VolumeSpec, client_export
from tests.agent.volumes.conftest import MIB, Pool, qemu_io
from tests.agent.volumes.test_drivers import FILES, ONE_OF_FILES, kill

KEY = base64.b64encode(b"secret").decode()
FIRST, SECOND, THIRD = (VolumeClient(attachment_id=name, host_id="h", local=True) for name in ("a", "b", "c"))


def reach(connection: VolumeConnection, client: VolumeClient) -> str:
    return f"nbd+unix:///{client_export(connection.export, client.attachment_id)}?socket={connection.socket}"


class Guest:
    """Has one connection, and opens another when that is over only if ``again``."""

    def __init__(self, connection: VolumeConnection, client: VolumeClient, *, again: bool) -> None:
        server = f"file.server.type=unix,file.server.path={connection.socket}"
        name = client_export(connection.export, client.attachment_id)
        image = f"driver=raw,file.driver=nbd,{server},file.export={name},file.reconnect-delay={5 if again else 0}"
        self.process = subprocess.Popen(
            ["qemu-io", "--image-opts", image],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )  # fmt: skip

    def writes(self, pattern: int, offset: int) -> bool:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(f"write -P {pattern} {offset} 4096\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if "wrote" in line:
            self.process.stdout.readline()  # how fast
        return "wrote 4096/4096" in line


@contextmanager
def guest(connection: VolumeConnection, client: VolumeClient, *, again: bool) -> Iterator[Guest]:
    result = Guest(connection, client, again=again)
    try:
        yield result
    finally:
        result.process.kill()
        result.process.communicate()


def shared(pool: Pool, *, key: str = "") -> VolumeSpec:
    return replace(pool.make(key=key), multiattach=True)


@pytest.mark.slow
@pytest.mark.parametrize("key", ["", pytest.param(KEY, marks=pytest.mark.deep)], ids=["plain", "encrypted"])
@ONE_OF_FILES
def test_a_guest_that_is_taken_out_by_force_writes_no_more_and_the_others_notice_nothing(pool: Pool, key: str) -> None:
    volume = shared(pool, key=key)
    there = pool.daemons.connect(pool.driver, volume, [FIRST, SECOND])
    with guest(there, FIRST, again=True) as taken, guest(there, SECOND, again=False) as stays:
        assert taken.writes(1, 0)
        assert stays.writes(2, MIB)
        assert pool.daemons.connect(pool.driver, volume, [SECOND, THIRD]) == there
        assert not taken.writes(3, 0)
        assert stays.writes(4, MIB)
        with guest(there, THIRD, again=False) as new:
            assert new.writes(5, 2 * MIB)
    output = qemu_io(reach(there, SECOND), "read -P 1 0 4096", f"read -P 4 {MIB} 4096", f"read -P 5 {2 * MIB} 4096")
    assert (output.count("read 4096/4096"), "failed" in output) == (3, False)


@pytest.mark.slow
@FILES
def test_it_grows_and_comes_back_for_each_of_its_guests(pool: Pool) -> None:
    volume = shared(pool)
    reader = replace(SECOND, read_only=True)
    before = pool.daemons.connect(pool.driver, volume, [FIRST, reader])
    larger = replace(volume, size_gb=2)
    with pool.daemons.opened(volume.id) as daemon:
        pool.driver.grow(larger, daemon)
    after = pool.daemons.export_again(pool.driver, larger)
    assert after is not None
    with guest(before, FIRST, again=False) as old:
        assert old.writes(1, 0), "it has not followed yet"
        assert "wrote" in qemu_io(reach(after, FIRST), f"write -P 6 {(2 << 30) - MIB} 4096")
        assert pool.daemons.connect(pool.driver, larger, [FIRST, reader]) == after
        assert not old.writes(2, 0)
    kill(pool, volume)
    (description,) = pool.daemons.descriptions()
    assert pool.daemons.repair(pool.driver, description)
    for client in (FIRST, reader):
        assert "read 4096/4096" in qemu_io(
            reach(after, client), f"read -P 6 {(2 << 30) - MIB} 4096", read_only=client.read_only
        )
    assert "wrote" not in qemu_io(reach(after, reader), "write -P 9 0 4096")
