"""qcow2: that the file is not encrypted, and that its tables and its end are there.

https://gitlab.com/qemu-project/qemu/-/blob/master/docs/interop/qcow2.rst.  oslo's inspector has looked at its version,
its features, and whether it names a backing or a data file.
"""

import struct
from dataclasses import dataclass
from typing import IO

from compute_agent.disk_formats.reading import PIECE, read_at, require

HEADER = struct.Struct(">4sIQIIQIIQQII")
"""magic version backing_offset backing_size cluster_bits size crypt_method l1_size l1_offset refcount_offset
refcount_clusters snapshots."""
MAX_TABLE = 32 << 20
"""Bytes of an L1 table or a refcount table; QEMU's own limit of the former."""
OFFSET_MASK = 0x00FF_FFFF_FFFF_FE00
"""The bits of a table entry that are an offset."""


def check(file: IO[bytes], size: int) -> int:
    """Return the bytes of the disk.  Raises DiskFormatError."""
    _, version, _, _, bits, disk, encryption, l1_entries, l1, refcounts, clusters, _ = HEADER.unpack(
        read_at(file, 0, HEADER.size)
    )
    require(9 <= bits <= 21)
    require(not encryption, "is encrypted")
    order: int = struct.unpack(">I", read_at(file, 96, 4))[0] if version > 2 else 4
    require(order <= 6)
    qcow2 = _File(file, size, cluster=1 << bits)
    require(0 < disk <= l1_entries * qcow2.cluster * (qcow2.cluster // 8))
    require(qcow2.has_table(l1, l1_entries * 8) and qcow2.has_table(refcounts, clusters * qcow2.cluster))
    require(qcow2.has_l2_tables(l1, l1_entries * 8))
    require(qcow2.last_cluster(refcounts, clusters * qcow2.cluster, order) * qcow2.cluster < size)
    return int(disk)


@dataclass(frozen=True)
class _File:
    file: IO[bytes]
    size: int
    cluster: int
    """Bytes."""

    def has_table(self, offset: int, length: int) -> bool:
        """Whether a table is aligned, of sane length and within the file; the header's own cluster is no place."""
        aligned = offset >= self.cluster and offset % self.cluster == 0
        return aligned and 0 < length <= MAX_TABLE and offset + length <= self.size

    def has_l2_tables(self, l1: int, length: int) -> bool:
        """Whether the file has every L2 table that the L1 table names."""
        for place in range(l1, l1 + length, PIECE):
            piece = read_at(self.file, place, min(PIECE, l1 + length - place))
            offsets = (entry & OFFSET_MASK for (entry,) in struct.iter_unpack(">Q", piece))
            if any(offset and not self.has_table(offset, self.cluster) for offset in offsets):
                return False
        return True

    def last_cluster(self, refcounts: int, length: int, order: int) -> int:
        """Return the number of the last cluster in use: the refcounts know, and the file must reach as far."""
        table = read_at(self.file, refcounts, length)
        used = [index for index, (entry,) in enumerate(struct.iter_unpack(">Q", table)) if entry]
        require(bool(used))
        (block_at,) = struct.unpack_from(">Q", table, used[-1] * 8)
        require(self.has_table(block_at, self.cluster))
        block = read_at(self.file, block_at, self.cluster).rstrip(b"\0")
        return int(used[-1] * (self.cluster * 8 >> order) + (max(len(block) - 1, 0) * 8 >> order))
