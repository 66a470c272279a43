"""The connections of a live migration between two hosts: one for control, and one for each stream of data.

The receiving host listens at one port. Both sides authenticate with their hosts' certificates, and the receiver accepts
only the host that the portal has named. The first frame of a connection states its purpose. Streams are spliced
with local sockets of the hypervisors, so that no hypervisor listens to the network.
"""

import asyncio
import contextlib
import errno
import logging
import socket
import ssl
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import msgspec

from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import HostError, RetryableHostError, StoppedError
from compute_agent.virt.live_migration import MEMORY, Arrival, Departure
from compute_agent.virt.machine.host_address import HostAddress
from compute_agent.virt.processes import progress

log = logging.getLogger(__name__)

MOST_BYTES = 64 << 20
"""Limit of a frame: it may contain a config drive."""
LENGTH = 4
CHUNK = 1 << 20
FAREWELL_WITHIN = 1.0
"""Seconds in which a connection that ends sends its last bytes."""
HANDSHAKE_SECONDS = 15.0
LOOK_EVERY = 0.3
"""Seconds between checks whether a migration was stopped, and between reports of its progress."""
CONNECT_WITHIN = 60.0
"""Seconds in which the sending host must connect."""
FINISH_WITHIN = 90.0
"""Seconds in which the receiving host must answer whether the guest runs there."""
FLOWS_WITHIN = 1.0
"""Seconds for which a paused guest waits until its tracked connections are read."""
CONTROL, PROGRESS, PAUSED, FAILED = "control", "progress", "paused", "failed"


class MigrationFailedError(RetryableHostError):
    """The migration failed; the guest continues at its source."""

    code = "migration_failed"


class MigrationUndecidedError(HostError):
    """The connection ended while the other host started the guest."""

    code = "migration_undecided"


class Frame(msgspec.Struct):
    """One message of the control connection, or the first one of a stream."""

    kind: str
    body: bytes = b""
    done: int = 0
    total: int = 0
    flows: bytes = b""
    """Of the request to finish: the tracked connections of the guest."""


class MigrationAddress(HostAddress):
    """The address at which this host receives guests. Without certificates, the host is a simulated one, which uses no
    TLS.
    """

    def listen(self) -> tuple[socket.socket, str, int]:
        """Return a listening socket, and the address and port at which other hosts reach it. The highest free port is
        used, because volumes use the lowest. Raises RetryableHostError.
        """
        reached = self.reached_at()
        if not reached or (self.certificates is not None and not self.certificates.complete):
            raise RetryableHostError("This host has no address or no certificates for migrations yet.")
        for port in range(self.ports[1], self.ports[0] - 1, -1):
            try:
                return self.listening(port), reached, port
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    raise RetryableHostError("This host cannot listen for a guest.", detail=str(error)) from error
        raise RetryableHostError("All ports for migrations of this host are in use.")

    def far(self, address: str) -> str:
        """Return the address at which this host reaches a host with ``address``: simulated hosts share a machine."""
        return address if self.certificates is not None else self.reached_at()

    def receiving(self) -> ssl.SSLContext | None:
        """Return the TLS settings of the receiving side, which requires a certificate of the other host."""
        return self._context(ssl.PROTOCOL_TLS_SERVER, "server")

    def sending(self) -> ssl.SSLContext | None:
        """Return the TLS settings of the sending side."""
        return self._context(ssl.PROTOCOL_TLS_CLIENT, "client")

    def _context(self, protocol: int, role: str) -> ssl.SSLContext | None:
        if self.certificates is None:
            return None
        folder = self.certificates.folder
        context = ssl.SSLContext(protocol)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.verify_mode = ssl.CERT_REQUIRED
        context.load_cert_chain(folder / f"{role}-cert.pem", folder / f"{role}-key.pem")
        context.load_verify_locations(folder / "ca-cert.pem")
        return context


# ----- the receiving side ---------------------------------------------------------------------------------------------


