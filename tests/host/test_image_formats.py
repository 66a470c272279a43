"""What hosts make of the formats of other hypervisors, of CDs, and of kernels and ramdisks."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from compute_agent.images.cache import ImageCache
from compute_agent.virt.errors import ImageUnacceptableError, RetryableHostError
from tests.host.test_images import INSTANCE, Portal, left
from tests.support import disks
from tests.support.small_disk import small_disk


@pytest.fixture
def portal() -> Portal:
    return Portal()


@pytest.fixture
def cache(tmp_path: Path, portal: Portal) -> ImageCache:
    return ImageCache(tmp_path / "state", portal, tmp_path / "guests")


@pytest.mark.parametrize("name", disks.GOOD)
def test_a_foreign_disk_becomes_a_raw_one(cache: ImageCache, portal: Portal, tmp_path: Path, name: str) -> None:
    disk_format, driver, options = disks.GOOD[name]
    image = portal.offer(disks.make(tmp_path, driver, options), disk_format)
    made = cache.get(image, INSTANCE)
    assert made.path.read_bytes() == disks.raw_disk()
    assert cache.get(image, INSTANCE).cached


def test_a_vmdk_with_a_footer_becomes_a_raw_disk(cache: ImageCache, portal: Portal, tmp_path: Path) -> None:
    made = cache.get(portal.offer(disks.vmdk_with_footer(tmp_path), "vmdk"), INSTANCE)
    assert made.path.read_bytes() == disks.raw_disk()


@pytest.mark.parametrize("name", disks.BAD)
def test_a_hostile_disk_is_refused(cache: ImageCache, portal: Portal, tmp_path: Path, name: str) -> None:
    make, why = disks.BAD[name]
    with pytest.raises(ImageUnacceptableError, match=why):
        cache.get(portal.offer(make(tmp_path), name.removeprefix("fixed_").partition("_")[0]), INSTANCE)
    assert left(tmp_path) == []


def test_what_passes_the_checks_still_opens_no_other_file(
    cache: ImageCache, portal: Portal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("compute_agent.images.cache.inspect", lambda path, image: disks.SIZE)
    made = cache.get(portal.offer(disks.vmdk_with_parent(tmp_path), "vmdk"), INSTANCE)
    assert disks.SECRET not in made.path.read_bytes()


def test_another_host_is_tried_when_the_disk_fills_up_meanwhile(
    portal: Portal, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The image is good: it was called unreadable, and its server failed for good."""
    monkeypatch.setattr(ImageCache, "_has_room", lambda self, size: True)
    image = portal.offer(disks.make(tmp_path, "vmdk", "subformat=streamOptimized", random=True), "vmdk")
    with small_disk(tmp_path / "small", "6M") as folder:
        with pytest.raises(RetryableHostError, match="no space"):
            ImageCache(folder / "state", portal, tmp_path / "guests").get(image, INSTANCE)
        assert left(folder) == []


def test_the_bits_of_a_fixed_vhd_are_another_disk_as_raw(cache: ImageCache, portal: Portal, tmp_path: Path) -> None:
    path = disks.make(tmp_path, "vpc", "subformat=fixed,force_size=on")
    raw = cache.get(portal.offer(path, "raw", "image-1"), INSTANCE)
    vhd = cache.get(portal.offer(path, "vhd", "image-2"), INSTANCE)
    assert (raw.path.stat().st_size, vhd.path.stat().st_size) == (disks.SIZE + disks.SECTOR, disks.SIZE)


@pytest.mark.parametrize("hybrid", [True, False])
def test_a_cd_is_kept_as_it_came(cache: ImageCache, portal: Portal, tmp_path: Path, *, hybrid: bool) -> None:
    path = tmp_path / "live.iso"
    path.write_bytes(disks.iso(hybrid=hybrid))
    assert cache.get(portal.offer(path, "iso"), INSTANCE).path.read_bytes() == disks.iso(hybrid=hybrid)


def test_a_cd_with_a_table_of_both_kinds_is_taken(cache: ImageCache, portal: Portal, tmp_path: Path) -> None:
    """Ubuntu's CDs have a GPT beside their own partition, which the portal takes."""
    path = tmp_path / "ubuntu.iso"
    cd = bytearray(disks.iso())
    cd[462:478] = struct.pack("<B3BB3BII", 0, 0, 2, 0, 0xEE, 0, 9, 0, 1, 2047)
    path.write_bytes(cd)
    assert cache.get(portal.offer(path, "iso"), INSTANCE).path.read_bytes() == cd


@pytest.mark.parametrize("disk_format", ["aki", "ari"])
def test_kernels_and_ramdisks_are_kept_as_they_came(
    cache: ImageCache, portal: Portal, tmp_path: Path, disk_format: str
) -> None:
    path = tmp_path / "vmlinuz"
    path.write_bytes(b"a kernel of 1001 bytes".ljust(1001, b"k"))
    made = cache.get(portal.offer(path, disk_format), INSTANCE)
    assert made.path.read_bytes() == path.read_bytes()
    assert made.path.stat().st_mode & 0o777 == 0o400
