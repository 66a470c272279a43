"""VHD (Virtual PC), fixed or dynamic: checks that the file has no parent and is complete; oslo's inspector checks
neither.

https://learn.microsoft.com/windows/win32/vstor/about-vhd.
"""

import struct
from typing import IO

from compute_agent.disk_formats.reading import (
    HAS_PARENT,
    MAX_TABLE,
    NO_UUID,
    SECTOR,
    check_plain,
    entries,
    read_at,
    require,
)

FOOTER = struct.Struct(">8sIIQI4sI4sQQHBBII16sB")
"""Fields: cookie, features, version, next, timestamp, creator, creator_version, creator_os, first_size, size,
cylinders, heads, sectors, type, checksum, uuid, saved_state.
"""
HEADER = struct.Struct(">8sQQIIII16s")
"""Fields: cookie, next, table, version, entries, block_size, checksum, parent."""
FIXED, DYNAMIC, DIFFERENCING = 2, 3, 4
UNUSED = 0xFFFF_FFFF
NO_FOOTER = "does not match disk_format vhd: it has no footer"


def check(file: IO[bytes], size: int) -> int:
    """Check the file and return the size of its disk in bytes. Raises DiskFormatError."""
    head = read_at(file, 0, min(size, SECTOR))
    if not head.startswith(b"conectix"):
        return _check_fixed(file, size)
    _, _, _, header, _, _, _, _, _, disk, _, _, _, kind, _, _, saved = FOOTER.unpack(head[: FOOTER.size])
    require(kind != DIFFERENCING, HAS_PARENT)
    require(kind == DYNAMIC and not saved)
    mark, _, table, _, length, block, _, parent = HEADER.unpack(read_at(file, header, HEADER.size))
    require(parent == NO_UUID, HAS_PARENT)
    require(mark == b"cxsparse" and block >= SECTOR and block & (block - 1) == 0)
    require(length * 4 <= MAX_TABLE and 0 < disk <= length * block and table + length * 4 <= size)
    blocks = 0
    for piece in entries(file, table, length * 4, "I", "big"):
        require(all(entry == UNUSED or entry * SECTOR < size for entry in piece))
        blocks += len(piece) - piece.count(UNUSED)
    check_plain(blocks, block, size)
    return int(disk)


def _check_fixed(file: IO[bytes], size: int) -> int:
    """Check a fixed VHD: a raw disk, followed by a footer."""
    require(size > SECTOR, NO_FOOTER)
    footer = FOOTER.unpack(read_at(file, size - SECTOR, FOOTER.size))
    require(footer[0] == b"conectix" and footer[13] == FIXED, NO_FOOTER)
    disk = int(footer[9])
    require(0 < disk <= size - SECTOR and not footer[16])
    return disk
