"""VHDX (Hyper-V): checks that the file has no parent, no log to replay, and is complete; oslo's inspector checks none
of this.

https://learn.microsoft.com/openspecs/windows_protocols/ms-vhdx.
"""

import struct
import uuid
from typing import IO

from compute_agent.disk_formats.reading import HAS_PARENT, MAX_TABLE, NO_UUID, check_plain, entries, read_at, require

KIB = 1024
HEADERS = (64 * KIB, 128 * KIB)
REGIONS = 192 * KIB
METADATA, TABLE = "8b7ca206-4790-4b9a-b8fe-575f050f886e", "2dc27766-f623-4200-9d64-115e9bfd4a08"
PARAMETERS, DISK_SIZE = "caa16737-fa36-4d43-b3b6-33f0aa44e76b", "2fa54224-cd1b-4876-b211-5dbed83bf4b8"
SECTOR_SIZE = "8141bf1d-a96f-4709-ba47-f233a8faab5f"
PARENT = "a8d35f2d-b30b-454d-abf7-d3d84834ab0c"
HAS_PARENT_BIT = 2
STATE, IN_FILE = 7, (6, 7)
"""The bits of an entry with the state of its block, and the states of blocks that are in the file."""
FEWEST_BEFORE_BITMAP = 16
"""Minimum number of block entries before a bitmap entry, which applies to the largest blocks."""


def check(file: IO[bytes], size: int) -> int:
    """Check the file and return the size of its disk in bytes. Raises DiskFormatError; KeyError if a required entry is
    missing from a table.
    """
    _check_closed(file)
    regions = _entries(file, REGIONS, 16, b"regi", "<8xI", "<QI")
    meta_at, meta_length = regions[METADATA]
    table_at, table_length = regions[TABLE]
    require(meta_at + meta_length <= size and table_at + table_length <= size)
    items = _entries(file, meta_at, 32, b"metadata", "<10xH", "<II")
    require(PARENT not in items, HAS_PARENT)
    block, flags = struct.unpack("<II", read_at(file, meta_at + items[PARAMETERS][0], 8))
    require(not flags & HAS_PARENT_BIT, HAS_PARENT)
    require(1 << 20 <= block <= 256 << 20 and block & (block - 1) == 0)
    (disk,) = struct.unpack("<Q", read_at(file, meta_at + items[DISK_SIZE][0], 8))
    blocks = -(-disk // block)
    # The table also has entries for bitmaps, which are unused in a disk without a parent.
    most = (blocks + blocks // FEWEST_BEFORE_BITMAP + 1) * 8
    require(blocks * 8 <= table_length and most <= MAX_TABLE)
    pieces = entries(file, table_at, min(table_length // 8 * 8, most), "Q", "little")
    check_plain(sum((each & STATE) in IN_FILE for piece in pieces for each in piece), block, size)
    return int(disk)


def layout(file: IO[bytes]) -> tuple[int, int, int]:
    """Return the offset of the table of blocks, the bytes of a block, and the bytes of a sector of the disk.

    Raises the same errors as ``check``.
    """
    regions = _entries(file, REGIONS, 16, b"regi", "<8xI", "<QI")
    meta_at = regions[METADATA][0]
    items = _entries(file, meta_at, 32, b"metadata", "<10xH", "<II")
    (block,) = struct.unpack("<I", read_at(file, meta_at + items[PARAMETERS][0], 4))
    (sector,) = struct.unpack("<I", read_at(file, meta_at + items[SECTOR_SIZE][0], 4))
    require(block >= 1 << 20 and sector in (512, 4096))
    return regions[TABLE][0], block, sector


def _check_closed(file: IO[bytes]) -> None:
    """Reject a file with changes that are only in its log, because a program that opens it would have to
    write to it.
    """
    headers = [struct.unpack("<4sIQ32x16s", read_at(file, place, 64)) for place in HEADERS]
    valid = [(sequence, log) for mark, _, sequence, log in headers if mark == b"head"]
    require(bool(valid))
    _, log = max(valid)
    require(log == NO_UUID, "was not closed: close it, or convert it, and try again")


def _entries(file: IO[bytes], place: int, skip: int, mark: bytes, head: str, entry: str) -> dict[str, tuple[int, ...]]:
    """Return a table as GUID → values."""
    header = read_at(file, place, skip)
    (count,) = struct.unpack_from(head, header)
    require(header.startswith(mark) and count < 2048)
    table = read_at(file, place + skip, count * 32)
    return {
        str(uuid.UUID(bytes_le=table[start : start + 16])): struct.unpack_from(entry, table, start + 16)
        for start in range(0, len(table), 32)
    }
