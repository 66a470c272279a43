"""One connection to a port of a server, between the portal's WebSocket and the caller's bytes.

Binary frames contain data, and an empty frame marks the end of the data in its direction (docs/api.md). Each side waits
until the other has read its data, so that no buffer grows while one side is slow.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Protocol

from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus, WebSocketException

from portal.client.errors import (
    CUT_OFF,
    FAILED,
    FORBIDDEN,
    NOT_FOUND,
    NOT_READY,
    NOT_SIGNED_IN,
    TOO_MANY,
    UNREACHABLE,
    ClientError,
)
from portal.client.links import Link

PIECE = 65_536
"""Maximum bytes of one read."""
MOST_FRAME = 1 << 20
PING_EVERY = 20
"""Seconds between pings, as proxies close idle connections.

Pongs are not awaited: a portal that waits for the guest reads no pings.
"""
OVER, IDLE = 4000, 4408
CODES = {
    4400: (FAILED, "The cloud does not accept this port or address."),
    4401: (NOT_SIGNED_IN, "The token is no longer valid."),
    4403: (FORBIDDEN, "You may not reach this server."),
    4404: (NOT_FOUND, "There is no such server."),
    IDLE: (CUT_OFF, "The connection was idle for too long."),
    4409: (NOT_READY, "The server is not running."),
    4423: (TOO_MANY, "Too many tunnels are open on the server's host."),
    4429: (TOO_MANY, "You have too many tunnels open."),
    4502: (NOT_READY, "The server does not accept connections at this port."),
    4504: (UNREACHABLE, "The server's host does not answer."),
}
"""The portal's close codes → exit code, and the message for a close frame without a reason."""


class Ends(Protocol):
    """The caller's side of a connection."""

    async def read(self) -> bytes:
        """Return data to send, at most ``PIECE`` bytes; empty at its end."""

    async def write(self, data: bytes) -> None:
        """Write received data; returns when more can be sent. Raises OSError if the reader has closed."""

    async def end(self) -> None:
        """Called at the end of the received data."""


async def carry(link: Link, ends: Ends) -> None:
    """Connect, and forward bytes in both directions until both sides have ended. Raises ClientError."""
    async with _connected(link) as portal:
        sending = asyncio.create_task(_send(portal, ends))
        try:
            await _receive(portal, ends, sending)
        finally:
            sending.cancel()
            with contextlib.suppress(asyncio.CancelledError, WebSocketException, OSError):
                await sending


@contextlib.asynccontextmanager
async def _connected(link: Link) -> AsyncIterator[ClientConnection]:
    tls = link.tls()
    try:
        async with connect(
            link.url,
            additional_headers={"X-Auth-Token": link.token},
            compression=None,
            max_size=MOST_FRAME,
            max_queue=4,
            write_limit=PIECE,
            ping_interval=PING_EVERY,
            ping_timeout=None,
            **({"ssl": tls} if tls is not None else {}),  # type: ignore[arg-type] # one keyword, as its type says
        ) as portal:
            yield portal
    except InvalidStatus as error:
        status = error.response.status_code
        raise ClientError(f"The cloud does not open tunnels: it answered with {status}.", UNREACHABLE) from error
    except TimeoutError as error:
        raise ClientError("The cloud did not answer in time.", UNREACHABLE) from error
    except (OSError, WebSocketException) as error:
        raise ClientError(f"The cloud cannot be reached: {error}", UNREACHABLE) from error


async def _send(portal: ClientConnection, ends: Ends) -> None:
    while data := await ends.read():
        await portal.send(data)
    await portal.send(b"")


async def _receive(portal: ClientConnection, ends: Ends, sending: "asyncio.Task[None]") -> None:
    """Forward received data until the portal closes. Raises ClientError if the portal closes before the end of the
    data, or with a code other than ``OVER``.
    """
    complete = False
    while True:
        try:
            frame = await portal.recv()
        except ConnectionClosed as closed:
            if complete and (closed.rcvd is None or closed.rcvd.code == OVER):
                return
            raise _reason(closed) from closed
        data = frame.encode() if isinstance(frame, str) else frame
        if complete:
            continue
        try:
            if data:
                await ends.write(data)
            else:
                complete = True
                await ends.end()
        except OSError:
            return  # the reader has closed
        if complete and sending.done():
            return


def _reason(closed: ConnectionClosed) -> ClientError:
    code = closed.rcvd.code if closed.rcvd is not None else None
    reason = closed.rcvd.reason if closed.rcvd is not None else ""
    if code in CODES:
        number, text = CODES[code]
        return ClientError(reason or text, number)
    if code == OVER:
        return ClientError("The connection was interrupted.", CUT_OFF)
    return ClientError(reason or "The connection to the cloud has ended.", CUT_OFF)
