"""Pieces of a console log as they travel through a tunnel: where the first byte lies, and the bytes."""

import struct
from typing import NamedTuple

from compute_agent.contract.messages import ContractError

MOST_BYTES = 262_144
"""Of one piece."""
_START = struct.Struct("!Q")


class ConsolePiece(NamedTuple):
    """Bytes that a guest wrote, hostile; ``start`` is the offset of the first one since the log began."""

    start: int
    data: bytes

    @property
    def end(self) -> int:
        return self.start + len(self.data)


def pack(piece: ConsolePiece) -> bytes:
    """Return the frame: the offset as 8 bytes, big end first, and the data."""
    return _START.pack(piece.start) + piece.data


def unpack(frame: bytes) -> ConsolePiece:
    """Read a frame; raises ContractError."""
    if not _START.size <= len(frame) <= _START.size + MOST_BYTES:
        raise ContractError("A piece of a console log has no such size.")
    (start,) = _START.unpack_from(frame)
    return ConsolePiece(start, frame[_START.size :])
