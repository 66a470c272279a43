"""Disks in the formats of other hypervisors, made by qemu-img, and ones that would make a host read other files."""

from __future__ import annotations

import functools
import os
import struct
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path

SECTOR = 512
SIZE = 4 << 20
SECRET = b"the host's own secret"

GOOD: dict[str, tuple[str, str, str]] = {
    "VMDK": ("vmdk", "vmdk", ""),
    "stream-optimised VMDK": ("vmdk", "vmdk", "subformat=streamOptimized"),
    "dynamic VHD": ("vhd", "vpc", "subformat=dynamic,force_size=on"),
    "fixed VHD": ("vhd", "vpc", "subformat=fixed,force_size=on"),
    "VHDX": ("vhdx", "vhdx", ""),
    "fixed VHDX": ("vhdx", "vhdx", "subformat=fixed"),
    "VDI": ("vdi", "vdi", ""),
    "static VDI": ("vdi", "vdi", "static=on"),
    "qcow2": ("qcow2", "qcow2", "compat=1.1"),
    "qcow2 with large clusters": ("qcow2", "qcow2", "cluster_size=2M"),
}
"""Name → Glance's format, QEMU's, its options."""


def raw_disk() -> bytes:
    """A disk with something at both ends, and a hole between."""
    return b"beginning".ljust(SECTOR, b"\1") + b"\0" * (SIZE - 2 * SECTOR) + b"end".rjust(SECTOR, b"\2")


def make(folder: Path, driver: str, options: str = "", *, random: bool = False) -> Path:
    """Convert the raw disk, or one full of noise."""
    target = folder / f"disk.{driver}"
    if random:
        _convert(os.urandom(SIZE), target, driver, options)
    else:
        target.write_bytes(_converted(driver, options))
    return target


@functools.cache
def _converted(driver: str, options: str) -> bytes:
    """Return the raw disk in a format: each is made once in a run."""
    with tempfile.TemporaryDirectory() as folder:
        target = Path(folder) / f"disk.{driver}"
        _convert(raw_disk(), target, driver, options)
        return target.read_bytes()


def _convert(data: bytes, target: Path, driver: str, options: str) -> None:
    source = target.with_name("disk.raw")
    source.write_bytes(data)
    words = ["-o", options] if options else []
    command = ["qemu-img", "convert", "-f", "raw", "-O", driver, *words, str(source), str(target)]
    subprocess.run(command, check=True, capture_output=True)


def iso(*, hybrid: bool = True) -> bytes:
    """The volume descriptors of a CD; a hybrid one has a partition table as well."""
    picture = bytearray(b"\0" * 32_768 + b"\1CD001\1".ljust(1 << 20, b"\0"))
    if hybrid:
        picture[446:462] = struct.pack("<B3BB3BII", 0x80, 0, 2, 0, 0x17, 0, 9, 0, 0, 2048)
        picture[510:512] = b"\x55\xaa"
    return bytes(picture)


def _changed(path: Path, *changes: tuple[int, bytes]) -> Path:
    data = bytearray(path.read_bytes())
    for at, new in changes:
        data[at : at + len(new)] = new
    path.write_bytes(data)
    return path


def _with_description(folder: Path, change: Callable[[bytes], bytes]) -> Path:
    path = make(folder, "vmdk")
    text = path.read_bytes()[SECTOR : 21 * SECTOR].rstrip(b"\0")
    return _changed(path, (SECTOR, change(text).ljust(20 * SECTOR, b"\0")))


def _secret(folder: Path) -> Path:
    path = folder / "secret"
    path.write_bytes(SECRET.ljust(SIZE, b"!"))
    return path


def vmdk_with_parent(folder: Path) -> Path:
    """QEMU opens what ``parentFileNameHint`` names for every part of the disk that is not in the file."""
    hint = f'parentFileNameHint="{_secret(folder)}"\n'.encode()
    return _with_description(folder, lambda text: text.replace(b"parentCID=ffffffff", b"parentCID=00000001\n" + hint))


def vmdk_with_hidden_parent(folder: Path) -> Path:
    """The same behind a NUL, where who reads the description as text does not look."""
    hint = f'\0parentFileNameHint="{_secret(folder)}"\n'.encode()
    return _with_description(folder, lambda text: text + hint)


def vmdk_of_two_extents(folder: Path) -> Path:
    """A second extent beside the file's own."""
    return _with_description(folder, lambda text: text.replace(b"# The Disk", b'RW 8 SPARSE "other.vmdk"\n# The Disk'))


def vmdk_with_flat_extent(folder: Path) -> Path:
    """The extent is a file of the host's, next to this one."""
    return _with_description(folder, lambda text: text.replace(b' SPARSE "disk.vmdk"', b' FLAT "secret" 0'))


def vmdk_without_capacity(folder: Path) -> Path:
    """Makes QEMU take the description for the disk."""
    return _changed(make(folder, "vmdk"), (12, bytes(8)))


