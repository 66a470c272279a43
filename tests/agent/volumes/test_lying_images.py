"""Images whose bits are not what their records say: no volume is made of them, and nothing is left."""

from __future__ import annotations

import subprocess
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import ImageRef
from compute_agent.contract.volume import VolumeSource
from compute_agent.images.cache import ImageCache
from compute_agent.virt.driver import never
from compute_agent.virt.errors import ImageFetchError, ImageUnacceptableError
from compute_agent.volumes.services import Outside, Volumes
from tests.agent.volumes.conftest import MIB, Pool
from tests.agent.volumes.test_drivers import FILES
from tests.host.test_images import Portal

pytestmark = pytest.mark.slow


def qcow2(folder: Path, size: str, *more: str) -> Path:
    path = folder / "image.qcow2"
    subprocess.run(["qemu-img", "create", "-q", "-f", "qcow2", *more, str(path), size], check=True)
    return path


def larger(folder: Path, portal: Portal) -> ImageRef:
    """A few KiB on the wire, and a disk that is larger than the volume."""
    return replace(portal.offer(qcow2(folder, "3G"), "qcow2"), min_disk=1)


def backed(folder: Path, portal: Portal) -> ImageRef:
    secret = folder / "secret"
    secret.write_bytes(b"secret of the host".ljust(MIB))
    return portal.offer(qcow2(folder, "1M", "-b", str(secret), "-F", "raw"), "qcow2")


def with_data_file(folder: Path, portal: Portal) -> ImageRef:
    return portal.offer(qcow2(folder, "1M", "-o", f"data_file={folder / 'data'},data_file_raw=on"), "qcow2")


def cut(folder: Path, portal: Portal) -> ImageRef:
    """The record is of this file: it has lost its end before."""
    path = qcow2(folder, "64M")
    subprocess.run(["qemu-io", "-f", "qcow2", "-c", f"write -P 5 0 {8 * MIB}", str(path)], check=True)
    path.write_bytes(path.read_bytes()[: 2 * MIB])
    return portal.offer(path, "qcow2")


def short(folder: Path, portal: Portal) -> ImageRef:
    image = portal.offer(qcow2(folder, "1M"), "qcow2")
    return replace(image, size=image.size + 1)


def long(folder: Path, portal: Portal) -> ImageRef:
    image = portal.offer(qcow2(folder, "1M"), "qcow2")
    return replace(image, size=image.size - 1)


def other(folder: Path, portal: Portal) -> ImageRef:
    return replace(portal.offer(qcow2(folder, "1M"), "qcow2"), hash_value="0" * 128)


LIES: list[Callable[[Path, Portal], ImageRef]] = [larger, backed, with_data_file, cut, short, long, other]


@FILES
@pytest.mark.parametrize("lie", LIES, ids=[lie.__name__ for lie in LIES])
def test_an_image_that_lies_becomes_no_volume(
    pool: Pool, tmp_path: Path, lie: Callable[[Path, Portal], ImageRef]
) -> None:
    portal, source = Portal(), tmp_path / "source"
    source.mkdir()
    cache = ImageCache(tmp_path / "images", portal, tmp_path / "guests")
    volumes = Volumes([pool.driver], pool.daemons, Outside(cache, staging=tmp_path / "staging"))
    image, volume = lie(source, portal), pool.spec(1)
    volumes.states()  # the pool has its secret from then on
    before = sorted(pool.folder.rglob("*"))
    for _ in range(2):
        with pytest.raises((ImageUnacceptableError, ImageFetchError)) as caught:
            volumes.create(volume, VolumeSource(image=image), never)
        assert str(tmp_path) not in caught.value.message
    assert pool.driver.contents() == []
    pool.driver.sweep()
    assert sorted(pool.folder.rglob("*")) == before
    good = portal.offer(qcow2(source, "8M"), "qcow2", str(uuid.uuid4()))
    volumes.create(volume, VolumeSource(image=good), never)
    assert pool.is_zero(volume)
