"""What only the whole file shows of a VMDK, VHD, VHDX or VDI: that it stands alone, is whole, and its disk's size.

A file of these formats can name another one (a parent, an extent, a log to be replayed), and QEMU would open that with
the host's rights.  Everything here reads with constant memory, whatever the file claims.
"""

from __future__ import annotations

import re
import struct
import uuid
from collections.abc import Callable
from typing import IO

SECTOR = 512
NO_UUID = bytes(16)
PIECE = 1 << 20


class DiskStructureError(ValueError):
    """The file is damaged or refers to other files; the text completes the sentence "the image …"."""


CUT_SHORT = "is damaged: its tables point outside of the file, or it was cut short"
HAS_PARENT = "has a parent: it holds only the differences to another file"


def virtual_size(file: IO[bytes], size: int, disk_format: str) -> int:
    """Check an open file of ``size`` bytes and return the bytes of its disk.  Moves the file's position.

    Formats without a structure of their own are as large as their file.  Raises DiskStructureError.
    """
    reader = _READERS.get(disk_format)
    if reader is None:
        return size
    try:
        found = reader(file, size)
    except (struct.error, ValueError, IndexError) as error:
        if isinstance(error, DiskStructureError):
            raise
        raise DiskStructureError(CUT_SHORT) from None
    if found <= 0:
        raise DiskStructureError(CUT_SHORT)
    return found


def _read(file: IO[bytes], offset: int, length: int) -> bytes:
    """Read at a place; DiskStructureError when the file ends before."""
    file.seek(offset)
    data = file.read(length)
    _require(len(data) == length)
    return data


def _require(holds: bool, otherwise: str = CUT_SHORT) -> None:  # noqa: FBT001 - reads as an assertion
    if not holds:
        raise DiskStructureError(otherwise)


# ----- VMDK -----------------------------------------------------------------------------------------------------------

VMDK = struct.Struct("<4sIIQQQQIQQ")
"""magic version flags capacity grain_size description_at description_size entries_per_table spare_directory directory:
from the capacity on in sectors, but for the entries."""
AT_END = (1 << 64) - 1
READ_BY_QEMU = 20
"""Sectors of a descriptor that QEMU searches for a parent, however long the header says it is."""
ONE_FILE = ("monolithicsparse", "streamoptimized")
EXTENT = re.compile(r'(?:rw|rdonly|noaccess)\s+([0-9]{1,18})\s+sparse\s+"[^"/\\]*"')


def _vmdk(file: IO[bytes], size: int) -> int:
    magic, version, _, capacity, grain, at, sectors, entries, _, directory = VMDK.unpack(_read(file, 0, VMDK.size))
    _require(
        magic == b"KDMV" and version in (1, 2, 3), "is only the description of a disk: its data lies in other files"
    )
    # Without a capacity QEMU takes the description for the disk, and opens the files it names.
    _require(0 < capacity < 1 << 53 and at == 1 and 0 < sectors < 2048)
    file.seek(SECTOR)
    text = file.read(max(sectors, READ_BY_QEMU) * SECTOR).lower()
    _require(b"parentfilenamehint" not in text, HAS_PARENT)
    _check_description(text.partition(b"\0")[0].decode("ascii", errors="replace"), capacity)
    if directory == AT_END:
        footer = VMDK.unpack(_read(file, size - 2 * SECTOR, VMDK.size))
        same = footer[:2] == (magic, version) and footer[3:8] == (capacity, grain, at, sectors, entries)
        _require(same and footer[9] != AT_END)
        directory = footer[9]
    _require(8 <= grain <= 65_536 and grain & (grain - 1) == 0 and 0 < entries <= 512)
    tables = -(-capacity // (grain * entries))
    _require(directory * SECTOR > 0 and directory * SECTOR + tables * 4 <= size)
    return int(capacity * SECTOR)


def _check_description(text: str, capacity: int) -> None:
    lines = [line.strip() for line in text.splitlines()]
    values = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith(("#", "ddb")))
    _require(values.get("createtype", "").strip(' "') in ONE_FILE, "keeps its data in other files")
    _require(values.get("parentcid", "ffffffff").strip(' "') == "ffffffff", HAS_PARENT)
    extents = [line for line in lines if line.split(" ", 1)[0] in ("rw", "rdonly", "noaccess")]
    found = EXTENT.fullmatch(extents[0]) if len(extents) == 1 else None
    _require(found is not None and int(found[1]) <= capacity, "keeps its data in other files")


# ----- VHD ------------------------------------------------------------------------------------------------------------

VHD = struct.Struct(">8sIIQI4sI4sQQHBBII16sB")
"""cookie features version next timestamp creator creator_version creator_os first_size size cylinders heads sectors
type checksum uuid saved_state."""
VHD_TABLE = struct.Struct(">8sQQIIII16s")
"""cookie next table version entries block_size checksum parent."""
MOST_TABLE = 32 << 20
"""Bytes of a table, each entry of which is looked at: enough for 16 TiB in blocks of the usual size."""
FIXED, DYNAMIC = 2, 3
UNUSED = 0xFFFF_FFFF