def vmdk_description(folder: Path) -> Path:
    """Nothing but text."""
    _secret(folder)
    text = '# Disk DescriptorFile\nversion=1\nCID=fffffffe\nparentCID=ffffffff\ncreateType="monolithicSparse"\n'
    path = folder / "text.vmdk"
    path.write_bytes((text + f'RW {SIZE // SECTOR} FLAT "secret" 0\n').encode().ljust(64 * 1024, b"\n"))
    return path


def vmdk_with_tables_outside(folder: Path) -> Path:
    """Its grain directory lies behind its end."""
    return _changed(make(folder, "vmdk"), (56, struct.pack("<Q", 1 << 40)))


def vmdk_of_tiny_tables(folder: Path) -> Path:
    """Has a table for each part of the disk: millions that somebody has to read."""
    return _changed(make(folder, "vmdk"), (44, struct.pack("<I", 1)))


def vmdk_with_footer(folder: Path) -> Path:
    """Where its tables are is said at its end, as VMware's own tools do it."""
    path = make(folder, "vmdk", "subformat=streamOptimized")
    data = path.read_bytes()
    mark = struct.pack("<QII", 1, 0, 3).ljust(SECTOR, b"\0")
    path.write_bytes(data[:56] + b"\xff" * 8 + data[64:] + mark + data[:SECTOR] + bytes(SECTOR))
    return path


def vmdk_with_another_footer(folder: Path) -> Path:
    """Its footer, which counts, says another size than its header."""
    path = vmdk_with_footer(folder)
    return _changed(path, (path.stat().st_size - 2 * SECTOR + 12, struct.pack("<Q", 1 << 30)))


def vhd_with_parent(folder: Path) -> Path:
    """A differencing disk."""
    return _changed(make(folder, "vpc"), (60, struct.pack(">I", 4)))


def vhd_of_a_parent(folder: Path) -> Path:
    """A dynamic disk whose table names a parent."""
    return _changed(make(folder, "vpc"), (512 + 40, b"\1" * 16))


def vhd_cut_short(folder: Path) -> Path:
    """Its blocks are missing."""
    path = make(folder, "vpc")
    path.write_bytes(path.read_bytes()[:2048])
    return path


def vhd_too_large(folder: Path) -> Path:
    """It claims more than its blocks can hold."""
    return _changed(make(folder, "vpc"), (48, struct.pack(">Q", 1 << 60)))


def vhd_with_a_header_nowhere(folder: Path) -> Path:
    """Its second header lies where no file reaches."""
    return _changed(make(folder, "vpc"), (16, struct.pack(">Q", 1 << 62)))


def vhd_with_a_header_beyond_all(folder: Path) -> Path:
    """Its second header lies at no offset that there is."""
    return _changed(make(folder, "vpc"), (16, struct.pack(">Q", 1 << 63)))


def vhd_without_footer(folder: Path) -> Path:
    """A raw disk."""
    path = folder / "disk.raw"
    path.write_bytes(raw_disk())
    return path


