"""Pieces of a console log in a tunnel: the offset of the first byte, and the bytes."""

import struct
from typing import NamedTuple

from compute_agent.contract.messages import ContractError

MOST_BYTES = 262_144
"""Limit of one piece."""
_START = struct.Struct("!Q")


class ConsolePiece(NamedTuple):
    """Output of a guest, untrusted. ``start``: the offset of its first byte in the log."""

    start: int
    data: bytes

    @property
    def end(self) -> int:
        return self.start + len(self.data)


def pack(piece: ConsolePiece) -> bytes:
    """Return the frame: the offset as 8 bytes, big-endian, and the data."""
    return _START.pack(piece.start) + piece.data


def unpack(frame: bytes) -> ConsolePiece:
    """Parse a frame; raises ContractError."""
    if not _START.size <= len(frame) <= _START.size + MOST_BYTES:
        raise ContractError("A piece of a console log has an invalid size.")
    (start,) = _START.unpack_from(frame)
    return ConsolePiece(start, frame[_START.size :])
