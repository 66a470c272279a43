"""The sending side of a live migration."""

import asyncio
import contextlib
import logging
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import HostError, StoppedError
from compute_agent.virt.live_migration import MEMORY, Departure
from compute_agent.virt.migration_link.address import MigrationAddress
from compute_agent.virt.migration_link.errors import MigrationFailedError, MigrationUndecidedError, TimeLimitError
from compute_agent.virt.migration_link.frames import (
    CHUNK,
    CONTROL,
    FAILED,
    HANDSHAKE_SECONDS,
    LOOK_EVERY,
    PAUSED,
    PROGRESS,
    Frame,
    notice_silence,
    put,
    read,
    splice,
    write,
)
from compute_agent.virt.migration_link.switching import switched
from compute_agent.virt.processes import progress

log = logging.getLogger(__name__)

FAREWELL_WITHIN = 1.0
"""Seconds in which a connection that ends sends its last bytes."""
FINISH_WITHIN = 90.0
"""Seconds in which the receiving host must answer whether the guest runs there."""
FLOWS_WITHIN = 1.0
"""Seconds for which a paused guest waits until its tracked connections are read."""


@dataclass(frozen=True)
class Limits:
    """Time limit of a migration in seconds (0: none), and the reaction to it: ``abort`` or ``complete``."""

    seconds: int = 0
    action: str = "abort"


