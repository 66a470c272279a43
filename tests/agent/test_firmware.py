"""The firmware that boots a disk or a CD is read from its first sectors, and nothing in them can do harm."""

from __future__ import annotations

import io
import tracemalloc
import zlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compute_agent.disk_formats import contents
from compute_agent.disk_formats.firmware import firmware_of
from compute_agent.disk_formats.reading import DiskFormatError
from tests.support.boot_disks import BIOS_BOOT, CODE, ESP, LEGACY_BOOT, LINUX, cd, gpt, mbr
from tests.support.tables import each_row

GRUB = CODE.ljust(0x180, b"\0") + b"GRUB \0Geom"
WINDOWS = b"\x33\xc0\x8e\xd0".ljust(0x163, b"\0") + b"Invalid partition table"
DISKS = {
    "nothing at all": ("", bytes(64 << 10)),
    "a file system without partitions": ("", b"\0" * 1080 + b"\x53\xef" + bytes(64 << 10)),
    "an MBR with code": ("bios", mbr((0x83, 0x80), code=CODE)),
    "an MBR without code": ("", mbr((0x83, 0x80))),
    "an MBR with an ESP": ("uefi", mbr((0xEF, 0), (0x83, 0))),
    "an MBR with an ESP and code": ("bios or uefi", mbr((0xEF, 0), (0x83, 0x80), code=CODE)),
    "a GPT with an ESP": ("uefi", gpt(ESP, LINUX)),
    "a GPT of Windows": ("uefi", gpt(ESP, LINUX, code=WINDOWS)),
    "a GPT of GRUB for a BIOS": ("bios", gpt(BIOS_BOOT, LINUX, code=GRUB)),
    "a GPT of syslinux": ("bios", gpt(LINUX, code=CODE, attributes=LEGACY_BOOT)),
    "a GPT of a cloud image": ("bios or uefi", gpt(BIOS_BOOT, ESP, LINUX, code=GRUB)),
    "a GPT with data": ("", gpt(LINUX)),
    "a GPT whose table is elsewhere": ("", gpt(ESP, table=1 << 60)),
    "a GPT with too large a table": ("", gpt(ESP, count=1 << 31)),
    "a GPT with entries of no size": ("", gpt(ESP, width=1)),
    "a protective MBR alone": ("", mbr((0xEE, 0), code=GRUB)),
}
CDS = {
    "a CD with data": ("", bytes(1 << 20)),
    "a CD that nothing starts from": ("", cd()),
    "a CD for a BIOS": ("bios", cd(0)),
    "a CD for UEFI": ("uefi", cd(0xEF)),
    "an installer": ("bios or uefi", cd(0, 0xEF)),
    "a CD whose catalog is elsewhere": ("", cd(0, catalog=1 << 31)),
}


@each_row("name", [*DISKS, *CDS])
def test_what_starts_it(name: str) -> None:
    expected, data = {**DISKS, **CDS}[name]
    assert firmware_of("iso" if name in CDS else "raw", io.BytesIO(data), len(data)) == expected


@settings(max_examples=25)
@given(st.binary(max_size=1100), st.sampled_from(["raw", "iso", "qcow2", "vmdk", "vhd", "vhdx", "vdi"]))
def test_noise_is_no_disk_and_no_error(data: bytes, disk_format: str) -> None:
    assert firmware_of(disk_format, io.BytesIO(data), 1 << 40) in {"", "bios", "uefi", "bios or uefi"}


@settings(max_examples=25)
@given(st.integers(0, 2047), st.integers(0, 255))
def test_a_changed_byte_is_no_error(place: int, value: int) -> None:
    disk = bytearray(gpt(ESP, LINUX, code=GRUB))
    disk[place] = value
    assert firmware_of("raw", io.BytesIO(disk), len(disk)) in {"", "bios", "uefi", "bios or uefi"}


def test_a_disk_is_read_within_bounds() -> None:
    disk = contents.Contents(io.BytesIO(bytes(contents.MOST_READ + 2)), contents.MOST_READ + 2)
    for offset, length in ((-1, 1), (contents.MOST_READ + 2, 1), (0, contents.MOST_READ + 1)):
        with pytest.raises(DiskFormatError):
            disk.read(offset, length)
    disk.read(0, contents.MOST_READ)
    with pytest.raises(DiskFormatError):
        disk.read(0, 1)


def test_a_bomb_is_not_laid_out() -> None:
    """A compressed cluster that becomes far larger than a cluster is cut off."""
    packed = zlib.compressobj(9, zlib.DEFLATED, -12)
    bomb = packed.compress(bytes(8 << 20)) + packed.flush()
    tracemalloc.start()
    with pytest.raises(DiskFormatError):
        contents.inflated(bomb, contents.LARGEST_BLOCK + 1, wbits=-15)
    assert len(contents.inflated(bomb, 65_536, wbits=-15)) == 65_536
    assert tracemalloc.get_traced_memory()[1] < 1 << 20
    tracemalloc.stop()
    with pytest.raises(DiskFormatError):
        contents.inflated(b"\xff" * 100, 65_536, wbits=-15)
