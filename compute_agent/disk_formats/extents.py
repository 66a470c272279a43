"""Extents of a disk in backups: data, or zeros, whose bytes are not sent.

A **chunk** is sent as a unit: a header, the table of its extents, then the data of the extents that are not zeros. All
numbers are little-endian; offsets and lengths are in bytes of the disk.
"""

import struct
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple

MAGIC = b"NVX1"
_HEADER, _EXTENT = struct.Struct("<4sI"), struct.Struct("<QQB")
CHUNK = 8 << 20
"""Limit of the data in one chunk, in bytes."""
PIECE = 1 << 20
"""Size in bytes of the units in which zeros are detected."""
MOST_EXTENTS = 65_536
LONGEST = CHUNK + _HEADER.size + MOST_EXTENTS * _EXTENT.size
"""Bytes of the longest chunk."""
_ZEROS = bytes(PIECE)


class Extent(NamedTuple):
    """A range of a disk, in bytes."""

    offset: int
    length: int
    zero: bool = False  # reads as zeros


class ExtentsError(ValueError):
    """A malformed chunk, or a chunk that does not fit its disk."""


def chunks(extents: Iterable[Extent], read: Callable[[int, int], bytes]) -> Iterator[bytes]:
    """Yield chunks of the extents, which must be ascending. ``read(offset, length)`` returns the data of an extent that
    is not zeros.
    """
    table: list[Extent] = []
    data: list[bytes] = []
    size = 0
    for extent in _pieces(extents):
        held = b"" if extent.zero else read(extent.offset, extent.length)
        if not extent.zero and len(held) != extent.length:
            raise ExtentsError("The disk is shorter than its stated size.")
        if held and held == _ZEROS[: extent.length]:
            extent, held = extent._replace(zero=True), b""
        if size + len(held) > CHUNK or len(table) == MOST_EXTENTS:
            yield _encoded(table, data)
            table, data, size = [], [], 0
        last = table[-1] if table else None
        if last is not None and last.zero == extent.zero and last.offset + last.length == extent.offset:
            table[-1] = last._replace(length=last.length + extent.length)
        else:
            table.append(extent)
        if held:
            data.append(held)
            size += len(held)
    if table:
        yield _encoded(table, data)


def _pieces(extents: Iterable[Extent]) -> Iterator[Extent]:
    for extent in extents:
        if extent.zero:
            yield extent
            continue
        end = extent.offset + extent.length
        for offset in range(extent.offset, end, PIECE):
            yield Extent(offset, min(PIECE, end - offset))


def _encoded(table: list[Extent], data: list[bytes]) -> bytes:
    packed = (_EXTENT.pack(*extent) for extent in table)
    return b"".join([_HEADER.pack(MAGIC, len(table)), *packed, *data])


def decoded(chunk: bytes, disk_size: int) -> list[tuple[Extent, memoryview]]:
    """Return the extents of a chunk with their data, which is empty for zeros.

    Raises ExtentsError for a malformed chunk, and for extents that are not ascending or outside a disk of ``disk_size``
    bytes.
    """
    view = memoryview(chunk)
    if len(view) < _HEADER.size:
        raise ExtentsError("The chunk is truncated.")
    magic, count = _HEADER.unpack_from(view)
    at = _HEADER.size + count * _EXTENT.size
    if magic != MAGIC or count > MOST_EXTENTS or at > len(view):
        raise ExtentsError("This is not a chunk of a backup.")
    result = []
    behind = 0
    for number in range(count):
        offset, length, zero = _EXTENT.unpack_from(view, _HEADER.size + number * _EXTENT.size)
        if zero > 1 or not length or offset < behind or offset + length > disk_size:
            raise ExtentsError("An extent of the chunk does not fit its disk.")
        behind = offset + length
        held = 0 if zero else length
        if at + held > len(view):
            raise ExtentsError("The chunk is truncated.")
        result.append((Extent(offset, length, bool(zero)), view[at : at + held]))
        at += held
    if at != len(view):
        raise ExtentsError("The chunk contains more than its extents.")
    return result
