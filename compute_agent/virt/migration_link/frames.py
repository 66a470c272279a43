"""Frames of the control connection, and the bytes of streams."""

import asyncio
import contextlib
import logging
import socket

import msgspec

from compute_agent.virt.migration_link.errors import MigrationFailedError

log = logging.getLogger(__name__)

MOST_BYTES = 64 << 20
"""Limit of a frame: it may contain a config drive."""
LENGTH = 4
CHUNK = 1 << 20
HANDSHAKE_SECONDS = 15.0
LOOK_EVERY = 0.3
"""Seconds between checks whether a migration was stopped, and between reports of its progress."""
SILENT_AFTER = 20
"""Seconds after which a control connection whose other host does not answer is lost."""
CONTROL, PROGRESS, PAUSED, FAILED = "control", "progress", "paused", "failed"


class Frame(msgspec.Struct):
    """One message of the control connection, or the first one of a stream."""

    kind: str
    body: bytes = b""
    done: int = 0
    total: int = 0
    flows: bytes = b""
    """Of the request to finish: the tracked connections of the guest."""


def notice_silence(writer: asyncio.StreamWriter) -> None:
    """Let the kernel end the control connection when the other host has lost its power or its network.

    Not for streams: a hypervisor that reads slowly would count as silent (``TCP_USER_TIMEOUT``).
    """
    link = writer.get_extra_info("socket")
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, seconds in ((socket.TCP_KEEPIDLE, 5), (socket.TCP_KEEPINTVL, 5), (socket.TCP_KEEPCNT, 3)):
        link.setsockopt(socket.IPPROTO_TCP, option, seconds)
    link.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, SILENT_AFTER * 1000)


async def write(writer: asyncio.StreamWriter, frame: Frame) -> None:
    put(writer, frame)
    await writer.drain()


def put(writer: asyncio.StreamWriter, frame: Frame) -> None:
    """Write a frame without waiting; frames are written whole, also between others' waits."""
    text = msgspec.msgpack.encode(frame)
    writer.write(len(text).to_bytes(LENGTH, "big") + text)


async def read(reader: asyncio.StreamReader) -> Frame:
    """Read a frame. Raises EOFError at the end of the connection, MigrationFailedError for anything else."""
    length = int.from_bytes(await reader.readexactly(LENGTH), "big")
    if length > MOST_BYTES:
        raise MigrationFailedError("The other host sent a message that is too long.")
    try:
        return msgspec.msgpack.decode(await reader.readexactly(length), type=Frame)
    except msgspec.DecodeError as error:
        raise MigrationFailedError("The other host sent an unknown message.", detail=str(error)) from error


async def splice(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    other_reader: asyncio.StreamReader,
    other_writer: asyncio.StreamWriter,
) -> None:
    """Copy bytes in both directions until one side ends."""
    with contextlib.closing(other_writer):
        ways = [asyncio.ensure_future(_copy(*way)) for way in ((reader, other_writer), (other_reader, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    while data := await reader.read(CHUNK):
        writer.write(data)
        await writer.drain()
    with contextlib.suppress(OSError, NotImplementedError):
        await writer.drain()
