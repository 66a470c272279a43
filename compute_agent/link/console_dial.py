"""Tunnels between the portal and a console or TCP port of a guest on this host, opened at the portal's request."""

import asyncio
import contextlib
import logging
import os
import socket
import stat
import struct
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import InvalidStatus, WebSocketException

from compute_agent.engine.threads import Threads
from compute_agent.link.credential import load_or_make
from compute_agent.link.dial import SocketOpener, dial_in_thread, link_url
from compute_agent.network.host_network import Target
from compute_agent.settings import AgentSettings
from compute_agent.virt.errors import (
    ConsoleBusyError,
    GuestRefusedError,
    GuestUnreachableError,
    HostError,
    InstanceNotFoundError,
    UnsupportedError,
)

log = logging.getLogger(__name__)

MOST_TUNNELS = MOST_READERS = 64
MOST_OF_ONE = 16
"""Limit of the tunnels of one user, and of the followers of one project's console logs."""
MOST_BYTES = 65_536
"""Limit of one frame from a guest; also of the data that waits for a slow portal, and of each socket's buffer."""
MOST_FRAME = 1 << 20
CONNECT_WITHIN = 3.0
GUEST_CONNECTS_WITHIN = 8.0
"""Seconds within which a guest must accept a connection."""
FLUSHED_WITHIN = 60.0
"""Seconds within which a guest must read the last bytes after both sides have finished."""
QUARTER = 4
DIAL_WITHIN = 8.0
"""Seconds within which the dial must reach the portal process that waits for it."""
PAUSE = 0.1
PONG_WITHIN = 20.0

Guest = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class _Shares:
    """Counts a host's open tunnels of one kind, in total and for each share (a user or a project)."""

    def __init__(self, most: int, of_one: int, full: str, own: str) -> None:
        """``full`` and ``own`` are the error messages if the host, or one share, has too many open tunnels."""
        self._most, self._of_one, self._full, self._own = most, of_one, full, own
        self._taken: Counter[str] = Counter()

    def acquire(self, share: str) -> None:
        """Count a tunnel. ``share``: the user or project; empty for a tunnel that only counts in total. Raises
        ConsoleBusyError.
        """
        if self._taken.total() >= self._most:
            raise ConsoleBusyError(self._full)
        if share and self._taken[share] >= self._of_one:
            raise ConsoleBusyError(self._own)
        self._taken[share] += 1

    def release(self, share: str) -> None:
        self._taken[share] -= 1
        if not self._taken[share]:
            del self._taken[share]


@contextlib.contextmanager
def _itself(path: Path) -> Iterator[str]:
    """Yield a name for the socket at this path, without following links. Raises OSError.

    The guest's account owns the folder. If links were followed, an escaped guest could redirect the host to any local
    service.
    """
    descriptor = os.open(path, os.O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            raise OSError(f"{path} is not a socket")
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)


