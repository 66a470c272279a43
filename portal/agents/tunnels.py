"""The host's end of a console or a tunnel, which the host opens on request."""

import asyncio
import contextlib
import uuid

from portal.common.websockets import handshake, tunnel_relay
from portal.common.websockets.consumer import Consumer
from portal.common.websockets.tunnel_relay import Pipe
from portal.common.websockets.tunnels import UserEnd, tunnels
from provisioning.common.errors import NotAuthenticatedError
from provisioning.common.processes.threads import in_thread
from provisioning.hosts import enrolment


class TunnelConsumer(Consumer):
    """``/ws/agent/consoles/<tunnel>``, ``/ws/agent/tunnels/<tunnel>``: the host's end; unknown tunnels are refused."""

    _person: UserEnd | None = None
    _pipe: Pipe | None = None
    _reader: asyncio.Task[None] | None = None

    async def connect(self) -> None:
        """Accept the connection of the host that was asked to open this tunnel, authenticated by its credential."""
        name = handshake.header(self.scope, "x-novella-host")
        tunnel = self.scope["url_route"]["kwargs"]["tunnel"]
        with contextlib.suppress(NotAuthenticatedError):
            host = await in_thread(enrolment.authenticate, name, handshake.bearer(self.scope))
            if await self._join_here(tunnel, host.id) or await self._join_elsewhere(tunnel, host.id):
                return
        await self.close()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Forward data from the guest."""
        if bytes_data is not None and self._person is not None:
            await self._person.deliver(bytes_data)
        elif bytes_data is not None and self._pipe is not None:
            await self._pipe.deliver(bytes_data)

    async def disconnect(self, code: int) -> None:
        if self._person is not None:
            self._person.gone()
        if self._pipe is not None:
            await self._pipe.close()
        if self._reader is not None:
            self._reader.cancel()

    async def deliver(self, data: bytes) -> None:
        await self.send(bytes_data=data)

    async def _join_here(self, name: str, host_id: uuid.UUID) -> bool:
        """Connect to the user's end in this process."""
        tunnel = tunnels.dialled(name, host_id)
        if tunnel is None or tunnel.dialled.done():
            return False
        self._person = tunnel.person
        await self.accept()
        if tunnel.dialled.done():  # the user has disconnected in the meantime
            await self.close()
        else:
            tunnel.dialled.set_result(self)
        return True

    async def _join_elsewhere(self, name: str, host_id: uuid.UUID) -> bool:
        """Connect to the user's end in another process of this machine."""
        self._pipe = await tunnel_relay.join(name, host_id)
        if self._pipe is None:
            return False
        await self.accept()
        self._reader = asyncio.get_running_loop().create_task(self._pass_on(self._pipe))
        return True

    async def _pass_on(self, pipe: Pipe) -> None:
        async for data in pipe.frames():
            await self.deliver(data)
        await self.close()