def _vhd(file: IO[bytes], size: int) -> int:
    head = _read(file, 0, min(size, SECTOR))
    if not head.startswith(b"conectix"):
        return _fixed_vhd(file, size)
    cookie, _, _, header, _, _, _, _, _, disk, _, _, _, kind, _, _, saved = VHD.unpack(head[: VHD.size])
    _require(kind != 4, HAS_PARENT)
    _require(cookie == b"conectix" and kind == DYNAMIC and not saved)
    mark, _, table, _, entries, block, _, parent = VHD_TABLE.unpack(_read(file, header, VHD_TABLE.size))
    _require(parent == NO_UUID, HAS_PARENT)
    _require(mark == b"cxsparse" and block >= SECTOR and block & (block - 1) == 0)
    _require(entries * 4 <= MOST_TABLE and 0 < disk <= entries * block and table + entries * 4 <= size)
    for place in range(table, table + entries * 4, PIECE):
        piece = _read(file, place, min(PIECE, table + entries * 4 - place))
        inside = (entry == UNUSED or entry * SECTOR < size for (entry,) in struct.iter_unpack(">I", piece))
        _require(all(inside))
    return int(disk)


def _fixed_vhd(file: IO[bytes], size: int) -> int:
    """A raw disk with a footer."""
    _require(size > SECTOR, "does not match disk_format vhd: it has no footer")
    footer = VHD.unpack(_read(file, size - SECTOR, VHD.size))
    _require(footer[0] == b"conectix" and footer[13] == FIXED, "does not match disk_format vhd: it has no footer")
    disk = footer[9]
    _require(0 < disk <= size - SECTOR and not footer[16])
    return int(disk)


# ----- VHDX -----------------------------------------------------------------------------------------------------------

KIB = 1024
HEADERS = (64 * KIB, 128 * KIB)
REGIONS = 192 * KIB
METADATA, TABLE = "8b7ca206-4790-4b9a-b8fe-575f050f886e", "2dc27766-f623-4200-9d64-115e9bfd4a08"
PARAMETERS, DISK_SIZE = "caa16737-fa36-4d43-b3b6-33f0aa44e76b", "2fa54224-cd1b-4876-b211-5dbed83bf4b8"
PARENT = "a8d35f2d-b30b-454d-abf7-d3d84834ab0c"
HAS_PARENT_BIT = 2


def _vhdx(file: IO[bytes], size: int) -> int:
    _require(_read(file, 0, 8) == b"vhdxfile")
    _check_log(file)
    regions = _entries(file, REGIONS, 16, b"regi", "<8xI", "<QI")
    meta_at, meta_length = regions[METADATA]
    table_at, table_length = regions[TABLE]
    _require(meta_at + meta_length <= size and table_at + table_length <= size)
    items = _entries(file, meta_at, 32, b"metadata", "<10xH", "<II")
    _require(PARENT not in items, HAS_PARENT)
    block, flags = struct.unpack("<II", _read(file, meta_at + items[PARAMETERS][0], 8))
    _require(not flags & HAS_PARENT_BIT, HAS_PARENT)
    _require(1 << 20 <= block <= 256 << 20 and block & (block - 1) == 0)
    (disk,) = struct.unpack("<Q", _read(file, meta_at + items[DISK_SIZE][0], 8))
    _require(-(-disk // block) * 8 <= table_length)
    return int(disk)


def _check_log(file: IO[bytes]) -> None:
    """Refuse a file with changes that were written to its log only: whoever opens it would have to write to it."""
    headers = [struct.unpack("<4sIQ32x16s", _read(file, place, 64)) for place in HEADERS]
    current = max((header for header in headers if header[0] == b"head"), key=lambda header: header[2], default=None)
    _require(current is not None)
    _require(current is not None and current[3] == NO_UUID, "was not closed: close it, or convert it, and try again")


def _entries(file: IO[bytes], place: int, skip: int, mark: bytes, head: str, entry: str) -> dict[str, tuple[int, ...]]:
    """Read a table of GUIDs: what stands behind each."""
    header = _read(file, place, skip)
    (count,) = struct.unpack_from(head, header)
    _require(header.startswith(mark) and count < 2048)
    table = _read(file, place + skip, count * 32)
    found: dict[str, tuple[int, ...]] = _Guids()
    for start in range(0, len(table), 32):
        found[str(uuid.UUID(bytes_le=table[start : start + 16]))] = struct.unpack_from(entry, table, start + 16)
    return found


class _Guids(dict[str, "tuple[int, ...]"]):
    """A GUID that is not there is damage."""

    def __missing__(self, key: str) -> tuple[int, ...]:
        raise DiskStructureError(CUT_SHORT)


# ----- VDI ------------------------------------------------------------------------------------------------------------

VDI_BLOCK = 1 << 20


def _vdi(file: IO[bytes], size: int) -> int:
    header = _read(file, 0, SECTOR)
    mark, version, _, kind = struct.unpack_from("<IIII", header, 0x40)
    table, data = struct.unpack_from("<II", header, 0x154)
    sector, _, disk, block, extra, blocks, allocated = struct.unpack_from("<IIQIIII", header, 0x168)
    _require(mark == 0xBEDA107F and version >> 16 == 1)
    _require(kind in (1, 2) and header[0x1A8:0x1C8] == NO_UUID * 2, HAS_PARENT)
    _require(sector == SECTOR and block == VDI_BLOCK and not extra and allocated <= blocks)
    _require(0 < disk <= blocks * block and table >= SECTOR and table + blocks * 4 <= size)
    _require(data + allocated * block <= size)
    return int(disk)


_READERS: dict[str, Callable[[IO[bytes], int], int]] = {"vmdk": _vmdk, "vhd": _vhd, "vhdx": _vhdx, "vdi": _vdi}
