"""VMDK (VMware): that the file holds all of its disk, and names no parent and no other extent.

https://github.com/libyal/libvmdk/blob/main/documentation/VMWare%20Virtual%20Disk%20Format%20(VMDK).asciidoc.  oslo's
inspector has looked for lines of the description that nobody knows; it takes a parent, two extents, and an extent in a
file beside this one.
"""

import re
import struct
from typing import IO

from compute_agent.disk_formats.reading import HAS_PARENT, SECTOR, read_at, require

HEADER = struct.Struct("<4sIIQQQQIQQ")
"""magic version flags capacity grain_size description_at description_size entries_per_table spare_directory directory:
from the capacity on in sectors, but for the entries."""
AT_END = (1 << 64) - 1
READ_BY_QEMU = 20
"""Sectors of a description that QEMU searches for a parent, however long the header says it is."""
ONE_FILE = ("monolithicsparse", "streamoptimized")
ACCESS = ("rw", "rdonly", "noaccess")
EXTENT = re.compile(rf'(?:{"|".join(ACCESS)})\s+([0-9]{{1,18}})\s+sparse\s+"[^"/\\]*"')
IN_OTHER_FILES = "keeps its data in other files"


def check(file: IO[bytes], size: int) -> int:
    """Return the bytes of the disk.  Raises DiskFormatError."""
    magic, version, _, capacity, grain, at, sectors, entries, _, directory = HEADER.unpack(
        read_at(file, 0, HEADER.size)
    )
    require(magic == b"KDMV" and version in (1, 2, 3), IN_OTHER_FILES)
    # Without a capacity QEMU takes the description for the disk, and opens the files it names.
    require(0 < capacity < 1 << 53 and at == 1 and 0 < sectors < 2048)
    file.seek(SECTOR)
    text = file.read(max(sectors, READ_BY_QEMU) * SECTOR).lower()
    require(b"parentfilenamehint" not in text, HAS_PARENT)
    _check_description(text.partition(b"\0")[0].decode("ascii", errors="replace"), capacity)
    if directory == AT_END:
        footer = HEADER.unpack(read_at(file, size - 2 * SECTOR, HEADER.size))
        same = footer[:2] == (magic, version) and footer[3:8] == (capacity, grain, at, sectors, entries)
        require(same and footer[9] != AT_END)
        directory = footer[9]
    require(8 <= grain <= 65_536 and grain & (grain - 1) == 0 and 0 < entries <= 512)
    tables = -(-capacity // (grain * entries))
    require(directory > 0 and directory * SECTOR + tables * 4 <= size)
    return int(capacity * SECTOR)


def _check_description(text: str, capacity: int) -> None:
    lines = [line.strip() for line in text.splitlines()]
    values = dict(line.split("=", 1) for line in lines if "=" in line and not line.startswith(("#", "ddb")))
    require(values.get("createtype", "").strip(' "') in ONE_FILE, IN_OTHER_FILES)
    require(values.get("parentcid", "ffffffff").strip(' "') == "ffffffff", HAS_PARENT)
    extents = [line for line in lines if line.split(" ", 1)[0] in ACCESS]
    found = EXTENT.fullmatch(extents[0]) if len(extents) == 1 else None
    require(found is not None and int(found[1]) <= capacity, IN_OTHER_FILES)
