"""The host's end of a console, dialled because the host was asked to."""

import contextlib

from portal.common import handshake
from portal.common.consumer import Consumer
from portal.common.tunnels import Tunnel, tunnels
from provisioning.common.errors import NotAuthenticatedError
from provisioning.common.threads import in_thread
from provisioning.hosts import enrolment


class TunnelConsumer(Consumer):
    """``/ws/agent/consoles/<tunnel>``: the host's end; what is no tunnel of the host is denied."""

    _tunnel: Tunnel | None = None

    async def connect(self) -> None:
        """Let in the host that was asked, with its credential."""
        name = handshake.header(self.scope, "x-novella-host")
        tunnel: Tunnel | None = None
        with contextlib.suppress(NotAuthenticatedError):
            host = await in_thread(enrolment.authenticate, name, handshake.bearer(self.scope))
            tunnel = tunnels.dialled(self.scope["url_route"]["kwargs"]["tunnel"], host.id)
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
        if self._tunnel is not None:
            self._tunnel.person.gone()

    async def take(self, data: bytes) -> None:
        await self.send(bytes_data=data)