def fixed_vhd_cut_short(folder: Path) -> Path:
    """Its footer says more than there is."""
    path = make(folder, "vpc", "subformat=fixed")
    data = path.read_bytes()
    path.write_bytes(data[: SIZE // 2] + data[-SECTOR:])
    return path


def _vhdx_parameters(path: Path) -> int:
    """Where the flags of the file's parameters are."""
    data = path.read_bytes()
    guid = bytes.fromhex("3767a1ca36fa434db3b633f0aa44e76b")
    entry = data.index(guid)
    metadata = data.rindex(b"metadata", 0, entry)
    return int(metadata + struct.unpack_from("<I", data, entry + 16)[0] + 4)


def vhdx_with_parent(folder: Path) -> Path:
    """A differencing disk."""
    path = make(folder, "vhdx")
    return _changed(path, (_vhdx_parameters(path), struct.pack("<I", 2)))


def vhdx_with_log(folder: Path) -> Path:
    """Not closed: it has changes that somebody would have to write into it."""
    path = make(folder, "vhdx")
    return _changed(path, *((place + 48, b"\1" * 16) for place in (64 << 10, 128 << 10)))


def vhdx_cut_short(folder: Path) -> Path:
    """Its metadata is missing."""
    path = make(folder, "vhdx")
    path.write_bytes(path.read_bytes()[: 512 << 10])
    return path


def vdi_with_parent(folder: Path) -> Path:
    """A differencing disk."""
    return _changed(make(folder, "vdi"), (0x1B8, b"\1" * 16))


def vdi_of_differences(folder: Path) -> Path:
    """The same by its type."""
    return _changed(make(folder, "vdi"), (0x4C, struct.pack("<I", 4)))


def vdi_cut_short(folder: Path) -> Path:
    """Its blocks are missing."""
    path = make(folder, "vdi")
    path.write_bytes(path.read_bytes()[: 1 << 20])
    return path


def vdi_too_large(folder: Path) -> Path:
    """It claims more than its blocks can hold."""
    return _changed(make(folder, "vdi"), (0x170, struct.pack("<Q", 1 << 60)))


def vmdk_bomb(folder: Path, *, compressed: bool = False) -> Path:
    """Each of its 32 768 tables is the same one, and each part of the disk the same: 256 KiB are 1 TiB."""
    grain, entries, tables = 128, 512, 32_768
    capacity = grain * entries * tables
    text = f'version=1\nCID=fffffffe\nparentCID=ffffffff\ncreateType="monolithicSparse"\nRW {capacity} SPARSE "a"\n'
    table = 21 + tables * 4 // SECTOR
    data = -(-(table + 4) // grain) * grain
    head = struct.pack("<4sIIQQQQIQQQ", b"KDMV", 1, 3, capacity, grain, 1, 20, entries, 0, 21, data)
    head = head.ljust(77, b"\0") + struct.pack("<H", compressed)
    lines = f"# Disk DescriptorFile\n{text}".encode()
    named = struct.pack("<I", table) * tables + struct.pack("<I", data) * entries
    path = folder / "bomb.vmdk"
    path.write_bytes((head.ljust(SECTOR, b"\0") + lines.ljust(20 * SECTOR, b"\0") + named).ljust(data * SECTOR, b"\0"))
    with path.open("ab") as file:
        file.write(b"boom" * 16_384)
    return path


def vmdk_compressed_bomb(folder: Path) -> Path:
    """The same, of a part that is said to be compressed."""
    return vmdk_bomb(folder, compressed=True)


def vhd_bomb(folder: Path) -> Path:
    """Each of its 65 536 blocks is the same one."""
    path = make(folder, "vpc")
    data, blocks = path.read_bytes(), 65_536
    (table,) = struct.unpack_from(">Q", data, SECTOR + 16)
    path.write_bytes(data[:-SECTOR] + data[table : table + 4] * blocks + data[-SECTOR:])
    size = struct.pack(">Q", blocks * (2 << 20))
    return _changed(path, (48, size), (SECTOR + 16, struct.pack(">QII", len(data) - SECTOR, 0x10000, blocks)))


def vhdx_bomb(folder: Path) -> Path:
    """Each of its blocks is the same one."""
    path = make(folder, "vhdx")
    data = path.read_bytes()
    region = data.index(bytes.fromhex("6677c22d23f600429d64115e9bfd4a08"))
    (table,) = struct.unpack_from("<Q", data, region + 16)
    guid = data.index(bytes.fromhex("2442a52f1bcd7648b2115dbed83bf4b8"))
    (at,) = struct.unpack_from("<I", data, guid + 16)
    disk_at = data.rindex(b"metadata", 0, guid) + at
    size = struct.pack("<Q", 4096 * (8 << 20))
    return _changed(path, (disk_at, size), (table, data[table : table + 8] * 4096))


def vdi_bomb(folder: Path) -> Path:
    """Each of its blocks is the same one."""
    path = make(folder, "vdi")
    data, blocks = path.read_bytes(), 4096
    table, start = struct.unpack_from("<II", data, 0x154)
    moved = table + blocks * 4
    path.write_bytes(data[:table] + bytes(blocks * 4) + data[start:])
    return _changed(
        path,
        (0x158, struct.pack("<I", moved)),
        (0x170, struct.pack("<Q", blocks << 20)),
        (0x180, struct.pack("<I", blocks)),
    )


BAD: dict[str, tuple[Callable[[Path], Path], str]] = {
    maker.__name__: (maker, why)
    for maker, why in (
        (vmdk_with_parent, "has a parent"),
        (vmdk_with_hidden_parent, "has a parent"),
        (vmdk_of_two_extents, "in other files"),
        (vmdk_with_flat_extent, "in other files"),
        (vmdk_without_capacity, "damaged"),
        (vmdk_description, "in other files"),
        (vmdk_with_tables_outside, "damaged"),
        (vmdk_with_another_footer, "damaged"),
        (vmdk_of_tiny_tables, "damaged"),
        (vhd_with_parent, "has a parent"),
        (vhd_of_a_parent, "has a parent"),
        (vhd_cut_short, "damaged"),
        (vhd_too_large, "damaged"),
        (vhd_with_a_header_nowhere, "damaged"),
        (vhd_with_a_header_beyond_all, "damaged"),
        (vhd_without_footer, "no footer"),
        (fixed_vhd_cut_short, "damaged"),
        (vhdx_with_parent, "has a parent"),
        (vhdx_with_log, "not closed"),
        (vhdx_cut_short, "damaged|not whole|match"),
        (vdi_with_parent, "has a parent"),
        (vdi_of_differences, "has a parent"),
        (vdi_cut_short, "damaged"),
        (vdi_too_large, "damaged"),
        (vmdk_bomb, "more than once"),
        (vmdk_compressed_bomb, "more than once|times as large"),
        (vhd_bomb, "more than once"),
        (vhdx_bomb, "more than once"),
        (vdi_bomb, "more than once"),
    )
}
"""Name, which begins with the format, → how it is made, and what the refusal says."""
