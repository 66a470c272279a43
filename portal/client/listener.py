"""A local port that is forwarded to a port of a server."""

import asyncio
import contextlib
import socket
import struct
import sys
from collections.abc import Awaitable, Callable

from portal.client.errors import FAILED, ClientError
from portal.client.links import Link
from portal.client.tunnel import PIECE, carry

NewLink = Callable[[], Awaitable[Link]]
"""Returns a link with a valid token; raises ClientError."""


class _Local:
    """A connection of a local program."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def read(self) -> bytes:
        return await self._reader.read(PIECE)

    async def write(self, data: bytes) -> None:
        self._writer.write(data)
        await self._writer.drain()

    async def end(self) -> None:
        await self._writer.drain()
        self._writer.write_eof()


async def listen(address: str, port: int, new_link: NewLink, target: str) -> None:
    """Accept connections until the program is stopped. The failure of a connection is printed and does not affect other
    connections.

    Raises ClientError.
    """
    open_now: set[asyncio.Task[None]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is not None:
            open_now.add(task)
            task.add_done_callback(open_now.discard)
        try:
            await carry(await new_link(), _Local(reader, writer))
            writer.close()
        except (ClientError, OSError) as error:
            if isinstance(error, ClientError):
                _say(error.message)
            _reset(writer)

    try:
        server = await asyncio.start_server(serve, address, port, limit=PIECE)
    except OSError as error:
        raise ClientError(f"Port {port} of {address} cannot be listened at: {error.strerror}", FAILED) from error
    async with server:
        for listening in server.sockets:
            host, number = listening.getsockname()[:2]
            _say(f"{f'[{host}]' if ':' in host else host}:{number} is forwarded to {target}. Stop it with Ctrl-C.")
        try:
            await server.serve_forever()
        finally:
            for task in list(open_now):
                task.cancel()
            await asyncio.gather(*open_now, return_exceptions=True)


def _reset(writer: asyncio.StreamWriter) -> None:
    """Reset the connection (RST), so that the local program can distinguish an interruption from the end."""
    with contextlib.suppress(OSError):
        writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


def _say(text: str) -> None:
    sys.stderr.write(f"novella: {text}\n")
    sys.stderr.flush()
