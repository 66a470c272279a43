"""Remote consoles: the user's socket, connected with one that the server's host opens."""

import contextlib
import logging
from collections.abc import AsyncIterator
from datetime import datetime
from typing import Any

from django.conf import settings

from compute_agent.contract.calls import CallError, OpenConsoleCall
from portal.common.websockets import handshake
from portal.common.websockets.consumer import HANG_UP
from portal.common.websockets.tunnels import Tunnel
from portal.sockets.follower import TOO_MANY
from portal.sockets.joined import BUSY, NO_GUEST, NO_HOST, JoinedSocket, JoinEndedError
from provisioning.common.errors import NotAuthenticatedError, NovellaError
from provisioning.common.machine.machine_shares import shares
from provisioning.compute.models import Instance
from provisioning.compute.services import remote_consoles
from provisioning.identity.authentication.authenticate import recall

SUBPROTOCOL = "binary"

logger = logging.getLogger(__name__)


class ConsoleConsumer(JoinedSocket):
    """``/ws/console?token=…``: data of a graphical (RFB) or serial console, as binary frames, in both directions.

    It is authorized by the token alone, once. It is closed when the session that requested the token ends, the
    permission is revoked or the guest stops.
    """

    rule = remote_consoles.RULE
    guest_has_ended = "The guest's console has closed."
    _console: remote_consoles.OpenConsole
    _takes_over = False

    async def accept(self, *args: Any, **kwargs: Any) -> None:
        """Accept the subprotocol of console clients, if they offer it."""
        offered = SUBPROTOCOL in self.scope.get("subprotocols", [])
        await super().accept(SUBPROTOCOL if offered else None)

    @property
    def instance(self) -> Instance:
        return self._console.instance

    @property
    def idle_limit(self) -> float:
        return float(settings.CONSOLE_IDLE_TIMEOUT)

    @property
    def takes_over(self) -> bool:
        return self._takes_over

    def question(self, tunnel: Tunnel) -> OpenConsoleCall:
        return OpenConsoleCall(
            instance_id=str(self.instance.id),
            protocol=self._console.protocol,
            tunnel=tunnel.name,
            share=f"user {self._console.row.user_id}",
        )

    @contextlib.asynccontextmanager
    async def counted(self) -> AsyncIterator[None]:
        """Count this console for its user while it is open."""
        taken = shares.acquire({f"consoles of user {self._console.row.user_id}": settings.CONSOLES_PER_USER})
        if taken is None:
            raise JoinEndedError(TOO_MANY, "You have too many consoles open. Close one of them first.")
        try:
            yield
        finally:
            shares.release(taken)

    def refusal(self, error: CallError) -> JoinEndedError:
        if error.code == "busy":
            return JoinEndedError(BUSY, error.message)
        if error.code in {"not_found", "unsupported"}:
            return JoinEndedError(NO_GUEST, "The guest has no such console now.")
        return JoinEndedError(NO_HOST, "The server's host could not open the console.")

    async def refuse(self, error: NovellaError) -> None:
        """If the token of a program is invalid, close the connection without sending data, as Nova's proxies do: the
        program would treat the data as the guest's.

        Pages get the reason.
        """
        if isinstance(error, NotAuthenticatedError) and not self.own_pages_only:
            await self.close(HANG_UP)
        else:
            await super().refuse(error)

    async def opened(self) -> None:
        console = self._console
        logger.info("User %s opened the %s console of %s.", self.context.user_id, console.protocol, self.instance.id)

    def _admit(self) -> datetime:
        """Use up the token; on later calls, check whether the console may stay open. Runs in a thread."""
        if self._admitted:
            self._console = remote_consoles.still_open(self._console.row)
        else:
            self._console = remote_consoles.use_token(handshake.parameter(self.scope, "token"))
            self._takes_over, self._admitted = self._console.takes_over, True
        self.context = self._console.context
        return recall(self._console.row.asked_with).expires_at
