"""VDI (VirtualBox): checks that the file has no parent and is complete; oslo's inspector checks neither.

https://gitlab.com/qemu-project/qemu/-/blob/master/block/vdi.c.
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

BLOCK = 1 << 20
DYNAMIC, STATIC = 1, 2
UNALLOCATED, ZERO = 0xFFFF_FFFF, 0xFFFF_FFFE


def check(file: IO[bytes], size: int) -> int:
    """Check the file and return the size of its disk in bytes. Raises DiskFormatError."""
    header = read_at(file, 0, SECTOR)
    version, _, kind = struct.unpack_from("<III", header, 0x44)
    table, data = struct.unpack_from("<II", header, 0x154)
    sector, _, disk, block, extra, blocks, allocated = struct.unpack_from("<IIQIIII", header, 0x168)
    require(version >> 16 == 1)
    require(kind in (DYNAMIC, STATIC) and header[0x1A8:0x1C8] == NO_UUID * 2, HAS_PARENT)
    require(sector == SECTOR and block == BLOCK and not extra and allocated <= blocks)
    require(0 < disk <= blocks * block and table >= SECTOR and table + blocks * 4 <= size)
    require(data + allocated * block <= size and blocks * 4 <= MAX_TABLE)
    named = sum(
        len(piece) - piece.count(UNALLOCATED) - piece.count(ZERO)
        for piece in entries(file, table, blocks * 4, "I", "little")
    )
    check_plain(named, block, size)
    return int(disk)