class Sending:
    """Sends a running guest to another host (live migration)."""

    def __init__(
        self,
        own: MigrationAddress,
        departure: Departure,
        address: str,
        port: int,
        tls_hostname: str,
        switch: Callable[[], None],
        flows: Callable[[], bytes] = bytes,
    ) -> None:
        """``switch`` sends the guest's traffic to the other host. It is called in a thread when the guest runs
        there. ``flows`` returns the guest's tracked connections. It is called in a thread when the guest is paused.
        """
        self._own, self._departure, self._switch = own, departure, switch
        self._flows = flows
        self._reading: asyncio.Task[bytes] | None = None
        self._address, self._port, self._name = own.far(address), port, tls_hostname
        self._memory: set[asyncio.StreamWriter] = set()
        """The hypervisor's connections for memory."""

    def send(self, stopped: Stopped, limits: Limits, control: Callable[[str], None]) -> None:
        """Send the guest. Afterwards it has left; after an error it continues here, except after
        MigrationUndecidedError.

        ``control`` is called with ``abort`` or ``complete`` when the migration is stopped or reaches its limit.
        """
        asyncio.run(self._send(stopped, limits, control))

    async def _send(self, stopped: Stopped, limits: Limits, control: Callable[[str], None]) -> None:
        departure = self._departure
        try:
            async with self._connected(CONTROL) as (reader, writer):
                finished = await self._phases(reader, writer, _Watch(stopped, limits, control))
                switching = asyncio.ensure_future(switched(self._switch))
                await asyncio.to_thread(departure.leave, finished)
                await switching
        except MigrationUndecidedError:
            raise
        except (OSError, EOFError, ssl.SSLError, TimeoutError) as error:
            await asyncio.to_thread(departure.stay)
            raise MigrationFailedError("The connection to the other host was lost.", detail=str(error)) from error
        except BaseException:
            await asyncio.to_thread(departure.stay)
            raise

    async def _phases(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, watch: "_Watch") -> bytes:
        departure = self._departure
        shape = await self._ask(reader, writer, Frame("offer", await asyncio.to_thread(departure.offer)), watch)
        begun = await asyncio.to_thread(departure.begin, shape)
        prepared = await self._ask(reader, writer, Frame("begin", begun), watch)
        async with self._streams():
            performed = await self._perform(reader, writer, prepared, watch)
        if reader.at_eof():
            raise EOFError
        await write(writer, Frame("finish", performed, flows=await self._flows_read()))
        try:
            answer = await asyncio.wait_for(read(reader), FINISH_WITHIN)
        except (OSError, EOFError, ssl.SSLError, TimeoutError) as error:
            raise MigrationUndecidedError(
                "The connection ended while the other host started the guest.", detail=str(error)
            ) from error
        return _checked(answer)

    async def _ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frame: Frame, watch: "_Watch"
    ) -> bytes:
        await write(writer, frame)
        reading = asyncio.ensure_future(read(reader))
        while not reading.done():
            await asyncio.wait([reading], timeout=LOOK_EVERY)
            if watch.stopped() and not reading.done():
                reading.cancel()
                raise StoppedError("The migration was stopped.")
        return _checked(reading.result())

    async def _perform(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, prepared: bytes, watch: "_Watch"
    ) -> bytes:
        loop = asyncio.get_running_loop()

        def switching() -> None:
            put(writer, Frame(PAUSED))
            self._read_flows()

        def paused() -> None:
            with contextlib.suppress(RuntimeError):  # the loop has ended, and the migration with it
                loop.call_soon_threadsafe(switching)

        self._departure.when_paused(paused)
        work = asyncio.ensure_future(asyncio.to_thread(self._departure.perform, prepared))
        while not work.done():
            await asyncio.wait([work], timeout=LOOK_EVERY)
            if work.done():
                break
            amount = await asyncio.to_thread(self._departure.amount)
            progress.moved(amount.done, amount.total, disk_done=amount.disk_done, disk_total=amount.disk_total)
            # If the other agent ends, perform itself fails, because its streams end.
            with contextlib.suppress(OSError):
                await write(writer, Frame(PROGRESS, done=amount.done, total=amount.total))
            watch.lost = watch.lost or reader.exception() is not None
            await asyncio.to_thread(watch.look, LOOK_EVERY)
        if watch.lost and work.exception() is not None:
            raise MigrationFailedError("The connection to the other host was lost.")
        if watch.limited and work.exception() is not None:
            raise TimeLimitError(f"The migration was aborted at its time limit of {watch.limits.seconds} seconds.")
        if watch.aborted and work.exception() is not None:
            raise StoppedError("The migration was aborted.")
        return work.result()

    def _read_flows(self) -> asyncio.Task[bytes]:
        """Begin to read the guest's tracked connections, unless this has begun."""
        if self._reading is None:
            self._reading = asyncio.ensure_future(_flows_of(self._flows))
        return self._reading

    async def _flows_read(self) -> bytes:
        """Return the guest's tracked connections; empty if they cannot be read in time."""
        reading = self._read_flows()
        await asyncio.wait([reading], timeout=FLOWS_WITHIN)
        return reading.result() if reading.done() else b""

    @contextlib.asynccontextmanager
    async def _connected(self, kind: str) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        context = self._own.sending()
        name = self._name if context is not None else None
        reader, writer = await asyncio.wait_for(
            asyncio.open_connection(self._address, self._port, limit=CHUNK, ssl=context, server_hostname=name),
            HANDSHAKE_SECONDS,
        )
        try:
            if kind == CONTROL:
                notice_silence(writer)
            await write(writer, Frame(kind))
            yield reader, writer
        finally:
            writer.close()
            with contextlib.suppress(OSError, TimeoutError):
                await asyncio.wait_for(writer.wait_closed(), FAREWELL_WITHIN)
            writer.transport.abort()  # the loop ends: nothing else closes the socket of a host that is silent
            await asyncio.sleep(0)

    @contextlib.asynccontextmanager
    async def _streams(self) -> AsyncIterator[None]:
        """Listen at the local socket of each stream, and connect each connection with the other host."""
        servers: list[asyncio.Server] = []
        try:
            for kind, path in self._departure.sockets.items():
                path.unlink(missing_ok=True)
                servers.append(await asyncio.start_unix_server(self._forward(kind), path=str(path), limit=CHUNK))
            loop = asyncio.get_running_loop()
            self._departure.sockets_ready(partial(self._end_memory, loop))
            yield
        finally:
            for server in servers:
                server.close()
            for path in self._departure.sockets.values():
                path.unlink(missing_ok=True)

    def _forward(self, kind: str) -> Callable[[asyncio.StreamReader, asyncio.StreamWriter], Any]:
        opened = self._memory if kind == MEMORY else set()

        async def forward(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            opened.add(writer)
            with contextlib.closing(writer), contextlib.suppress(OSError, EOFError, ssl.SSLError, TimeoutError):
                async with self._connected(kind) as (far_reader, far_writer):
                    await splice(reader, writer, far_reader, far_writer)

        return forward

    def _end_memory(self, loop: asyncio.AbstractEventLoop) -> bool:
        """End the hypervisor's connections for memory; called in any thread. Return whether there was one."""
        result = bool(self._memory)
        with contextlib.suppress(RuntimeError):  # the loop has ended, and the connections with it
            loop.call_soon_threadsafe(self._end_connections)
        return result

    def _end_connections(self) -> None:
        for writer in self._memory:
            writer.transport.abort()


class _Watch:
    """Watches a migration that runs: the end of the command, and the time limit."""

    def __init__(self, stopped: Stopped, limits: Limits, control: Callable[[str], None]) -> None:
        self.stopped, self.limits, self._control = stopped, limits, control
        self._elapsed = 0.0
        self._acted = False
        self.aborted = False
        """Whether the migration was aborted because the command was stopped."""
        self.limited = False
        """Whether the migration was aborted at the time limit."""
        self.lost = False
        """Whether the migration is aborted because the other host does not answer; its streams wait for it."""

    def look(self, seconds: float) -> None:
        self._elapsed += seconds
        if self.stopped():
            self.aborted = True
            self._send_action("abort")
        elif self.lost:
            self._send_action("abort")
        elif self.limits.seconds and self._elapsed > self.limits.seconds and not self._acted:
            self._acted, self.limited = True, self.limits.action == "abort"
            self._send_action(self.limits.action)

    def _send_action(self, action: str) -> None:
        try:
            self._control(action)
        except HostError as error:  # it has just ended
            log.info("libvirt refused to abort, pause or limit a migration: %s %s", error.message, error.detail)


async def _flows_of(flows: Callable[[], bytes]) -> bytes:
    try:
        return await asyncio.to_thread(flows)
    except HostError as error:
        log.warning("The connections of a guest that moves cannot be read: %s %s", error.message, error.detail)
        return b""


def _checked(frame: Frame) -> bytes:
    if frame.kind == FAILED:
        raise MigrationFailedError(frame.body.decode(errors="replace")[:500] or "The other host failed.")
    return frame.body
