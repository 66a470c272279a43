"""qcow2: checks that the file is not encrypted, and that its tables and its last cluster are within the file.

https://gitlab.com/qemu-project/qemu/-/blob/master/docs/interop/qcow2.rst. oslo's inspector checks its version, its
features, and references to a backing or data file.
"""

import struct
from dataclasses import dataclass
from typing import IO

from compute_agent.disk_formats.reading import (
    MAX_TABLE,
    PIECE,
    check_compressed,
    check_plain,
    entries,
    read_at,
    require,
)

HEADER = struct.Struct(">4sIQIIQIIQQII")
"""Fields: magic, version, backing_offset, backing_size, cluster_bits, size, crypt_method, l1_size, l1_offset,
refcount_offset, refcount_clusters, snapshots.
"""
MAGIC = b"QFI\xfb"
LONGEST_NAME = 1023
"""Limit of the length of a backing file's name, in bytes."""
COMPRESSED = 1 << 62
"""The bit of an entry whose cluster is compressed."""
ZEROS = 1
"""The bit of an entry whose cluster reads as zeros."""
OTHER_COMPRESSION, EXTENDED_L2 = 1 << 3, 1 << 4
"""Bits of the incompatible features."""
OFFSET_MASK = 0x00FF_FFFF_FFFF_FE00
"""The bits of a table entry that are an offset."""


def check(file: IO[bytes], size: int) -> int:
    """Check the file and return the size of its disk in bytes. Raises DiskFormatError."""
    _, version, _, _, bits, disk, encryption, l1_entries, l1, refcounts, clusters, _ = HEADER.unpack(
        read_at(file, 0, HEADER.size)
    )
    require(9 <= bits <= 21)
    require(not encryption, "is encrypted")
    order: int = struct.unpack(">I", read_at(file, 96, 4))[0] if version > 2 else 4
    require(order <= 6)
    features: int = struct.unpack(">Q", read_at(file, 72, 8))[0] if version > 2 else 0
    qcow2 = _File(file, size, cluster=1 << bits, has_bitmaps=bool(features & EXTENDED_L2))
    require(0 < disk <= l1_entries * qcow2.cluster * (qcow2.cluster // 8))
    require(qcow2.has_table(l1, l1_entries * 8) and qcow2.has_table(refcounts, clusters * qcow2.cluster))
    require(qcow2.has_l2_tables(l1, l1_entries * 8))
    qcow2.check_expansion(l1, l1_entries * 8)
    require(qcow2.last_cluster(refcounts, clusters * qcow2.cluster, order) * qcow2.cluster < size)
    return int(disk)


def virtual_size(file: IO[bytes]) -> int:
    """Return the size of the disk in bytes, without a check of the file. Raises DiskFormatError."""
    require(read_at(file, 0, len(MAGIC)) == MAGIC)
    return int(HEADER.unpack(read_at(file, 0, HEADER.size))[5])


DATA_FILE = 1 << 2
"""The bit of the incompatible features of a file whose data is in another file."""


def check_overlay(file: IO[bytes], size: int) -> int:
    """Check an overlay that another host has sent, and return the size of its disk in bytes. Its data must be in the
    file itself, and not encrypted. Raises DiskFormatError.
    """
    require(read_at(file, 0, 4) == MAGIC)
    version: int = struct.unpack(">I", read_at(file, 4, 4))[0]
    require(version in (2, 3))
    features: int = struct.unpack(">Q", read_at(file, 72, 8))[0] if version > 2 else 0
    require(not features & DATA_FILE, "has its data in another file")
    return check(file, size)


def backing_file(file: IO[bytes]) -> str:
    """Return the backing file in the header; empty if there is none, or if the file is not qcow2.

    Raises DiskFormatError.
    """
    header = file.read(HEADER.size)
    if header[:4] != MAGIC:
        return ""
    require(len(header) == HEADER.size)
    _, _, offset, length, *_ = HEADER.unpack(header)
    require(length <= LONGEST_NAME)
    return read_at(file, offset, length).decode(errors="replace") if offset else ""


@dataclass(frozen=True)
class _File:
    file: IO[bytes]
    size: int
    cluster: int
    """Size of a cluster in bytes."""
    has_bitmaps: bool
    """Whether an entry of an L2 table is followed by a bitmap of the parts of its cluster."""

    def has_table(self, offset: int, length: int) -> bool:
        """Return whether a table is aligned, has a valid length, and is within the file, after the header's cluster."""
        aligned = offset >= self.cluster and offset % self.cluster == 0
        return aligned and 0 < length <= MAX_TABLE and offset + length <= self.size

    def has_l2_tables(self, l1: int, length: int) -> bool:
        """Return whether all L2 tables that the L1 table refers to are within the file."""
        for place in range(l1, l1 + length, PIECE):
            piece = read_at(self.file, place, min(PIECE, l1 + length - place))
            offsets = (entry & OFFSET_MASK for (entry,) in struct.iter_unpack(">Q", piece))
            if any(offset and not self.has_table(offset, self.cluster) for offset in offsets):
                return False
        return True

    def check_expansion(self, l1: int, length: int) -> None:
        """Reject a file that refers to tables or clusters more than once, or whose compressed clusters
        expand too much.
        """
        tables = plain = compressed = 0
        for names in entries(self.file, l1, length, "Q", "big"):
            for entry in names:
                offset = entry & OFFSET_MASK
                if not offset:
                    continue
                tables += 1
                check_plain(tables, self.cluster, self.size)
                for table in entries(self.file, offset, self.cluster, "Q", "big"):
                    for each in filter(None, table[:: 2 if self.has_bitmaps else 1]):
                        if each & COMPRESSED:
                            compressed += 1
                        elif each & OFFSET_MASK:
                            plain += 1
                check_plain(plain, self.cluster, self.size)
                check_compressed(plain + compressed, self.cluster, self.size)

    def last_cluster(self, refcounts: int, length: int, order: int) -> int:
        """Return the number of the last cluster in use according to the refcounts. The file must contain
        that cluster.
        """
        table = read_at(self.file, refcounts, length)
        used = [index for index, (entry,) in enumerate(struct.iter_unpack(">Q", table)) if entry]
        require(bool(used))
        (block_at,) = struct.unpack_from(">Q", table, used[-1] * 8)
        require(self.has_table(block_at, self.cluster))
        block = read_at(self.file, block_at, self.cluster).rstrip(b"\0")
        return int(used[-1] * (self.cluster * 8 >> order) + (max(len(block) - 1, 0) * 8 >> order))
