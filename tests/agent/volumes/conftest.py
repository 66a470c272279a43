"""Pools of every driver, with real storage daemons and QEMU's programs where the driver has real data."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from compute_agent.contract.volume import VolumeEncryption, VolumeSpec
from compute_agent.volumes import drivers, services, watch
from compute_agent.volumes.daemons.daemon import Daemons
from compute_agent.volumes.daemons.export_address import Address
from compute_agent.volumes.driver import PoolSettings, VolumeDriver
from compute_agent.volumes.drivers import rbd
from compute_agent.volumes.drivers.rbd import RbdDriver
from compute_agent.volumes.rbd.images import CephImages

MIB = 1 << 20
PATIENT = 120.0
"""Seconds within which a pool of a busy machine answers; tests of silent pools keep the five of the product."""


def own_ports(first: int, many: int) -> tuple[int, int]:
    """Return the first and last of ports that no other worker uses: one is chosen before a daemon listens at it."""
    first += 200 * int(os.environ.get("PYTEST_XDIST_WORKER", "gw0").removeprefix("gw"))
    return first, first + many - 1


@contextmanager
def long_answers() -> Iterator[None]:
    """Accept answers of pools that take up to ``PATIENT`` seconds."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(watch, "ANSWERS_WITHIN", PATIENT)
        patch.setattr(services, "ANSWERS_WITHIN", PATIENT)
        yield


@pytest.fixture(autouse=True)
def patient() -> Iterator[None]:
    """Let no test depend on how soon a pool answers; a module about silent pools overrides this fixture."""
    with long_answers():
        yield


@dataclass
class Pool:
    """One pool, and the daemons of a host that serves it."""

    driver: VolumeDriver
    daemons: Daemons
    folder: Path
    id: str

    def spec(self, size_gb: int = 1, *, key: str = "", volume_id: str = "") -> VolumeSpec:
        encryption = VolumeEncryption(key=key) if key else None
        return VolumeSpec(id=volume_id or str(uuid.uuid4()), pool_id=self.id, size_gb=size_gb, encryption=encryption)

    def make(self, size_gb: int = 1, *, key: str = "") -> VolumeSpec:
        volume = self.spec(size_gb, key=key)
        self.driver.create(volume)
        return volume

    def io(self, volume: VolumeSpec, *commands: str, snapshot: str = "") -> str:
        """Run commands of qemu-io on a closed volume, or on a snapshot."""
        if snapshot:
            opening, held = self.driver.snapshot_opening(volume, snapshot), []
        else:
            opening, held = self.driver.opening(volume), self.driver.hold(volume.id)
        if volume.encryption is None:
            for descriptor in held:
                os.close(descriptor)
            return qemu_io("json:" + json.dumps(opening.blockdev), *commands, read_only=bool(snapshot))
        name = uuid.uuid4().hex
        with self.daemons.serving(name, opening, held, read_only=bool(snapshot)) as socket:
            for descriptor in held:
                os.close(descriptor)
            return qemu_io(f"nbd+unix:///{name}?socket={socket}", *commands, read_only=bool(snapshot))

    def write(self, volume: VolumeSpec, pattern: int, offset: int = 0, length: int = MIB) -> None:
        self.io(volume, f"write -P {pattern} {offset} {length}")

    def reads(self, volume: VolumeSpec, pattern: int, offset: int = 0, length: int = MIB, snapshot: str = "") -> bool:
        return "failed" not in self.io(volume, f"read -P {pattern} {offset} {length}", snapshot=snapshot)

    def is_zero(self, volume: VolumeSpec) -> bool:
        """Whether all of a closed volume without a key reads as zeros; what was never written is not read for it."""
        opening, held = self.driver.opening(volume), self.driver.hold(volume.id)
        for descriptor in held:
            os.close(descriptor)
        with tempfile.NamedTemporaryFile() as zeros:
            zeros.truncate(volume.size_gb << 30)
            image = "json:" + json.dumps(opening.blockdev)
            done = subprocess.run(["qemu-img", "compare", "-q", "-F", "raw", image, zeros.name], timeout=60)
        assert done.returncode in {0, 1}
        return done.returncode == 0


def qemu_io(uri: str, *commands: str, read_only: bool = False) -> str:
    words = [word for command in commands for word in ("-c", command)]
    extra = ["-r", "-U"] if read_only else []
    form = [] if uri.startswith("json:") else ["-f", "raw"]
    done = subprocess.run(
        ["qemu-io", "-t", "writeback", *extra, *form, *words, uri], capture_output=True, text=True, timeout=60
    )
    return done.stdout + done.stderr


@pytest.fixture
def short() -> Iterator[Path]:
    """A folder with a name short enough for sockets."""
    folder = Path(tempfile.mkdtemp(prefix="nv-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder)


@pytest.fixture
def daemons(short: Path) -> Iterator[Daemons]:
    result = Daemons(short / "run", short / "sockets", Address(lambda: "127.0.0.1"), short / "kept")
    yield result
    result.end_all()


@pytest.fixture(
    params=[
        "nbd",
        pytest.param("dir", marks=pytest.mark.deep),
        pytest.param("rbd", marks=[pytest.mark.ceph, pytest.mark.deep]),
    ]
)
def pool(request: pytest.FixtureRequest, tmp_path: Path, daemons: Daemons) -> Iterator[Pool]:
    """A pool with real data: of files at landing, for both drivers of files share the code."""
    place = str(tmp_path / "pool")
    if request.param == "rbd":
        ceph = request.getfixturevalue("ceph")
        place = f"{ceph.pool}?conf={ceph.conf}&id={ceph.client}"
    driver = drivers.make(PoolSettings("local", request.param, place, "host-1"))
    yield Pool(driver, daemons, tmp_path / "pool", driver.prepare())
    if isinstance(driver, RbdDriver):
        daemons.end_all()
        _empty(driver.images)


def _empty(images: CephImages) -> None:
    """Leave nothing of a test in the pool that all tests share."""
    for image in images.names():
        if image.startswith((rbd.VOLUME, rbd.IMAGE)):
            images.remove(image)
    while images.sweep((rbd.VOLUME, rbd.IMAGE)):
        pass
