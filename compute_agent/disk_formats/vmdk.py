"""VMDK (VMware): checks that the file contains its whole disk, and refers neither to a parent nor to another extent.

https://github.com/libyal/libvmdk/blob/main/documentation/VMWare%20Virtual%20Disk%20Format%20(VMDK).asciidoc. oslo's
inspector rejects unknown lines of the description, but accepts a parent, two extents, and an extent in another file.
"""

import re
import struct
from typing import IO

from compute_agent.disk_formats.reading import (
    HAS_PARENT,
    MAX_TABLE,
    SECTOR,
    check_compressed,
    check_plain,
    entries,
    read_at,
    require,
)

HEADER = struct.Struct("<4sIIQQQQIQQ")
"""Fields: magic, version, flags, capacity, grain_size, description_at, description_size, entries_per_table,
spare_directory, directory. All fields from the capacity on are in sectors, except entries_per_table.
"""
COMPRESSION = struct.Struct("<H")
COMPRESSION_AT = 77
"""The offset in the header of the field for compressed grains."""
HAS_ZERO_GRAINS = 1 << 2
"""A flag in the header: the entry 1 of a grain table stands for a grain of zeros."""
ENTRIES = 512
"""Entries of a grain table, in every file that VMware's and QEMU's tools write; each table is read."""
AT_END = (1 << 64) - 1
READ_BY_QEMU = 20
"""Number of sectors of the description in which QEMU searches for a parent, even if the description is shorter."""
ONE_FILE = ("monolithicsparse", "streamoptimized")
ACCESS = ("rw", "rdonly", "noaccess")
EXTENT = re.compile(rf'(?:{"|".join(ACCESS)})\s+([0-9]{{1,18}})\s+sparse\s+"[^"/\\]*"')
IN_OTHER_FILES = "keeps its data in other files"


def check(file: IO[bytes], size: int) -> int:
    """Check the file and return the size of its disk in bytes. Raises DiskFormatError."""
    magic, version, flags, capacity, grain, at, sectors, length, _, directory = HEADER.unpack(
        read_at(file, 0, HEADER.size)
    )
    require(magic == b"KDMV" and version in (1, 2, 3), IN_OTHER_FILES)
    # Without a capacity, QEMU reads the file as a description, and opens the files that it names.
    require(0 < capacity < 1 << 53 and at == 1 and 0 < sectors < 2048)
    file.seek(SECTOR)
    text = file.read(max(sectors, READ_BY_QEMU) * SECTOR).lower()
    require(b"parentfilenamehint" not in text, HAS_PARENT)
    _check_description(text.partition(b"\0")[0].decode("ascii", errors="replace"), capacity)
    header_at = 0
    if directory == AT_END:
        header_at = size - 2 * SECTOR
        footer = HEADER.unpack(read_at(file, header_at, HEADER.size))
        same = footer[:8] == (magic, version, flags, capacity, grain, at, sectors, length)
        require(same and footer[9] != AT_END)
        directory = footer[9]
    require(8 <= grain <= 65_536 and grain & (grain - 1) == 0 and length == ENTRIES)
    tables = -(-capacity // (grain * length))
    require(directory > 0 and tables * 4 <= MAX_TABLE and directory * SECTOR + tables * 4 <= size)
    no_grain = (0, 1) if flags & HAS_ZERO_GRAINS else (0,)
    grains = _count_grains(file, size, (directory * SECTOR, tables * 4), length * 4, no_grain)
    (compressed,) = COMPRESSION.unpack(read_at(file, header_at + COMPRESSION_AT, COMPRESSION.size))
    (check_compressed if compressed else check_plain)(grains, grain * SECTOR, size)
    return int(capacity * SECTOR)


def _count_grains(
    file: IO[bytes], size: int, directory: tuple[int, int], length: int, no_grain: tuple[int, ...]
) -> int:
    """Return the number of grains that the tables refer to. A table has ``length`` bytes; entries in ``no_grain`` mean
    zeros.
    """
    tables = grains = 0
    for named in entries(file, *directory, "I", "little"):
        for table in named:
            if table:
                tables += 1
                check_plain(tables, length, size)
                (found,) = entries(file, table * SECTOR, length, "I", "little")
                grains += len(found) - sum(found.count(each) for each in no_grain)
    return grains


def _check_description(text: str, capacity: int) -> None:
    lines = [line.strip() for line in text.splitlines()]
    values = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith(("#", "ddb")))
    require(values.get("createtype", "").strip(' "') in ONE_FILE, IN_OTHER_FILES)
    require(values.get("parentcid", "ffffffff").strip(' "') == "ffffffff", HAS_PARENT)
    extents = [line for line in lines if line.split(" ", 1)[0] in ACCESS]
    match = EXTENT.fullmatch(extents[0]) if len(extents) == 1 else None
    require(match is not None and int(match[1]) <= capacity, IN_OTHER_FILES)
