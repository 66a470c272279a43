"""A user's socket that is connected with one that the server's host opens on request, for data of a console or of a
guest's port.
"""

import asyncio
import contextlib
import logging
import time
import uuid
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any

from compute_agent.contract.calls import CallBody, CallError, CallResult
from portal.common.websockets.tunnels import HostEnd, Tunnel, tunnels
from portal.sockets.follower import CONFLICT, FAILED, REFUSALS, Follower, code_of, fits
from provisioning.common.errors import NovellaError, UnavailableError
from provisioning.common.processes.threads import SOCKETS
from provisioning.compute.errors import ConsoleTakenError
from provisioning.compute.models import Instance
from provisioning.events.selectors import LoggedEvent
from provisioning.hosts import calls

OVER, IDLE, NO_GUEST, TAKEN, BUSY, NO_HOST = 4000, 4408, CONFLICT, 4410, 4423, 4504
"""Close codes in addition to the codes of Follower."""
ANSWER_WITHIN = 10.0
DIAL_WITHIN = 10.0
"""Seconds within which the host must answer, and then within which it must connect."""
LEAVE_WITHIN, LOOK_AGAIN = 5.0, 0.05
"""Seconds within which another window must release its console to this socket, and seconds between two attempts."""

logger = logging.getLogger(__name__)


class JoinEndedError(Exception):
    """The socket ends with a reason for the user."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class JoinedSocket(Follower):
    """Base class of sockets that are connected with a socket of a host. Programs without an ``Origin`` header are
    accepted, which is safe because cookies are ignored; pages of other sites are refused.

    Subclasses define the ``instance``, the ``question`` for its host, the limit (``counted``), the messages of refusals
    (``refusal``) and of the guest's end, and the inactivity timeout (``idle_limit``).
    """

    guest_has_ended = "The guest has closed the connection."
    _admitted = False
    _end: HostEnd | None = None
    _left = False
    _moved = 0.0

    async def connect(self) -> None:
        """Authorize the caller, or close the socket with the code of the error."""
        self._joined = asyncio.Event()
        self._over = asyncio.Event()
        self.own_pages_only = any(key.lower() == b"origin" for key, _ in self.scope["headers"])
        await super().connect()

    async def disconnect(self, code: int) -> None:
        """Release all resources and close the host's end."""
        self._left = True
        self._joined.set()
        await super().disconnect(code)

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Forward the user's data once the host has connected."""
        await self._joined.wait()
        if self._end is not None and not self._left:
            self._moved = time.monotonic()
            await self._end.deliver(bytes_data if bytes_data is not None else (text_data or "").encode())

    # --- the user's end of a tunnel -----------------------------------------------------------------------------

    async def deliver(self, data: bytes) -> None:
        """Send the guest's data once the ends are connected."""
        await self._joined.wait()
        if not self._left:
            self._moved = time.monotonic()
            await self.send(bytes_data=data)

    def gone(self) -> None:
        """Handle the end of the host's connection."""
        self._over.set()

    # --- for subclasses -----------------------------------------------------------------------------------------

    @property
    def instance(self) -> Instance:
        """The server of the socket."""
        raise NotImplementedError

    @property
    def idle_limit(self) -> float:
        """Seconds of inactivity after which the socket is closed; 0 for no limit."""
        raise NotImplementedError

    @property
    def takes_over(self) -> bool:
        """Whether the socket replaces the console of another window of the same user, which is then closed."""
        return False

    def question(self, tunnel: Tunnel) -> CallBody:
        """Return the request to the host."""
        raise NotImplementedError

    def counted(self) -> AbstractAsyncContextManager[None]:
        """Count the socket while it is open. Raises JoinEndedError."""
        return contextlib.nullcontext()

    def refusal(self, error: CallError) -> JoinEndedError:
        """Convert the host's error into a reason for the user."""
        raise NotImplementedError

    async def opened(self) -> None:
        """Called when the ends are connected."""

    # --- internal -----------------------------------------------------------------------------------------------

    @property
    def topic(self) -> str:
        """The topic of the server's events; operators may open servers of other projects."""
        return f"project:{self.instance.project_id}"

    def _receive_event(self, event: LoggedEvent) -> None:
        """Check the authorization again after each event of the server."""
        if event.topic != self.topic:
            super()._receive_event(event)
        elif event.payload.get("id") == str(self.instance.id):
            self._recheck.set()

    def reason_of(self, error: NovellaError) -> str | None:
        """Return the reason, truncated to the size of a close frame."""
        return fits(error.message)

    async def serve(self) -> None:
        """Connect the user's end with the host's end, and wait until the connection ends. It always ends with an
        exception, in regular cases with JoinEndedError.
        """
        async with self.counted(), tunnels.expected(self._host_id(), self) as tunnel:
            await self._ask(tunnel)
            try:
                async with asyncio.timeout(DIAL_WITHIN):
                    self._end = await tunnel.dialled
            except TimeoutError:
                raise JoinEndedError(NO_HOST, "The server's host did not call back. Try again.") from None
            await self.opened()
            self._moved = time.monotonic()
            self._joined.set()
            await self._until_over()

    def _host_id(self) -> uuid.UUID:
        host_id = self.instance.host_id
        if host_id is None:
            raise JoinEndedError(NO_GUEST, "The server is not on a host now.")
        return host_id

    async def _ask(self, tunnel: Tunnel) -> None:
        until = time.monotonic() + LEAVE_WITHIN
        while (refusal := await self._refusal(tunnel)) is not None:
            if refusal.code != BUSY or not self.takes_over or time.monotonic() > until:
                raise refusal
            await asyncio.sleep(LOOK_AGAIN)

    async def _refusal(self, tunnel: Tunnel) -> JoinEndedError | None:
        try:
            result: CallResult = await calls.acall(tunnel.host_id, self.question(tunnel), timeout=ANSWER_WITHIN)
        except UnavailableError as error:
            raise JoinEndedError(NO_HOST, error.message) from error
        return self.refusal(result) if isinstance(result, CallError) else None

    async def _until_over(self) -> None:
        """Wait until the host closes its end, or until the inactivity timeout. Raises JoinEndedError."""
        while True:
            limit = self.idle_limit
            left = self._moved + limit - time.monotonic() if limit else None
            if left is not None and left <= 0:
                raise JoinEndedError(IDLE, "The connection was idle for too long.")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._over.wait()
            if self._over.is_set():
                await SOCKETS.run(self._admit)  # the cause may be the end of the guest
                raise JoinEndedError(OVER, self.guest_has_ended)

    async def _guard(self, work: Callable[[], Any]) -> None:
        """Run a task of this socket; the socket is closed when the task ends for any reason."""
        code, reason = FAILED, ""
        try:
            await work()
        except JoinEndedError as error:
            code, reason = error.code, error.reason
        except ConsoleTakenError as error:
            code, reason = TAKEN, error.message
        except REFUSALS as error:
            code, reason = code_of(error), error.message
        except Exception:
            logger.exception("A console or a tunnel failed.")
        self._left = True
        self._joined.set()
        for task in self._tasks:
            if task is not asyncio.current_task():
                task.cancel()
        await self.close(code, fits(reason))
