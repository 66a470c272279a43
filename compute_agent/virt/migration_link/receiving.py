"""The receiving side of a live migration."""

import asyncio
import contextlib
import logging
import socket
import ssl
from collections.abc import Callable
from functools import partial
from typing import Any

from compute_agent.virt.driver import Stopped
from compute_agent.virt.errors import HostError, StoppedError
from compute_agent.virt.live_migration import Arrival
from compute_agent.virt.migration_link.address import MigrationAddress
from compute_agent.virt.migration_link.errors import MigrationFailedError
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
    read,
    splice,
    write,
)
from compute_agent.virt.migration_link.switching import switched
from compute_agent.virt.processes import progress

log = logging.getLogger(__name__)

CONNECT_WITHIN = 60.0
"""Seconds in which the sending host must connect."""


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
        first = await asyncio.wait_for(read(reader), HANDSHAKE_SECONDS)
        path = self._arrival.sockets.get(first.kind)
        if path is not None:
            await splice(reader, writer, *await asyncio.open_unix_connection(str(path), limit=CHUNK))
        elif first.kind == CONTROL and self._control is None:
            self._control = asyncio.current_task()
            notice_silence(writer)
            try:
                await self._phases(reader, writer)
            except (OSError, EOFError, ssl.SSLError) as error:
                _end(ended, MigrationFailedError("The connection to the other host was lost.", detail=str(error)))
            except Exception as error:  # noqa: BLE001 (the other host learns of every failure)
                _end(ended, error)
                with contextlib.suppress(OSError):
                    await write(writer, Frame(FAILED, _text_of(error)))
            else:
                _end(ended, None)

    async def _phases(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Answer the phases of the sending host, until the guest runs here."""
        arrival = self._arrival
        for kind, work in (("offer", arrival.shape), ("begin", arrival.prepare), ("finish", arrival.finish)):
            frame = await read(reader)
            while frame.kind in (PROGRESS, PAUSED):
                if frame.kind == PAUSED:
                    self._begin_switch()
                else:
                    self._amount = (frame.done, frame.total)
                frame = await read(reader)
            if frame.kind != kind:
                raise MigrationFailedError("The other host has ended the migration.")
            self._finishing = kind == "finish"
            adopting = None
            if self._finishing:
                self._begin_switch()
                adopting = asyncio.ensure_future(switched(partial(self._adopt, frame.flows)))
            answer = await asyncio.to_thread(work, frame.body)
            if self._finishing:  # the guest runs: a lost connection changes nothing
                with contextlib.suppress(OSError):
                    await write(writer, Frame(kind, answer))
                for task in (adopting, self._switching):
                    if task is not None:
                        await task
                await switched(self._switch)
            else:
                await write(writer, Frame(kind, answer))

    def _begin_switch(self) -> None:
        """Switch the network, unless this has begun."""
        if self._switching is None:
            self._switching = asyncio.ensure_future(switched(self._switch))


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


def _text_of(error: Exception) -> bytes:
    """Return the message for the other host. An unexpected error is logged here."""
    message = error.message if isinstance(error, HostError) else "The other host failed."
    if not isinstance(error, HostError):
        log.error("A guest could not be received.", exc_info=error)
    return message.encode()
