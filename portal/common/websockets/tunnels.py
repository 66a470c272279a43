"""Tunnels: connect the user's end of a console or console log with the socket that the host opens on request.

A host's connection that reaches another web process of the same machine is relayed (``tunnel_relay``). A connection
that reaches another machine is refused, and the host retries. So several machines behind one address work if the
address distributes connections.
"""

import asyncio
import contextlib
import functools
import secrets
import uuid
from collections.abc import AsyncIterator
from typing import Protocol

from portal.common.websockets import tunnel_relay
from portal.common.websockets.tunnel_relay import Pipe


class UserEnd(Protocol):
    """The user's end of a tunnel."""

    async def deliver(self, data: bytes) -> None:
        """Send data of the other end; returns when more can be sent."""

    def gone(self) -> None:
        """Called when the other end has closed."""


class HostEnd(Protocol):
    """The host's end of a tunnel, which the user's end closes."""

    async def deliver(self, data: bytes) -> None:
        """Like ``UserEnd.deliver``."""

    async def close(self) -> None:
        """Close the socket."""


class Tunnel:
    """A console that a host was asked to open for a user."""

    def __init__(self, host_id: uuid.UUID, person: UserEnd) -> None:
        self.name = secrets.token_urlsafe(32)
        self.host_id = host_id
        self.person = person
        self.dialled: asyncio.Future[HostEnd] = asyncio.get_running_loop().create_future()


class TunnelRegistry:
    """The tunnels of this process that wait for their host."""

    def __init__(self) -> None:
        self._waiting: dict[str, Tunnel] = {}

    def _wait_for(self, host_id: uuid.UUID, person: UserEnd) -> Tunnel:
        tunnel = Tunnel(host_id, person)
        self._waiting[tunnel.name] = tunnel
        return tunnel

    def dialled(self, name: str, host_id: uuid.UUID) -> Tunnel | None:
        """Return the tunnel that this host was asked to open, once; None for other names and hosts."""
        tunnel = self._waiting.get(name)
        if tunnel is None or tunnel.host_id != host_id:
            return None
        return self._waiting.pop(name)

    @contextlib.asynccontextmanager
    async def expected(self, host_id: uuid.UUID, person: UserEnd) -> AsyncIterator[Tunnel]:
        """Create a tunnel that the host is to open; it is closed at the end of the context."""
        tunnel = self._wait_for(host_id, person)
        try:
            async with tunnel_relay.listening(tunnel.name, functools.partial(self._passed_on, tunnel.name)):
                yield tunnel
        finally:
            self._waiting.pop(tunnel.name, None)
            if not tunnel.dialled.cancel() and not tunnel.dialled.cancelled():
                await tunnel.dialled.result().close()

    def _passed_on(self, name: str, host_id: uuid.UUID, pipe: Pipe) -> tunnel_relay.Read | None:
        """Accept a host's connection that another process relays."""
        tunnel = self.dialled(name, host_id)
        if tunnel is None or tunnel.dialled.done():
            return None

        async def read() -> None:
            try:
                async for data in pipe.frames():
                    await tunnel.person.deliver(data)
            finally:
                tunnel.person.gone()

        tunnel.dialled.set_result(pipe)
        return read


tunnels = TunnelRegistry()
