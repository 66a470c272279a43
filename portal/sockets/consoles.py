"""Remote consoles: a person's socket, joined with the one that the server's host dials."""

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import AsyncIterator, Callable
from datetime import datetime
from typing import Any

from django.conf import settings

from compute_agent.contract.calls import CallError, ConsoleOpened, OpenConsoleCall
from portal.common import handshake
from portal.common.tunnels import HostEnd, Tunnel, tunnels
from portal.sockets.follower import CONFLICT, FAILED, REFUSALS, TOO_MANY, Follower, code_of
from provisioning.common.errors import NovellaError, UnavailableError
from provisioning.common.machine_shares import shares
from provisioning.common.threads import SOCKETS
from provisioning.compute.services import remote_consoles
from provisioning.events.selectors import LoggedEvent
from provisioning.hosts import calls
from provisioning.identity.token_store import recall

OVER, IDLE, NO_GUEST, BUSY, NO_HOST = 4000, 4408, CONFLICT, 4423, 4504
"""Codes the socket is closed with, beside those of every follower."""
ANSWER_WITHIN = 10.0
DIAL_WITHIN = 10.0
"""Seconds that the host has to answer, and then to dial."""
SUBPROTOCOL = "binary"

logger = logging.getLogger(__name__)


class ConsoleEndedError(Exception):
    """The console ends, for a reason that whoever looks at it may know."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class ConsoleConsumer(Follower):
    """``/ws/console?token=…``: bytes of a screen (RFB) or of a serial line, as binary frames, both ways.

    The token is all that opens it, once; no cookie counts, so programs without an origin may come, and pages of other
    sites may not.  It is closed when the sign-in that asked for the token ends, when the right or the guest is gone.
    """

    rule = remote_consoles.RULE
    _console: remote_consoles.OpenConsole
    _admitted = False
    _end: HostEnd | None = None
    _left = False

    async def connect(self) -> None:
        """Let the caller in, or close with the reason's code."""
        self._joined = asyncio.Event()
        self._over = asyncio.Event()
        self._moved = time.monotonic()
        self.own_pages_only = any(key.lower() == b"origin" for key, _ in self.scope["headers"])
        await super().connect()

    async def accept(self, *args: Any, **kwargs: Any) -> None:
        """Speak the subprotocol of console clients, when they offer it."""
        offered = SUBPROTOCOL in self.scope.get("subprotocols", [])
        await super().accept(SUBPROTOCOL if offered else None)

    async def disconnect(self, code: int) -> None:
        """Forget everything, and hang up on the host."""
        self._left = True
        self._joined.set()
        await super().disconnect(code)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Pass on what the person sent, once the host is there."""
        await self._joined.wait()
        if self._end is not None and not self._left:
            self._moved = time.monotonic()
            await self._end.take(bytes_data if bytes_data is not None else (text_data or "").encode())

    # --- the end of a tunnel ------------------------------------------------------------------------------------

    async def take(self, data: bytes) -> None:
        """Send what the guest sent."""
        if not self._left:
            self._moved = time.monotonic()
            await self.send(bytes_data=data)

    def gone(self) -> None:
        """The host has hung up."""
        self._over.set()

    # --- inside -------------------------------------------------------------------------------------------------

    @property
    def topic(self) -> str:
        """Where the server's events are; an operator may look at the server of another project."""
        return f"project:{self._console.instance.project_id}"

    def _admit(self) -> datetime:
        """Use the token; later, look whether the console may stay open.  In a thread."""
        if self._admitted:
            self._console = remote_consoles.still_open(self._console.row)
        else:
            self._console = remote_consoles.use_token(handshake.parameter(self.scope, "token"))
            self._admitted = True
        self.context = self._console.context
        return recall(self._console.row.asked_with).expires_at

    def _take(self, event: LoggedEvent) -> None:
        """Look again whenever something happens to the server."""
        if event.topic != self.topic:
            super()._take(event)
        elif event.payload.get("id") == str(self._console.instance.id):
            self._recheck.set()

    def reason_of(self, error: NovellaError) -> str | None:
        """Say why, as far as a close frame has room."""
        return error.message[:100]

    async def serve(self) -> None:
        """Join the two ends; returns never, raises ConsoleEndedError."""
        instance = self._console.instance
        async with self._counted(), tunnels.expected(self._host_id(), self) as tunnel:
            question = OpenConsoleCall(
                instance_id=str(instance.id),
                protocol=self._console.protocol,
                tunnel=tunnel.name,
                share=f"user {self._console.row.user_id}",
            )
            await self._ask(question, tunnel)
            try:
                async with asyncio.timeout(DIAL_WITHIN):
                    self._end = await tunnel.dialled
            except TimeoutError:
                raise ConsoleEndedError(NO_HOST, "The server's host did not call back. Try again.") from None
            self._joined.set()
            logger.info("User %s opened the %s console of %s.", self.context.user_id, question.protocol, instance.id)
            await self._until_over()

    @contextlib.asynccontextmanager
    async def _counted(self) -> AsyncIterator[None]:
        """Count this console among those of its user while it is open."""
        taken = shares.take({f"consoles of user {self._console.row.user_id}": settings.CONSOLES_PER_USER})
        if taken is None:
            raise ConsoleEndedError(TOO_MANY, "You have too many consoles open. Close one of them first.")
        try:
            yield
        finally:
            shares.give_back(taken)

    def _host_id(self) -> uuid.UUID:
        host_id = self._console.instance.host_id
        if host_id is None:
            raise ConsoleEndedError(NO_GUEST, "The server is on no host now.")
        return host_id

    async def _ask(self, question: OpenConsoleCall, tunnel: Tunnel) -> None:
        try:
            result = await calls.acall(tunnel.host_id, question, timeout=ANSWER_WITHIN)
        except UnavailableError as error:
            raise ConsoleEndedError(NO_HOST, error.message) from error
        if isinstance(result, ConsoleOpened):
            return
        code = result.code if isinstance(result, CallError) else ""
        if code == "busy" and isinstance(result, CallError):
            raise ConsoleEndedError(BUSY, result.message)
        if code in {"not_found", "unsupported"}:
            raise ConsoleEndedError(NO_GUEST, "The guest has no such console now.")
        raise ConsoleEndedError(NO_HOST, "The server's host could not open the console.")

    async def _until_over(self) -> None:
        """Wait for the host to hang up, or for a time in which nothing passes."""
        while True:
            limit = float(settings.CONSOLE_IDLE_TIMEOUT)
            left = self._moved + limit - time.monotonic() if limit else None
            if left is not None and left <= 0:
                raise ConsoleEndedError(IDLE, "Nothing was typed or shown for a long time.")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._over.wait()
            if self._over.is_set():
                await SOCKETS.run(self._admit)  # it may have ended because the guest did
                raise ConsoleEndedError(OVER, "The guest's console has closed.")

    async def _guard(self, work: Callable[[], Any]) -> None:
        """Run a task of this socket; however it ends, the socket ends with it."""
        code, reason = FAILED, ""
        try:
            await work()
        except ConsoleEndedError as error:
            code, reason = error.code, error.reason
        except REFUSALS as error:
            code, reason = code_of(error), error.message
        except Exception:
            logger.exception("A console failed.")
        self._left = True
        self._joined.set()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        await self.close(code, reason[:100])
