"""A person's socket that is joined with one which the server's host dials because it was asked to: the bytes of a
console, or of a connection to a port of the guest.
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
from portal.common.tunnels import HostEnd, Tunnel, tunnels
from portal.sockets.follower import CONFLICT, FAILED, REFUSALS, Follower, code_of, fits
from provisioning.common.errors import NovellaError, UnavailableError
from provisioning.common.threads import SOCKETS
from provisioning.compute.errors import ConsoleTakenError
from provisioning.compute.models import Instance
from provisioning.events.selectors import LoggedEvent
from provisioning.hosts import calls

OVER, IDLE, NO_GUEST, TAKEN, BUSY, NO_HOST = 4000, 4408, CONFLICT, 4410, 4423, 4504
"""Codes the socket is closed with, beside those of every follower."""
ANSWER_WITHIN = 10.0
DIAL_WITHIN = 10.0
"""Seconds that the host has to answer, and then to dial."""
LEAVE_WITHIN, LOOK_AGAIN = 5.0, 0.05
"""Seconds in which another window leaves what this socket takes over, and between two looks whether it has."""

logger = logging.getLogger(__name__)


class JoinEndedError(Exception):
    """The socket ends, for a reason that whoever uses it may know."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


class JoinedSocket(Follower):
    """No cookie counts, so programs without an origin may come, and pages of other sites may not.

    Subclasses say which ``instance`` it is about, the ``question`` for its host, who counts it (``counted``), what is
    said of refusals (``refusal``) and of the guest's end, and after which time without a byte it ends (``idle_limit``).
    """

    guest_has_ended = "The guest has hung up."
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
        """Send what the guest sent, once the ends are joined."""
        await self._joined.wait()
        if not self._left:
            self._moved = time.monotonic()
            await self.send(bytes_data=data)

    def gone(self) -> None:
        """The host has hung up."""
        self._over.set()

    # --- for subclasses -----------------------------------------------------------------------------------------

    @property
    def instance(self) -> Instance:
        """The server it is about."""
        raise NotImplementedError

    @property
    def idle_limit(self) -> float:
        """Seconds without a byte either way after which it ends; 0: never."""
        raise NotImplementedError

    @property
    def takes_over(self) -> bool:
        """Return whether another window of the same person may still have what this one is for; it is told to leave."""
        return False

    def question(self, tunnel: Tunnel) -> CallBody:
        """Return what the host is asked."""
        raise NotImplementedError

    def counted(self) -> AbstractAsyncContextManager[None]:
        """Count it while it is open.  Raises JoinEndedError."""
        return contextlib.nullcontext()

    def refusal(self, error: CallError) -> JoinEndedError:
        """Say what the host's answer means for the person."""
        raise NotImplementedError

    async def opened(self) -> None:
        """Do what is to be done now that the ends are joined."""

    # --- inside -------------------------------------------------------------------------------------------------

    @property
    def topic(self) -> str:
        """Where the server's events are; an operator may look at the server of another project."""
        return f"project:{self.instance.project_id}"

    def _take(self, event: LoggedEvent) -> None:
        """Look again whenever something happens to the server."""
        if event.topic != self.topic:
            super()._take(event)
        elif event.payload.get("id") == str(self.instance.id):
            self._recheck.set()

    def reason_of(self, error: NovellaError) -> str | None:
        """Say why, as far as a close frame has room."""
        return fits(error.message)

    async def serve(self) -> None:
        """Join the two ends; returns never, raises JoinEndedError."""
        async with self.counted(), tunnels.expected(self._host_id(), self) as tunnel:
            await self._ask(tunnel)
            try:
                async with asyncio.timeout(DIAL_WITHIN):
                    self._end = await tunnel.dialled
            except TimeoutError:
                raise JoinEndedError(NO_HOST, "The server's host did not call back. Try again.") from None
            await self.opened()
            self._joined.set()
            await self._until_over()

    def _host_id(self) -> uuid.UUID:
        host_id = self.instance.host_id
        if host_id is None:
            raise JoinEndedError(NO_GUEST, "The server is on no host now.")
        return host_id

    async def _ask(self, tunnel: Tunnel) -> None:
        until = time.monotonic() + LEAVE_WITHIN
        while (refusal := await self._asked(tunnel)) is not None:
            if refusal.code != BUSY or not self.takes_over or time.monotonic() > until:
                raise refusal
            await asyncio.sleep(LOOK_AGAIN)

    async def _asked(self, tunnel: Tunnel) -> JoinEndedError | None:
        try:
            result: CallResult = await calls.acall(tunnel.host_id, self.question(tunnel), timeout=ANSWER_WITHIN)
        except UnavailableError as error:
            raise JoinEndedError(NO_HOST, error.message) from error
        return self.refusal(result) if isinstance(result, CallError) else None

    async def _until_over(self) -> None:
        """Wait for the host to hang up, or for a time in which nothing passes."""
        while True:
            limit = self.idle_limit
            left = self._moved + limit - time.monotonic() if limit else None
            if left is not None and left <= 0:
                raise JoinEndedError(IDLE, "Nothing has passed for a long time.")
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(left):
                    await self._over.wait()
            if self._over.is_set():
                await SOCKETS.run(self._admit)  # it may have ended because the guest did
                raise JoinEndedError(OVER, self.guest_has_ended)

    async def _guard(self, work: Callable[[], Any]) -> None:
        """Run a task of this socket; however it ends, the socket ends with it."""
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
