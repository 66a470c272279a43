"""Tunnels to TCP ports of guests, connected with a socket that the server's host opens."""

import logging
import time
from collections.abc import Sequence
from typing import Any

from django.conf import settings

from compute_agent.contract.calls import CallError, OpenTunnelCall
from portal.common.websockets import handshake
from portal.common.websockets.tunnels import Tunnel
from portal.sockets.follower import TooManySocketsError
from portal.sockets.joined import BUSY, NO_GUEST, NO_HOST, JoinedSocket, JoinEndedError
from provisioning.common.machine.machine_shares import shares
from provisioning.common.processes.threads import SOCKETS
from provisioning.compute.models import Instance
from provisioning.compute.services import tunnels

SUBPROTOCOL = "novella.tunnel"
TOKEN_PREFIX = "novella.token."  # noqa: S105 - the prefix of a token
"""Prefix of the subprotocol in which a page passes its token, because pages cannot set headers. The token has no
trailing ``=``, which a subprotocol must not contain.
"""
REFUSED = 4502
"""The guest refuses connections at the port, or does not answer."""

logger = logging.getLogger(__name__)


class GuestPortConsumer(JoinedSocket):
    """``/ws/servers/<id>/tunnel?port=<number>[&address=<fixed address>]``: data of one TCP connection to the guest, as
    binary frames, in both directions.

    An empty frame marks the end of the data in its direction; the other direction stays open. The token is in
    ``X-Auth-Token``, in ``Authorization: Bearer`` or in a subprotocol. The socket is closed when the token, the
    permission, the address or the guest no longer exists.
    """

    rule = tunnels.RULE
    _target: tunnels.TunnelTarget | None = None
    _opening: tunnels.Opening | None = None
    _sent = _received = 0

    async def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Run the socket, and record the transferred bytes at its end."""
        try:
            await super().__call__(*args, **kwargs)
        finally:
            if self._opening is not None:
                await self._write_end(self._opening)

    async def accept(self, *args: Any, **kwargs: Any) -> None:
        """Accept the subprotocol, if it is offered."""
        offered = SUBPROTOCOL in self.scope.get("subprotocols", [])
        await super().accept(SUBPROTOCOL if offered else None)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        self._sent += len(bytes_data or text_data or b"")
        await super().receive(text_data, bytes_data)

    async def deliver(self, data: bytes) -> None:
        self._received += len(data)
        await super().deliver(data)

    def token(self) -> str:
        header = handshake.header(self.scope, "x-auth-token") or handshake.bearer(self.scope)
        if header:
            return header
        offered = (name for name in self.scope.get("subprotocols", []) if name.startswith(TOKEN_PREFIX))
        token = next(offered, "").removeprefix(TOKEN_PREFIX)
        return token + "=" * (-len(token) % 4)

    def admit(self) -> None:
        """Check that the server is the caller's and running, and has the address; raises the errors of ``tunnels``."""
        if self._target is None:
            self._target = tunnels.target_for(
                self.context,
                self.scope["url_route"]["kwargs"]["instance_id"],
                handshake.parameter(self.scope, "port"),
                handshake.parameter(self.scope, "address"),
            )
        else:
            tunnels.check_still_allowed(self.context, self._target)

    def reserve_place(self) -> Sequence[int]:
        """Count the socket as a tunnel of its user, not as a live page: a program may need many tunnels."""
        taken = shares.acquire({f"tunnels of user {self.context.user_id}": settings.TUNNELS_PER_USER})
        if taken is None:
            raise TooManySocketsError("You have too many tunnels open. Close some of them first.")
        return taken

    @property
    def target(self) -> tunnels.TunnelTarget:
        """The target of the tunnel. Raises RuntimeError before the caller is authorized."""
        if self._target is None:
            raise RuntimeError("the socket is not authorized yet")
        return self._target

    @property
    def instance(self) -> Instance:
        return self.target.instance

    @property
    def idle_limit(self) -> float:
        return float(settings.TUNNEL_IDLE_TIMEOUT)

    def question(self, tunnel: Tunnel) -> OpenTunnelCall:
        target = self.target
        return OpenTunnelCall(
            instance_id=str(target.instance.id),
            port_id=str(target.port_id),
            address=target.address,
            port=target.port,
            tunnel=tunnel.name,
            share=f"user {self.context.user_id}",
        )

    def refusal(self, error: CallError) -> JoinEndedError:
        where = f"port {self.target.port} of {self.target.address}"
        logger.info("User %s: no tunnel to %s, %s: %s", self.context.user_id, self.instance.id, where, error.message)
        if error.code == "refused":
            return JoinEndedError(REFUSED, f"The guest does not accept connections at {where}.")
        if error.code == "unreachable":
            return JoinEndedError(REFUSED, f"The guest does not answer at {where}.")
        if error.code == "busy":
            return JoinEndedError(BUSY, error.message)
        if error.code in {"not_found", "unsupported"}:
            return JoinEndedError(NO_GUEST, error.message)
        return JoinEndedError(NO_HOST, "The server's host could not open the tunnel.")

    async def opened(self) -> None:
        """Record the user and target before the first byte is transferred."""
        self._began = time.monotonic()
        self._opening = await SOCKETS.run(tunnels.record_opened, self.context, self.target)
        target = self.target
        logger.info(
            "User %s opened a tunnel to port %d of %s (%s).",
            self.context.user_id,
            target.port,
            target.instance.id,
            target.address,
        )

    async def _write_end(self, opening: tunnels.Opening) -> None:
        passed = tunnels.Passed(to_guest=self._sent, from_guest=self._received)
        await SOCKETS.run(tunnels.record_closed, opening, passed)
        target, seconds = self.target, time.monotonic() - self._began
        logger.info(
            "The tunnel of user %s to port %d of %s ended after %.1f s: %d bytes to the guest, %d from it.",
            self.context.user_id,
            target.port,
            target.instance.id,
            seconds,
            passed.to_guest,
            passed.from_guest,
        )
