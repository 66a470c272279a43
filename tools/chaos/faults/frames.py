"""Reads WebSocket frames (RFC 6455), so that a proxy can inspect them and forward them unchanged."""

from __future__ import annotations

import asyncio
import json
import struct
from dataclasses import dataclass

TEXT, FINAL = 1, 0x80
MOST = 16 * 1024 * 1024


@dataclass(frozen=True)
class Frame:
    """A frame: its bytes on the wire and its payload."""

    raw: bytes
    opcode: int
    payload: bytes

    @property
    def kind(self) -> str:
        """Return the ``type`` of the message, empty if the frame has none."""
        return str(self._message().get("type", ""))

    @property
    def instance(self) -> str:
        """Return the id of the instance that a command is for, empty in all other frames."""
        return str(self._message().get("instance_id", ""))

    def _message(self) -> dict[str, object]:
        if self.opcode != TEXT:
            return {}
        try:
            message = json.loads(self.payload)
        except ValueError:
            return {}
        return message if isinstance(message, dict) else {}


def text_frame(text: bytes) -> Frame:
    """Return a frame of a server with this text."""
    length = len(text)
    if length < 126:
        head = bytes([FINAL | TEXT, length])
    elif length < 1 << 16:
        head = bytes([FINAL | TEXT, 126]) + struct.pack("!H", length)
    else:
        head = bytes([FINAL | TEXT, 127]) + struct.pack("!Q", length)
    return Frame(head + text, TEXT, text)


async def read_frame(reader: asyncio.StreamReader) -> Frame:
    """Read one frame. Raises IncompleteReadError at the end of the stream, and ValueError if the frame is too long."""
    raw = await reader.readexactly(2)
    opcode, masked, length = raw[0] & 0x0F, bool(raw[1] & 0x80), raw[1] & 0x7F
    if length >= 126:
        more = await reader.readexactly(2 if length == 126 else 8)
        raw += more
        (length,) = struct.unpack("!H" if length == 126 else "!Q", more)
    if length > MOST:
        message = f"a frame of {length} bytes"
        raise ValueError(message)
    mask = await reader.readexactly(4) if masked else b""
    payload = await reader.readexactly(length)
    return Frame(raw + mask + payload, opcode, unmasked(payload, mask))


def unmasked(payload: bytes, mask: bytes) -> bytes:
    """Return the payload without the client's mask; an empty mask changes nothing."""
    if not mask or not payload:
        return payload
    key = (mask * (len(payload) // 4 + 1))[: len(payload)]
    return (int.from_bytes(payload) ^ int.from_bytes(key)).to_bytes(len(payload))
