"""The structure of a qcow2 file, as far as it decides whether the file is whole.

https://gitlab.com/qemu-project/qemu/-/blob/master/docs/interop/qcow2.rst.
Memory stays constant whatever the file claims.
"""

from __future__ import annotations

import struct
from typing import IO

from provisioning.images.errors import ImageContentError

HEADER = struct.Struct(">4sIQIIQIIQQIIQ")
"""magic version backing_offset backing_size cluster_bits size crypt_method l1_size l1_offset refcount_offset
refcount_clusters snapshots snapshots_offset."""
MAX_TABLE = 32 << 20
"""Bytes of an L1 table or a refcount table; QEMU's own limit of the former."""
PIECE = 1 << 20
OFFSET_MASK = 0x00FF_FFFF_FFFF_FE00
"""The bits of a table entry that are an offset."""


class Qcow2File:
    """An open qcow2 file whose magic and feature bits were looked at already."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        self._file, self._size = file, size
        header = self._read(0, HEADER.size)
        if len(header) < HEADER.size:
            raise _damaged()
        fields: list[int] = [0, *HEADER.unpack(header)[1:]]
        _, self._version, _, _, bits, self._virtual_size, self._encryption, self._l1_entries, self._l1 = fields[:9]
        self._refcounts, self._refcount_clusters = fields[9:11]
        if not 9 <= bits <= 21:
            raise _damaged()
        self._cluster = 1 << bits

    def check(self) -> None:
        """Raise ImageContentError when the file is encrypted, its tables lie outside of it, or its end is missing."""
        if self._encryption:
            msg = "Image content is not safe to open: the image is encrypted."
            raise ImageContentError(msg)
        reach = self._cluster * (self._cluster // 8)  # bytes of the disk that one L1 entry stands for
        whole = bool(
            0 < self._virtual_size <= self._l1_entries * reach
            and self._is_inside(self._l1, self._l1_entries * 8)
            and self._is_inside(self._refcounts, self._refcount_clusters * self._cluster)
            and self._l2_tables_are_inside()
            and self._last_cluster() * self._cluster < self._size
        )
        if not whole:
            raise _damaged()

    def _is_inside(self, offset: int, length: int) -> bool:
        """Whether a table is aligned, of sane length and within the file."""
        aligned = offset >= self._cluster and offset % self._cluster == 0
        return aligned and 0 < length <= MAX_TABLE and offset + length <= self._size

    def _is_cluster(self, offset: int) -> bool:
        """Whether the file has a whole cluster here; the header's own is not one."""
        return self._is_inside(offset, self._cluster)

    def _l2_tables_are_inside(self) -> bool:
        """Whether the file has every L2 table that the L1 table names."""
        for place in range(self._l1, self._l1 + self._l1_entries * 8, PIECE):
            piece = self._read(place, min(PIECE, self._l1 + self._l1_entries * 8 - place))
            if any(
                entry & OFFSET_MASK and not self._is_cluster(entry & OFFSET_MASK)
                for (entry,) in struct.iter_unpack(">Q", piece)
            ):
                return False
        return True

    def _last_cluster(self) -> int:
        """Return the number of the last cluster in use: the refcounts know, and the file must reach as far."""
        order: int = struct.unpack(">I", self._read(96, 4))[0] if self._version > 2 else 4
        if order > 6:
            raise _damaged()
        table = self._read(self._refcounts, self._refcount_clusters * self._cluster)
        used = [index for index, (entry,) in enumerate(struct.iter_unpack(">Q", table)) if entry]
        if not used:
            raise _damaged()
        block_at: int = struct.unpack_from(">Q", table, used[-1] * 8)[0]
        if not self._is_cluster(block_at):
            raise _damaged()
        block = self._read(block_at, self._cluster).rstrip(b"\0")
        last = max(len(block) - 1, 0) * 8 >> order
        return used[-1] * (self._cluster * 8 >> order) + last

    def _read(self, offset: int, length: int) -> bytes:
        """Read at a place; short at the end of the file."""
        self._file.seek(offset)
        return self._file.read(length)


def _damaged() -> ImageContentError:
    """Make the one answer to everything that does not fit together."""
    return ImageContentError("Image content is damaged: its tables point outside of the file, or it was cut short.")
