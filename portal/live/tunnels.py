"""Where the two ends of a console meet: a person's socket, and the one that the host dials because it was asked to.

Both must come to the same web process.  A host whose dial comes to another one is refused there and dials again, so
several processes behind one address work when the address spreads connections over them.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import uuid
from collections import Counter
from typing import Any, Protocol

from channels.generic.websocket import AsyncWebsocketConsumer

from portal.common import handshake
from provisioning.common.errors import NotAuthenticatedError
from provisioning.common.threads import in_thread
from provisioning.hosts import enrolment


class End(Protocol):
    """One end of a tunnel."""

    async def take(self, data: bytes) -> None:
        """Send on what the other end sent; returns when there is room for more."""

    def gone(self) -> None:
        """The other end has gone."""


class Tunnel:
    """One console on its way: asked of one host, for one person."""

    def __init__(self, host_id: uuid.UUID, person: End) -> None:
        """Wait for the host."""
        self.name = secrets.token_urlsafe(32)
        self.host_id = host_id
        self.person = person
        self.dialled: asyncio.Future[TunnelConsumer] = asyncio.get_running_loop().create_future()


class Switchboard:
    """The tunnels of this process that wait for their host, and how many consoles each user has open."""

    def __init__(self) -> None:
        """Nobody waits."""
        self._waiting: dict[str, Tunnel] = {}
        self.open: Counter[uuid.UUID] = Counter()

    def wait_for(self, host_id: uuid.UUID, person: End) -> Tunnel:
        """Expect a host."""
        tunnel = Tunnel(host_id, person)
        self._waiting[tunnel.name] = tunnel
        return tunnel

    def dialled(self, name: str, host_id: uuid.UUID) -> Tunnel | None:
        """Return the tunnel that this host was asked to dial, once; nothing for other names and other hosts."""
        tunnel = self._waiting.get(name)
        if tunnel is None or tunnel.host_id != host_id:
            return None
        return self._waiting.pop(name)

    def forget(self, tunnel: Tunnel) -> None:
        """Expect it no more."""
        self._waiting.pop(tunnel.name, None)


switchboard = Switchboard()


class TunnelConsumer(AsyncWebsocketConsumer):
    """``/ws/agent/consoles/<tunnel>``: the host's end; what is no tunnel of the host is denied."""

    _tunnel: Tunnel | None = None

    async def dispatch(self, message: dict[str, Any]) -> None:
        """Call the handler; without Channels' detour through a thread for connections that are never used here."""
        await getattr(self, message["type"].replace(".", "_"))(message)

    async def connect(self) -> None:
        """Let in the host that was asked, with its credential."""
        name = handshake.header(self.scope, "x-novella-host")
        tunnel: Tunnel | None = None
        with contextlib.suppress(NotAuthenticatedError):
            host = await in_thread(enrolment.authenticate, name, handshake.bearer(self.scope))
            tunnel = switchboard.dialled(self.scope["url_route"]["kwargs"]["tunnel"], host.id)
        if tunnel is None or tunnel.dialled.done():
            await self.close()
            return
        self._tunnel = tunnel
        await self.accept()
        if tunnel.dialled.done():  # the person has left meanwhile
            await self.close()
        else:
            tunnel.dialled.set_result(self)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Pass on what the guest sent."""
        if self._tunnel is not None and bytes_data:
            await self._tunnel.person.take(bytes_data)

    async def disconnect(self, code: int) -> None:
        """Tell the other end."""
        if self._tunnel is not None:
            self._tunnel.person.gone()

    async def take(self, data: bytes) -> None:
        """Send to the host."""
        await self.send(bytes_data=data)
