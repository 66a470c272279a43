"""Reads untrusted files, for the modules of all formats."""

import sys
from array import array
from collections.abc import Iterator
from typing import IO

SECTOR = 512
PIECE = 1 << 20
"""Limit of the bytes of a table that are read together, so that memory usage does not depend on sizes in the file."""
NO_UUID = bytes(16)
CUT_SHORT = "is damaged: its tables point outside of the file, or it was cut short"
HAS_PARENT = "has a parent: it contains only the differences from another file"

MAX_TABLE = 32 << 20
"""Limit of a table's size in bytes, because each entry is checked."""
MOST_EXPANSION = 100
"""Limit of the disk's bytes for each byte of the file. Compressed operating systems have 2 to 5."""
ALWAYS_ALLOWED = 256 << 20
"""Bytes to which any file may expand, however small it is: repeated text compresses very well."""
SHARED = "is damaged: it refers to a part of itself more than once"
EXPANDS = f"would become more than {MOST_EXPANSION} times as large when it is unpacked"


class DiskFormatError(ValueError):
    """An image must not be opened. The message completes the sentence "the image …"."""


def read_at(file: IO[bytes], offset: int, length: int) -> bytes:
    """Return exactly ``length`` bytes from ``offset``. Raises DiskFormatError if the file is too short, or if
    ``offset`` is invalid.
    """
    try:
        file.seek(offset)
    except (OSError, OverflowError, ValueError):
        raise DiskFormatError(CUT_SHORT) from None
    data = file.read(length)
    require(len(data) == length)
    return data


def require(holds: bool, otherwise: str = CUT_SHORT) -> None:  # noqa: FBT001 - reads as an assertion
    if not holds:
        raise DiskFormatError(otherwise)


def check_plain(blocks: int, block: int, size: int) -> None:
    """Reject a file of ``size`` bytes that refers to more blocks than it can contain. The last block may be incomplete.

    A valid disk does not use a block of the file twice.
    """
    require((blocks - 1) * block < size, SHARED)


def check_compressed(blocks: int, block: int, size: int) -> None:
    """Reject a file of ``size`` bytes whose compressed blocks expand to far more than the size of the file."""
    require(blocks * block <= MOST_EXPANSION * size + ALWAYS_ALLOWED, EXPANDS)


def entries(file: IO[bytes], offset: int, length: int, kind: str, order: str) -> Iterator["array[int]"]:
    """Yield a table in arrays of numbers. ``kind`` is ``I`` or ``Q``, ``order`` as in ``sys.byteorder``."""
    for place in range(offset, offset + length, PIECE):
        piece = array(kind, read_at(file, place, min(PIECE, offset + length - place)))
        if order != sys.byteorder:
            piece.byteswap()
        yield piece
