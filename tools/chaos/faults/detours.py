"""Connections between two agents through the proxy, which cuts and stalls them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import random
import time

from tools.chaos.faults.frames import Frame, text_frame

HERE = "127.0.0.1"
CHUNK = 65_536
MARK = b'"tcp_port":'
"""The field of a command that specifies a port of another host."""
WITHIN = 1.5
"""Seconds of a connection's life within which it is cut."""


class Detours:
    """Listens in place of each port at which an agent expects another one."""

    def __init__(self, chance: random.Random) -> None:
        self._chance = chance
        self._servers: dict[int, asyncio.Server] = {}
        self._open: set[tuple[asyncio.StreamWriter, ...]] = set()
        self._cut_until = self._stalled_until = 0.0

    async def redirect(self, frame: Frame) -> Frame:
        """Return the frame with the port of a detour in place of another agent's port on this machine."""
        if MARK not in frame.payload:
            return frame
        command = json.loads(frame.payload)
        body = command.get("body", {})
        if body.get("address") != HERE:
            return frame
        body["tcp_port"] = await self._port_to(int(body["tcp_port"]))
        return text_frame(json.dumps(command).encode())

    async def _port_to(self, port: int) -> int:
        if port not in self._servers:

            async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                with contextlib.suppress(OSError, EOFError):
                    try:
                        await self._pass_on(reader, writer, port)
                    finally:
                        writer.transport.abort()

            self._servers[port] = await asyncio.start_server(serve, HERE, 0)
        return int(self._servers[port].sockets[0].getsockname()[1])

    async def _pass_on(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, port: int) -> None:
        there, out = await asyncio.open_connection(HERE, port)
        pair = (writer, out)
        self._open.add(pair)
        if time.monotonic() < self._cut_until:
            self._cut_later(pair)
        ways = [asyncio.ensure_future(self._pump(*way)) for way in ((reader, out), (there, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            self._open.discard(pair)
            out.close()  # sends what is buffered; the other side is aborted by the caller after the same
            writer.close()
            for each in pair:
                with contextlib.suppress(OSError):
                    await each.wait_closed()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while chunk := await reader.read(CHUNK):
            while (left := self._stalled_until - time.monotonic()) > 0:
                await asyncio.sleep(min(left, 0.2))
            writer.write(chunk)
            await writer.drain()

    def _cut_later(self, pair: tuple[asyncio.StreamWriter, ...]) -> None:
        def work() -> None:
            for each in pair:
                with contextlib.suppress(RuntimeError, OSError):
                    each.transport.abort()

        asyncio.get_running_loop().call_later(self._chance.uniform(0, WITHIN), work)

    def cut(self, seconds: float) -> None:
        """Cut all connections, and those that begin within ``seconds``, each after a moment."""
        self._cut_until = time.monotonic() + seconds
        for pair in self._open:
            self._cut_later(pair)

    def stall(self, seconds: float) -> None:
        """Hold all data back for a while."""
        self._stalled_until = time.monotonic() + seconds

    def calm(self) -> None:
        """End both faults."""
        self._cut_until = self._stalled_until = 0.0

    def close(self) -> None:
        """Stop listening."""
        for server in self._servers.values():
            server.close()