class Reception:
    """Waits for one guest. ``listen`` is called first, then ``receive``; ``close`` in any case."""

    def __init__(
        self,
        own: MigrationAddress,
        arrival: Arrival,
        source: str,
        switch: Callable[[], None],
        adopt: Callable[[bytes], None] = lambda _: None,
    ) -> None:
        """``source``: the id of the host that sends the guest. ``switch`` sends the guest's traffic to this host. It is
        called in a thread when the guest is paused on the source, while its last memory is transferred, and again when
        it runs here. ``adopt`` receives the connections that the source has tracked, while the guest is started. Errors
        of both do not end the migration.
        """
        self._own, self._arrival, self._source = own, arrival, source
        self._switch, self._adopt = switch, adopt
        self._switching: asyncio.Task[None] | None = None
        self._socket: socket.socket | None = None
        self._amount = (0, 0)
        self._control: asyncio.Task[None] | None = None
        self._finishing = False

    def listen(self) -> tuple[str, int]:
        """Listen, and return address and port. Raises RetryableHostError."""
        self._socket, address, port = self._own.listen()
        return address, port

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()

    def receive(self, stopped: Stopped) -> None:
        """Receive the guest. Afterwards it runs here, or an error is raised and nothing is left here."""
        try:
            asyncio.run(self._receive(stopped))
        except BaseException:
            self._arrival.cancel()
            raise
        finally:
            self.close()

    async def _receive(self, stopped: Stopped) -> None:
        ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        expected = (OSError, EOFError, HostError, ssl.SSLError, asyncio.CancelledError)
        # a connection is cancelled when the migration is stopped; asyncio of Python 3.11 logs that as a fault

        writers: set[asyncio.StreamWriter] = set()

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writers.add(writer)
            with contextlib.closing(writer), contextlib.suppress(*expected):
                await self._serve(reader, writer, ended)

        context = self._own.receiving()
        within = HANDSHAKE_SECONDS if context is not None else None
        server = await asyncio.start_server(
            connected, sock=self._socket, limit=CHUNK, ssl=context, ssl_handshake_timeout=within
        )
        async with server:
            try:
                await self._wait_for(ended, stopped)
            finally:
                ended.cancel()
                for writer in writers:  # TLS would wait for the other host's farewell, and the loop ends
                    writer.transport.abort()
                await asyncio.sleep(0)

    async def _wait_for(self, ended: asyncio.Future[None], stopped: Stopped) -> None:
        waited, seen = 0.0, self._amount
        while not ended.done():
            await asyncio.wait([ended], timeout=LOOK_EVERY)
            if self._amount != seen:
                seen = self._amount
                progress.moved()
            waited += LOOK_EVERY
            if self._control is None and waited > CONNECT_WITHIN:
                raise MigrationFailedError("The other host has not connected.")
            if not self._finishing and not ended.done() and stopped():
                raise StoppedError("The migration was stopped.")
        ended.result()

    async def _serve(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, ended: asyncio.Future[None]
    ) -> None:
        if self._own.certificates is not None and _common_name(writer) != self._source:
            log.warning("A host that was not announced tried to send a guest.")
            return
        first = await asyncio.wait_for(_read(reader), HANDSHAKE_SECONDS)
        path = self._arrival.sockets.get(first.kind)
        if path is not None:
            await _splice(reader, writer, *await asyncio.open_unix_connection(str(path), limit=CHUNK))
        elif first.kind == CONTROL and self._control is None:
            self._control = asyncio.current_task()
            try:
                await self._phases(reader, writer)
            except (OSError, EOFError, ssl.SSLError) as error:
                _end(ended, MigrationFailedError("The connection to the other host was lost.", detail=str(error)))
            except Exception as error:  # noqa: BLE001 (the other host learns of every failure)
                _end(ended, error)
                with contextlib.suppress(OSError):
                    await _write(writer, Frame(FAILED, _text(error)))
            else:
                _end(ended, None)

    async def _phases(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the phases of the sending host, until the guest runs here."""
        arrival = self._arrival
        for kind, work in (("offer", arrival.shape), ("begin", arrival.prepare), ("finish", arrival.finish)):
            frame = await _read(reader)
            while frame.kind in (PROGRESS, PAUSED):
                if frame.kind == PAUSED:
                    self._begin_switch()
                else:
                    self._amount = (frame.done, frame.total)
                frame = await _read(reader)
            if frame.kind != kind:
                raise MigrationFailedError("The other host has ended the migration.")
            self._finishing = kind == "finish"
            adopting = None
            if self._finishing:
                self._begin_switch()
                adopting = asyncio.ensure_future(_switched(partial(self._adopt, frame.flows)))
            answer = await asyncio.to_thread(work, frame.body)
            if self._finishing:  # the guest runs: a lost connection changes nothing
                with contextlib.suppress(OSError):
                    await _write(writer, Frame(kind, answer))
                for task in (adopting, self._switching):
                    if task is not None:
                        await task
                await _switched(self._switch)
            else:
                await _write(writer, Frame(kind, answer))

    def _begin_switch(self) -> None:
        """Switch the network, unless this has begun."""
        if self._switching is None:
            self._switching = asyncio.ensure_future(_switched(self._switch))


async def _switched(switch: Callable[[], None]) -> None:
    """Switch a guest's network. A failure does not end the migration: the host's network retries."""
    try:
        await asyncio.to_thread(switch)
    except HostError as error:
        log.warning("The network of a guest that moves is not complete: %s %s", error.message, error.detail)


async def _flows_of(flows: Callable[[], bytes]) -> bytes:
    try:
        return await asyncio.to_thread(flows)
    except HostError as error:
        log.warning("The connections of a guest that moves cannot be read: %s %s", error.message, error.detail)
        return b""


def _end(ended: asyncio.Future[None], error: Exception | None) -> None:
    if ended.done():
        return
    if error is None:
        ended.set_result(None)
    else:
        ended.set_exception(error)


def _common_name(writer: asyncio.StreamWriter) -> str:
    certificate: dict[str, Any] = writer.get_extra_info("peercert") or {}
    names = [value for part in certificate.get("subject", ()) for key, value in part if key == "commonName"]
    return names[0] if names else ""


# ----- the sending side -----------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Limits:
    """Time limit of a migration in seconds (0: none), and the reaction to it: ``abort`` or ``complete``."""

    seconds: int = 0
    action: str = "abort"


class Sending:
    """Sends one guest."""

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
                switching = asyncio.ensure_future(_switched(self._switch))
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
            performed = await self._perform(writer, prepared, watch)
        if reader.at_eof():
            raise EOFError
        await _write(writer, Frame("finish", performed, flows=await self._flows_read()))
        try:
            answer = await asyncio.wait_for(_read(reader), FINISH_WITHIN)
        except (OSError, EOFError, ssl.SSLError, TimeoutError) as error:
            raise MigrationUndecidedError(
                "The connection ended while the other host started the guest.", detail=str(error)
            ) from error
        return _checked(answer)

    async def _ask(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, frame: Frame, watch: "_Watch"
    ) -> bytes:
        await _write(writer, frame)
        reading = asyncio.ensure_future(_read(reader))
        while not reading.done():
            await asyncio.wait([reading], timeout=LOOK_EVERY)
            if watch.stopped() and not reading.done():
                reading.cancel()
                raise StoppedError("The migration was stopped.")
        return _checked(reading.result())

    async def _perform(self, writer: asyncio.StreamWriter, prepared: bytes, watch: "_Watch") -> bytes:
        loop = asyncio.get_running_loop()

        def switching() -> None:
            _put(writer, Frame(PAUSED))
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
            # If the other host is lost, perform itself fails, because its streams end.
            with contextlib.suppress(OSError):
                await _write(writer, Frame(PROGRESS, done=amount.done, total=amount.total))
            await asyncio.to_thread(watch.look, LOOK_EVERY)
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
            await _write(writer, Frame(kind))
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
                    await _splice(reader, writer, far_reader, far_writer)

        return forward

    def _end_memory(self, loop: asyncio.AbstractEventLoop) -> bool:
        """End the hypervisor's connections for memory; called in any thread. Return whether there was one."""
        found = bool(self._memory)
        with contextlib.suppress(RuntimeError):  # the loop has ended, and the connections with it
            loop.call_soon_threadsafe(self._end_connections)
        return found

    def _end_connections(self) -> None:
        for writer in self._memory:
            writer.transport.abort()


class _Watch:
    """Watches a migration that runs: the end of the command, and the time limit."""

    def __init__(self, stopped: Stopped, limits: Limits, control: Callable[[str], None]) -> None:
        self.stopped, self._limits, self._control = stopped, limits, control
        self._elapsed = 0.0
        self._limited = False
        self.aborted = False

    def look(self, seconds: float) -> None:
        self._elapsed += seconds
        if self.stopped():
            self.aborted = True
            self._tell("abort")
        elif self._limits.seconds and self._elapsed > self._limits.seconds and not self._limited:
            self._limited, self.aborted = True, self._limits.action == "abort"
            self._tell(self._limits.action)

    def _tell(self, action: str) -> None:
        try:
            self._control(action)
        except HostError as error:  # it has just ended
            log.info("A migration could not be controlled: %s %s", error.message, error.detail)


# ----- frames and bytes -----------------------------------------------------------------------------------------------


async def _write(writer: asyncio.StreamWriter, frame: Frame) -> None:
    _put(writer, frame)
    await writer.drain()


def _put(writer: asyncio.StreamWriter, frame: Frame) -> None:
    """Write a frame without waiting; frames are written whole, also between others' waits."""
    text = msgspec.msgpack.encode(frame)
    writer.write(len(text).to_bytes(LENGTH, "big") + text)


async def _read(reader: asyncio.StreamReader) -> Frame:
    """Read a frame. Raises EOFError at the end of the connection, MigrationFailedError for anything else."""
    length = int.from_bytes(await reader.readexactly(LENGTH), "big")
    if length > MOST_BYTES:
        raise MigrationFailedError("The other host sent too much.")
    try:
        return msgspec.msgpack.decode(await reader.readexactly(length), type=Frame)
    except msgspec.DecodeError as error:
        raise MigrationFailedError("The other host sent something unknown.", detail=str(error)) from error


def _checked(frame: Frame) -> bytes:
    if frame.kind == FAILED:
        raise MigrationFailedError(frame.body.decode(errors="replace")[:500] or "The other host failed.")
    return frame.body


def _text(error: Exception) -> bytes:
    message = error.message if isinstance(error, HostError) else "The other host failed."
    if not isinstance(error, HostError):
        log.error("A guest could not be received.", exc_info=error)
    return message.encode()


async def _splice(
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