class ConsoleDialer:
    """One host's tunnels. All methods run on the event loop; names are resolved in a thread."""

    def __init__(self, settings: AgentSettings, opener: SocketOpener, threads: Threads) -> None:
        """Use the portal and the credential of one host."""
        self._settings = settings
        self._opener = opener
        self._threads = threads
        self._held: set[Path] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._tunnels = _Shares(
            MOST_TUNNELS,
            MOST_OF_ONE,
            "The host has too many consoles open.",
            "You have too many consoles open on this host.",
        )
        self._readers = _Shares(
            MOST_READERS,
            MOST_OF_ONE,
            "Too many console logs of this host are followed.",
            "Too many console logs of this project are followed on the server's host.",
        )
        self._forwards = _Shares(
            settings.tunnels,
            max(settings.tunnels // QUARTER, 1),
            "The host has too many tunnels. Try again later.",
            "You have too many tunnels to guests of this host. Close some of them first.",
        )

    async def open(self, tunnel: str, path: Path, *, alone: bool, share: str = "") -> None:
        """Connect to a guest's socket and dial the tunnel, which forwards bytes until either side ends.

        ``alone``: the socket allows one connection at a time. Raises ConsoleBusyError, and UnsupportedError if the
        socket does not answer.
        """
        if alone and path in self._held:
            raise ConsoleBusyError("Another user has this console open.")
        self._tunnels.acquire(share)
        if alone:
            self._held.add(path)

        def release_all() -> None:
            self._tunnels.release(share)
            if alone:
                self._held.discard(path)

        try:
            with _itself(path) as name:
                async with asyncio.timeout(CONNECT_WITHIN):
                    guest = await asyncio.open_unix_connection(name, limit=MOST_BYTES)
        except (OSError, TimeoutError) as error:
            release_all()
            raise UnsupportedError("The guest has no such console now.", detail=str(error)) from error
        except BaseException:
            release_all()
            raise

        def ended() -> None:
            guest[1].close()  # the task may have been cancelled before it began
            release_all()

        self._start(self._carry(tunnel, guest), f"console {path.name}", ended)

    def follow(self, tunnel: str, frames: AsyncIterator[bytes], share: str) -> None:
        """Dial the tunnel and send the frames, each after the portal has read the previous one. Replies are ignored.

        Raises ConsoleBusyError.
        """
        self._readers.acquire(share)
        self._start(self._send(tunnel, frames), "console log", lambda: self._readers.release(share))

    async def forward(self, tunnel: str, target: Target, share: str = "") -> None:
        """Connect a guest's port to a tunnel of the portal, which forwards bytes until both sides have finished. If one
        side aborts, the other is aborted as well.

        Raises ConsoleBusyError, GuestRefusedError, GuestUnreachableError.
        """
        connection, address = target
        try:
            self._forwards.acquire(share)
        except ConsoleBusyError:
            connection.close()
            raise
        try:
            guest = await _connected(connection, address)
        except BaseException:
            self._forwards.release(share)
            connection.close()
            raise

        def ended() -> None:
            guest[1].transport.abort()  # it may have been stopped before it began
            self._forwards.release(share)

        self._start(self._exchange(tunnel, guest, connection), f"tunnel to {address[0]}", ended)

    def _start(self, work: Coroutine[Any, Any, None], name: str, ended: Callable[[], None]) -> None:
        task = asyncio.get_running_loop().create_task(work, name=name)
        self._tasks.add(task)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.discard(task)
            ended()

        task.add_done_callback(done)

    async def close(self) -> None:
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _carry(self, tunnel: str, guest: Guest) -> None:
        reader, writer = guest
        try:
            with self._logged():
                async with self._dialled(f"consoles/{tunnel}") as portal:
                    await _both(_out(reader, portal), _back(portal, writer))
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def _exchange(self, tunnel: str, guest: Guest, connection: socket.socket) -> None:
        reader, writer = guest
        heard_all = asyncio.Event()
        complete = False
        try:
            with self._logged():
                async with self._dialled(f"tunnels/{tunnel}", patient=True) as portal:
                    await _both(_forward_to_end(reader, portal, heard_all), _back_to_its_end(portal, writer, heard_all))
                    complete = heard_all.is_set() and reader.at_eof()
            if complete:
                writer.close()
                with contextlib.suppress(OSError, TimeoutError):
                    async with asyncio.timeout(FLUSHED_WITHIN):
                        await writer.wait_closed()
        finally:
            _reset(connection)

    async def _send(self, tunnel: str, frames: AsyncIterator[bytes]) -> None:
        with self._logged():
            async with self._dialled(f"consoles/{tunnel}") as portal:
                await _both(_say(frames, portal), portal.wait_closed())

    @contextlib.contextmanager
    def _logged(self) -> Iterator[None]:
        """Log an error that ends a tunnel."""
        try:
            yield
        except InstanceNotFoundError:
            return
        except (OSError, TimeoutError, WebSocketException, HostError) as error:
            log.warning("%s: a tunnel to the portal failed: %s", self._settings.host, error)
        except Exception:
            log.exception("%s: a tunnel broke.", self._settings.host)

    @contextlib.asynccontextmanager
    async def _dialled(self, path: str, *, patient: bool = False) -> AsyncIterator[ClientConnection]:
        """Dial repeatedly until the portal process that requested the tunnel answers, because several processes may
        share one address.

        ``patient``: the connection is kept even if the portal does not read for a long time.
        """
        until = time.monotonic() + DIAL_WITHIN
        while True:
            connected = await dial_in_thread(self._threads.calls, self._settings.portal_url, self._opener)
            try:
                portal = await self._shake_hands(connected, path, patient=patient)
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

    async def _shake_hands(self, connected: socket.socket, path: str, *, patient: bool) -> ClientConnection:
        secret = load_or_make(self._settings.state_dir, self._settings.host).secret
        return await connect(
            f"{link_url(self._settings.portal_url)}/{path}",
            sock=connected,
            additional_headers={"Authorization": f"Bearer {secret}", "X-Novella-Host": self._settings.host},
            compression=None,
            proxy=None,
            max_size=MOST_FRAME,
            max_queue=4,
            write_limit=MOST_BYTES,
            ping_timeout=None if patient else PONG_WITHIN,
        )


async def _connected(connection: socket.socket, address: tuple[str, int]) -> Guest:
    """Connect, and return the connection's streams.  Raises GuestRefusedError, GuestUnreachableError."""
    try:
        async with asyncio.timeout(GUEST_CONNECTS_WITHIN):
            await asyncio.get_running_loop().sock_connect(connection, address)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        return await asyncio.open_connection(sock=connection, limit=MOST_BYTES)
    except ConnectionRefusedError as error:
        raise GuestRefusedError("The guest does not accept connections at this port.") from error
    except (OSError, TimeoutError) as error:
        raise GuestUnreachableError("The guest does not answer at this port.", detail=str(error)) from error


def _reset(connection: socket.socket) -> None:
    """Close the connection with a reset (RST), so that the guest does not consider partial data complete. Has no effect
    on a closed connection.
    """
    with contextlib.suppress(OSError):
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


async def _forward_to_end(reader: asyncio.StreamReader, portal: ClientConnection, heard_all: asyncio.Event) -> None:
    """Forward the guest's data like ``_out``. Then send an empty frame, which ends the data, and wait until the portal
    has ended its data as well.
    """
    await _out(reader, portal)
    await portal.send(b"")
    await heard_all.wait()


async def _back_to_its_end(portal: ClientConnection, writer: asyncio.StreamWriter, heard_all: asyncio.Event) -> None:
    """Forward the portal's data like ``_back``, up to an empty frame. Then end the data for the guest (FIN)."""
    async for frame in portal:
        if heard_all.is_set():
            continue
        if frame:
            writer.write(frame.encode() if isinstance(frame, str) else frame)
            await writer.drain()
        else:
            writer.write_eof()
            heard_all.set()


async def _out(reader: asyncio.StreamReader, portal: ClientConnection) -> None:
    while data := await reader.read(MOST_BYTES):
        await portal.send(data)


async def _back(portal: ClientConnection, writer: asyncio.StreamWriter) -> None:
    async for frame in portal:
        writer.write(frame.encode() if isinstance(frame, str) else frame)
        await writer.drain()


async def _say(frames: AsyncIterator[bytes], portal: ClientConnection) -> None:
    async for frame in frames:
        await portal.send(frame)


async def _both(*works: Coroutine[Any, Any, None]) -> None:
    """Run the coroutines until one of them ends. A disconnect of the peer is not an error."""
    ways = [asyncio.ensure_future(work) for work in works]
    try:
        done, _ = await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        for way in done:
            with contextlib.suppress(OSError, WebSocketException):
                way.result()
    finally:
        for way in ways:
            way.cancel()
        await asyncio.gather(*ways, return_exceptions=True)
