"""The disk in an image file, read in small pieces that are found through the image's tables.

The file must have been accepted by ``FORMATS[…].check``, so that its tables are within the file. Nevertheless each read
is bounded, and unreadable data raises DiskFormatError.
"""

import struct
import zlib
from abc import abstractmethod
from typing import IO

from compute_agent.disk_formats import qcow2, vdi, vhd, vhdx, vmdk
from compute_agent.disk_formats.reading import SECTOR, DiskFormatError, read_at, require

MOST_READ = 16 << 20
"""Limit of the bytes that are read from one disk."""
LARGEST_BLOCK = 2 << 20
"""Limit of the size of a decompressed block, in bytes."""
NOT_READ = "has an encoding that is not supported"


class Contents:
    """Reads the data of the disk in a file. This class is for raw files, its subclasses are for other formats."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        """``size``: the size of the disk in bytes."""
        self.file, self.size, self._left = file, size, MOST_READ

    def read(self, offset: int, length: int) -> bytes:
        """Return ``length`` bytes of the disk from ``offset``. Raises DiskFormatError beyond the end of the disk, and
        after MOST_READ bytes in total.
        """
        require(offset >= 0 and 0 <= length <= self._left and offset + length <= self.size)
        self._left -= length
        return self._read(offset, length)

    def _read(self, offset: int, length: int) -> bytes:
        return read_at(self.file, offset, length)


class Blocks(Contents):
    """A disk in blocks of one size. Each block is stored somewhere in the file, or not stored and full of zeros."""

    block: int

    def _read(self, offset: int, length: int) -> bytes:
        content = bytearray()
        while len(content) < length:
            index, begin = divmod(offset + len(content), self.block)
            content += self._part(index, begin, min(self.block - begin, length - len(content)))
        return bytes(content)

    def _part(self, index: int, begin: int, length: int) -> bytes:
        place = self._place(index)
        return bytes(length) if place is None else read_at(self.file, place + begin, length)

    @abstractmethod
    def _place(self, index: int) -> int | None:
        """Return the offset of a block in the file; None for a block of zeros."""

    def _number(self, layout: str, place: int) -> int:
        return int(struct.unpack(layout, read_at(self.file, place, struct.calcsize(layout)))[0])


class Qcow2(Blocks):
    """qcow2: two levels of tables refer to clusters
    (https://gitlab.com/qemu-project/qemu/-/blob/master/docs/interop/qcow2.rst).
    """

    def __init__(self, file: IO[bytes], size: int) -> None:
        super().__init__(file, size)
        _, version, _, _, self.bits, _, _, self.entries, self.l1, *_ = qcow2.HEADER.unpack(
            read_at(file, 0, qcow2.HEADER.size)
        )
        require(9 <= self.bits <= 21)
        self.block = 1 << self.bits
        features = self._number(">Q", 72) if version > 2 else 0
        require(not features & qcow2.EXTENDED_L2, NOT_READ)
        self.deflated = not (features & qcow2.OTHER_COMPRESSION and self._number(">B", 104))

    def _part(self, index: int, begin: int, length: int) -> bytes:
        first, second = divmod(index, self.block // 8)
        require(first < self.entries)
        table = self._number(">Q", self.l1 + first * 8) & qcow2.OFFSET_MASK
        if not table:
            return bytes(length)
        entry = self._number(">Q", table + second * 8)
        if entry & qcow2.COMPRESSED:
            return self._laid_out(entry)[begin : begin + length]
        place = entry & qcow2.OFFSET_MASK
        return bytes(length) if entry & qcow2.ZEROS or not place else read_at(self.file, place + begin, length)

    def _laid_out(self, entry: int) -> bytes:
        require(self.deflated, NOT_READ)
        shift = 62 - (self.bits - 8)
        place = entry & ((1 << shift) - 1)
        sectors = (entry >> shift & ((1 << self.bits - 8) - 1)) + 1
        self.file.seek(place)
        return inflated(self.file.read(sectors * SECTOR - place % SECTOR), self.block, wbits=-15)

    def _place(self, index: int) -> int | None:
        raise NotImplementedError


class Vdi(Blocks):
    """VDI (VirtualBox): one table of blocks."""

    block = vdi.BLOCK

    def __init__(self, file: IO[bytes], size: int) -> None:
        """Read the offsets of the table and of the blocks."""
        super().__init__(file, size)
        self.table, self.data = struct.unpack("<II", read_at(file, 0x154, 8))

    def _place(self, index: int) -> int | None:
        entry = self._number("<I", self.table + index * 4)
        return None if entry in (vdi.UNALLOCATED, vdi.ZERO) else self.data + entry * self.block


class Vhd(Blocks):
    """A dynamic VHD: each block has a bitmap of its sectors before it."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        """Read the header, whose offset is in the copy of the footer at the beginning of the file."""
        super().__init__(file, size)
        header = vhd.FOOTER.unpack(read_at(file, 0, vhd.FOOTER.size))[3]
        _, _, self.table, _, _, self.block, *_ = vhd.HEADER.unpack(read_at(file, header, vhd.HEADER.size))
        require(self.block >= SECTOR)
        self.before = -(-(self.block // SECTOR // 8) // SECTOR) * SECTOR

    def _place(self, index: int) -> int | None:
        entry = self._number(">I", self.table + index * 4)
        return None if entry == vhd.UNUSED else entry * SECTOR + self.before


class Vhdx(Blocks):
    """VHDX (Hyper-V): in the table, an entry for a bitmap follows after each ``chunk`` entries of blocks."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        """Read the regions and the metadata."""
        super().__init__(file, size)
        self.table, self.block, sector = vhdx.layout(file)
        self.chunk = (sector << 23) // self.block
        require(self.chunk > 0)

    def _place(self, index: int) -> int | None:
        entry = self._number("<Q", self.table + (index + index // self.chunk) * 8)
        return entry >> 20 << 20 if entry & vhdx.STATE in vhdx.IN_FILE else None


class Vmdk(Blocks):
    """VMDK (VMware): a directory of tables of grains. Grains may be compressed, each after a header."""

    def __init__(self, file: IO[bytes], size: int) -> None:
        """Read the header, or the footer of a file that was written as a stream."""
        super().__init__(file, size)
        header_at = 0
        header = vmdk.HEADER.unpack(read_at(file, 0, vmdk.HEADER.size))
        if header[9] == vmdk.AT_END:
            header_at = file.seek(-2 * SECTOR, 2)
            header = vmdk.HEADER.unpack(read_at(file, header_at, vmdk.HEADER.size))
        self.block, self.length, self.directory = header[4] * SECTOR, header[7], header[9] * SECTOR
        require(0 < self.block <= LARGEST_BLOCK << 4 and self.length > 0)
        self.compressed = self._number(vmdk.COMPRESSION.format, header_at + vmdk.COMPRESSION_AT) != 0

    def _part(self, index: int, begin: int, length: int) -> bytes:
        place = self._place(index)
        if place is None or not self.compressed:
            return super()._part(index, begin, length)
        _, packed = struct.unpack("<QI", read_at(self.file, place, 12))
        require(0 < packed <= LARGEST_BLOCK)
        return inflated(read_at(self.file, place + 12, packed), self.block, wbits=15)[begin : begin + length]

    def _place(self, index: int) -> int | None:
        table, number = divmod(index, self.length)
        grains = self._number("<I", self.directory + table * 4)
        grain = self._number("<I", grains * SECTOR + number * 4) if grains else 0
        return grain * SECTOR if grain > 1 else None


def contents(disk_format: str, file: IO[bytes], size: int) -> Contents:
    """Return the disk of ``size`` bytes in a file of a format in ``FORMATS``.

    Raises DiskFormatError, struct.error, LookupError or ValueError for a damaged file.
    """
    kind = _KINDS.get(disk_format, Contents)
    if kind is Vhd and read_at(file, 0, 8) != b"conectix":
        kind = Contents  # a fixed VHD is the raw disk, followed by a footer
    return kind(file, size)


def inflated(data: bytes, length: int, *, wbits: int) -> bytes:
    """Return a decompressed block of ``length`` bytes. Raises DiskFormatError if it has another length."""
    require(length <= LARGEST_BLOCK)
    try:
        block = zlib.decompressobj(wbits).decompress(data, length)
    except zlib.error:
        raise DiskFormatError(NOT_READ) from None
    require(len(block) == length)
    return block


_KINDS: dict[str, type[Contents]] = {"qcow2": Qcow2, "vdi": Vdi, "vhd": Vhd, "vhdx": Vhdx, "vmdk": Vmdk}
