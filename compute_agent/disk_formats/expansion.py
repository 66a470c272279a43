"""How large a disk becomes when it is laid out: a table that names one part of a file again and again fills a host."""

import sys
from array import array
from collections.abc import Iterator
from typing import IO

from compute_agent.disk_formats.reading import PIECE, read_at, require

MAX_TABLE = 32 << 20
"""Bytes of a table, each entry of which is looked at."""
MOST_EXPANSION = 100
"""Bytes of the disk for each byte of the file; compressed systems have 2 to 5."""
ALWAYS_ALLOWED = 256 << 20
"""Bytes of a disk that a file may have however small it is: the same text again and again."""
SHARED = "is damaged: parts of it are named more than once"
EXPANDS = f"becomes more than {MOST_EXPANSION} times as large when it is laid out"


def check_plain(blocks: int, block: int, size: int) -> None:
    """Refuse a file of ``size`` bytes that names more blocks than it can have; the last one may be cut short.

    In one disk no block has two places.
    """
    require((blocks - 1) * block < size, SHARED)


def check_compressed(blocks: int, block: int, size: int) -> None:
    """Refuse a file of ``size`` bytes whose blocks, compressed in it, become far more than it is itself."""
    require(blocks * block <= MOST_EXPANSION * size + ALWAYS_ALLOWED, EXPANDS)


def entries(file: IO[bytes], offset: int, length: int, kind: str, order: str) -> Iterator["array[int]"]:
    """Yield a table in pieces of numbers: ``kind`` is ``I`` or ``Q``, ``order`` as in ``sys.byteorder``."""
    for place in range(offset, offset + length, PIECE):
        piece = array(kind, read_at(file, place, min(PIECE, offset + length - place)))
        if order != sys.byteorder:
            piece.byteswap()
        yield piece
