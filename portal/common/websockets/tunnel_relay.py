"""Relay to the web process of this machine that waits for a host's connection, if another process received it.

The waiting process listens on a unix socket named after the tunnel, in a directory that only Novella's user can enter.
The process that the host has connected to authenticates the host, connects to the socket and forwards frames in both
directions, each preceded by its length. A side that reads slowly slows down the other.
"""

import asyncio
import contextlib
import hashlib
import os
import socket
import struct
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

from django.conf import settings

from provisioning.events.wake import short_path

LEFT_AFTER = 120.0
"""Seconds after which a tunnel's socket is stale, left by a killed process: hosts connect within seconds."""
JOIN_WITHIN = 5.0
WELCOME = b"+"
_HOST = 16
"""Bytes of a host's id, which the connecting process sends first."""
_LENGTH = struct.Struct("!I")


class Pipe:
    """One end of the connection between two processes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def deliver(self, data: bytes) -> None:
        """Send a frame; returns when more can be sent."""
        with contextlib.suppress(OSError):  # ``frames`` reports the end of the pipe
            self._writer.write(_LENGTH.pack(len(data)) + data)
            await self._writer.drain()

    async def frames(self) -> AsyncIterator[bytes]:
        """Yield the frames of the other process until it closes."""
        with contextlib.suppress(asyncio.IncompleteReadError, OSError):
            while True:
                (length,) = _LENGTH.unpack(await self._reader.readexactly(_LENGTH.size))
                yield await self._reader.readexactly(length)

    async def close(self) -> None:
        self.hang_up()

    def hang_up(self) -> None:
        self._writer.close()


Read = Callable[[], Awaitable[None]]
"""Reads a pipe to its end."""


@contextlib.asynccontextmanager
async def listening(name: str, joined: Callable[[uuid.UUID, Pipe], Read | None]) -> AsyncIterator[None]:
    """Listen for the process that receives the host's connection.

    ``joined`` is called with the host and the pipe; it returns None for an unexpected host.
    """

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        pipe = Pipe(reader, writer)
        try:
            async with asyncio.timeout(JOIN_WITHIN):
                host_id = uuid.UUID(bytes=await reader.readexactly(_HOST))
            read = joined(host_id, pipe)
            if read is not None:
                writer.write(WELCOME)
                await read()
        except (OSError, asyncio.IncompleteReadError, TimeoutError):
            return
        finally:
            writer.close()

    path = _path(name)
    _sweep(path.parent)
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as listener:
        with short_path(path.parent) as short:
            listener.bind(f"{short}/{path.name}")
        server = await asyncio.start_unix_server(serve, sock=listener)
        try:
            yield
        finally:
            server.close()
            path.unlink(missing_ok=True)


async def join(name: str, host_id: uuid.UUID) -> Pipe | None:
    """Connect to the process that waits for this host; None if no process of this machine does."""
    path = _path(name)
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.setblocking(False)  # noqa: FBT003
    try:
        with short_path(path.parent) as short:
            await asyncio.get_running_loop().sock_connect(connection, f"{short}/{path.name}")
    except OSError:
        connection.close()
        return None
    reader, writer = await asyncio.open_unix_connection(sock=connection)
    writer.write(host_id.bytes)
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(JOIN_WITHIN):
            if await reader.read(len(WELCOME)) == WELCOME:
                return Pipe(reader, writer)
    writer.close()
    return None


def _path(name: str) -> Path:
    """Return the socket path of a tunnel, whose name is a secret."""
    folder = Path(settings.RUN_DIR, "tunnels")
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    return folder / hashlib.sha256(name.encode()).hexdigest()[:32]


def _sweep(folder: Path) -> None:
    """Remove stale sockets of killed processes."""
    for entry in os.scandir(folder):
        with contextlib.suppress(FileNotFoundError):
            if time.time() - entry.stat(follow_symlinks=False).st_mtime > LEFT_AFTER:
                os.unlink(entry.path)  # noqa: PTH108
