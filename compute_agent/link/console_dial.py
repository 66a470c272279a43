"""Tunnels of consoles: between the socket of a guest on this host and the portal, which asked for it."""

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import AsyncIterator
from pathlib import Path

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from compute_agent.engine.threads import Threads, in_thread
from compute_agent.link.credential import load_or_make
from compute_agent.link.dial import SocketOpener, dial, link_url
from compute_agent.settings import AgentSettings
from compute_agent.virt.errors import ConsoleBusyError, UnsupportedError

log = logging.getLogger(__name__)

MOST_TUNNELS = 64
MOST_BYTES = 65_536
"""Of one frame from a guest; as many wait for a slow portal at most, and as many more in each socket."""
MOST_FRAME = 1 << 20
CONNECT_WITHIN = 3.0
DIAL_WITHIN = 8.0
"""Seconds in which the dial must find the process of the portal that waits for it."""
PAUSE = 0.1

Guest = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class ConsoleDialer:
    """One host's tunnels.  Everything runs on the event loop; a name is looked up in a thread."""

    def __init__(self, settings: AgentSettings, opener: SocketOpener, threads: Threads) -> None:
        """Use the portal and the credential of one host."""
        self._settings = settings
        self._opener = opener
        self._threads = threads
        self._held: set[Path] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def open(self, tunnel: str, path: Path, *, alone: bool) -> None:
        """Connect to the socket of a guest and dial the tunnel, whose bytes then pass until either side ends.

        ``alone``: one connection at a time.  Raises ConsoleBusyError, UnsupportedError when nothing answers there.
        """
        if len(self._tasks) >= MOST_TUNNELS:
            raise ConsoleBusyError("The host has too many consoles open.")
        if alone and path in self._held:
            raise ConsoleBusyError("Somebody else has this console open.")
        if alone:
            self._held.add(path)
        try:
            async with asyncio.timeout(CONNECT_WITHIN):
                guest = await asyncio.open_unix_connection(str(path), limit=MOST_BYTES)
        except (OSError, TimeoutError) as error:
            self._let_go(path, alone=alone)
            raise UnsupportedError("The guest has no such console now.", detail=str(error)) from error
        except BaseException:
            self._let_go(path, alone=alone)
            raise
        task = asyncio.get_running_loop().create_task(self._carry(tunnel, guest), name=f"console {path.name}")
        self._tasks.add(task)

        def ended(done: asyncio.Task[None]) -> None:
            self._tasks.discard(done)
            self._let_go(path, alone=alone)

        task.add_done_callback(ended)

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _let_go(self, path: Path, *, alone: bool) -> None:
        if alone:
            self._held.discard(path)

    async def _carry(self, tunnel: str, guest: Guest) -> None:
        reader, writer = guest
        try:
            async with self._dialled(tunnel) as portal:
                await _pump(portal, reader, writer)
        except (OSError, TimeoutError, WebSocketException) as error:
            log.warning("%s: a console could not be carried to the portal: %s", self._settings.host, error)
        except Exception:
            log.exception("%s: a console broke.", self._settings.host)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    @contextlib.asynccontextmanager
    async def _dialled(self, tunnel: str) -> AsyncIterator[ClientConnection]:
        """Dial until the process answers that asked: behind one address there may be several, and each dial may come
        to another one.
        """
        until = time.monotonic() + DIAL_WITHIN
        while True:
            connected = await in_thread(self._threads.calls, lambda: dial(self._settings.portal_url, self._opener))
            try:
                portal = await self._shake_hands(connected, tunnel)
            except InvalidStatus:
                connected.close()
                if time.monotonic() >= until:
                    raise
                await asyncio.sleep(PAUSE)
                continue
            except BaseException:
                connected.close()
                raise
            async with portal:
                yield portal
            return

    async def _shake_hands(self, connected: socket.socket, tunnel: str) -> ClientConnection:
        secret = load_or_make(self._settings.state_dir, self._settings.host).secret
        return await connect(
            f"{link_url(self._settings.portal_url)}/consoles/{tunnel}",
            sock=connected,
            additional_headers={"Authorization": f"Bearer {secret}", "X-Novella-Host": self._settings.host},
            compression=None,
            proxy=None,
            max_size=MOST_FRAME,
            max_queue=4,
            write_limit=MOST_BYTES,
        )


async def _pump(portal: ClientConnection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Pass bytes both ways until either side ends; each way waits for its slower end."""

    async def out() -> None:
        while data := await reader.read(MOST_BYTES):
            await portal.send(data)

    async def back() -> None:
        async for frame in portal:
            writer.write(frame.encode() if isinstance(frame, str) else frame)
            await writer.drain()

    ways = [asyncio.ensure_future(out()), asyncio.ensure_future(back())]
    try:
        done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in done:
            with contextlib.suppress(OSError, WebSocketException):
                way.result()
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
