"""Live console logs: one reader for each guest in this process, shared by all followers.

The reader is a tunnel that the guest's host opens to this process, as for remote consoles. Apart from the request that
starts it, the guest's text passes neither through the database nor through another web process, even with several
machines.
"""

import asyncio
import codecs
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator
from typing import NamedTuple

from compute_agent.contract.calls import CallError, ConsoleOpened, FollowConsoleCall
from compute_agent.contract.console_pieces import MOST_BYTES, unpack
from compute_agent.contract.messages import ContractError
from portal.common.sign_in import token_of_cookies
from portal.common.websockets import handshake
from portal.common.websockets.tunnels import tunnels
from portal.sockets.follower import Follower
from provisioning.common.errors import UnavailableError
from provisioning.common.processes.threads import SOCKETS
from provisioning.compute import selectors as compute
from provisioning.compute.models import Instance
from provisioning.hosts import calls

FIRST_LINES = 400
MOST_AT_ONCE = 65_536
"""Maximum bytes of a chunk for a follower."""
ANSWER_WITHIN = 10.0
DIAL_WITHIN = 10.0
"""Seconds within which the host must answer, and then within which it must connect."""
AGAIN = 1.0
"""Seconds until a retry for a guest that is not running yet, or has just stopped."""
RETRY = 5.0
"""Seconds until a retry after a failure."""
CATCH_UP = 2.0
"""Seconds within which a log that ends before a follower's offset must reach the offset. If it does not, it is a
different log.
"""

logger = logging.getLogger(__name__)

PAUSE = 0.15
"""Seconds between two chunks, so that a guest that writes continuously does not overload the browser."""


class LogEndedError(Exception):
    """The log cannot be followed now; ``message`` is a message for followers, ``pause`` the seconds until a retry."""

    def __init__(self, pause: float, message: str = "") -> None:
        super().__init__(message)
        self.pause = pause
        self.message = message


class LogText(NamedTuple):
    """Text of a log, with the offsets of its first byte and of the byte after its last."""

    text: str
    start: int
    offset: int


class GuestLog:
    """The last text of a guest, and its reader. Used only in the event loop's thread."""

    def __init__(self) -> None:
        self.followers = 0
        self.task: asyncio.Task[None] | None = None
        self._start = 0
        self._kept = bytearray()
        self._begun = False
        self._ended: LogEndedError | None = None
        self._changed = asyncio.Event()

    @property
    def _end(self) -> int:
        return self._start + len(self._kept)

    async def after(self, offset: int | None) -> LogText:
        """Wait for text after the offset, and return it. If ``offset`` is None, return the last lines as soon as the
        log is known.

        A follower that is too slow resumes at the start of the stored text. Raises LogEndedError.
        """
        while not self._begun:
            await self._change()
        if offset is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(CATCH_UP):
                    while offset > self._end:
                        await self._change()
        while True:
            at = self._place(offset)
            piece = bytes(self._kept[at - self._start : at - self._start + MOST_AT_ONCE])
            decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")
            text = decoder.decode(piece)
            end = at + len(piece) - len(decoder.getstate()[0])
            if offset is None or end > at:
                return LogText(text, at, end)
            await self._change()

    async def deliver(self, data: bytes) -> None:
        """Store a chunk from the host."""
        try:
            piece = unpack(data)
        except ContractError:
            self._end_with(LogEndedError(RETRY, "The console log cannot be read now."))
            return
        if piece.start != self._end or not self._begun:
            self._start, self._kept = piece.start, bytearray()
        self._kept += piece.data
        surplus = max(len(self._kept) - MOST_BYTES, 0)
        del self._kept[:surplus]
        self._start += surplus
        self._begun = True
        self._wake()

    def gone(self) -> None:
        """Handle the end of the host's connection: the guest has stopped, or its agent is restarting."""
        self._end_with(LogEndedError(AGAIN))

    async def read(self, instance: Instance) -> None:
        """Request the log from the host until it has no followers or the host closes."""
        try:
            await self._read(instance)
        except LogEndedError as error:
            self._end_with(error)
        except UnavailableError as error:
            self._end_with(LogEndedError(RETRY, error.message))
        except Exception:
            logger.exception("The console log of %s cannot be followed.", instance.id)
        finally:
            self._end_with(LogEndedError(RETRY, "The console log cannot be read now."))

    async def _read(self, instance: Instance) -> None:
        if instance.host_id is None:
            raise LogEndedError(AGAIN)
        async with tunnels.expected(instance.host_id, self) as tunnel:
            question = FollowConsoleCall(
                instance_id=str(instance.id), tunnel=tunnel.name, share=f"project {instance.project_id}"
            )
            result = await calls.acall(instance.host_id, question, timeout=ANSWER_WITHIN)
            if isinstance(result, CallError) and result.code == "not_found":
                raise LogEndedError(AGAIN)
            if isinstance(result, CallError) and result.code == "busy":
                raise LogEndedError(RETRY, result.message)
            if not isinstance(result, ConsoleOpened):
                raise LogEndedError(RETRY, "The console log cannot be read now.")
            try:
                async with asyncio.timeout(DIAL_WITHIN):
                    await tunnel.dialled
            except TimeoutError:
                raise LogEndedError(RETRY, "The server's host did not call back.") from None
            while self._ended is None:
                await self._changed.wait()

    def _place(self, offset: int | None) -> int:
        """Return the offset to resume from."""
        if offset is not None:
            return offset if self._start <= offset <= self._end else self._start
        last = bytes(self._kept[-MOST_AT_ONCE:]).splitlines(keepends=True)[-FIRST_LINES:]
        return self._end - sum(map(len, last))

    async def _change(self) -> None:
        """Wait for new text. Raises LogEndedError."""
        if self._ended is None:
            await self._changed.wait()
        if self._ended is not None:
            raise LogEndedError(self._ended.pause, self._ended.message)

    def _wake(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()

    def _end_with(self, error: LogEndedError) -> None:
        if self._ended is None:
            self._ended = error
            self._wake()


class GuestLogs:
    """The logs that are followed in this process."""

    def __init__(self) -> None:
        self._read: dict[tuple[uuid.UUID, uuid.UUID | None], GuestLog] = {}

    @contextlib.asynccontextmanager
    async def following(self, instance: Instance) -> AsyncIterator[GuestLog]:
        """Share the guest's reader. The first follower starts the reader, and the last follower stops it."""
        key = (instance.id, instance.host_id)
        log = self._read.get(key)
        if log is None:
            log = self._read[key] = GuestLog()
            log.task = asyncio.get_running_loop().create_task(log.read(instance))
        log.followers += 1
        try:
            yield log
        except LogEndedError:
            if self._read.get(key) is log:  # later followers start a new one
                del self._read[key]
            raise
        finally:
            log.followers -= 1
            if not log.followers:
                if self._read.get(key) is log:
                    del self._read[key]
                if log.task is not None:
                    log.task.cancel()


guest_logs = GuestLogs()


class ConsoleLogConsumer(Follower):
    """``/ws/dashboard/servers/<id>/console-log?offset=<number>``.

    Sends ``{"text": "…", "start": m, "offset": n}``, untrusted text of the guest between two offsets; a ``start`` other
    than the last ``offset`` means that text in between was discarded. Sends ``{"error": "…"}`` while the log cannot be
    read.
    """

    rule = "os_compute_api:os-console-output"
    _instance: Instance

    def token(self) -> str:
        """The token of the browser's session."""
        return token_of_cookies(handshake.cookies(self.scope))

    def admit(self) -> None:
        """Read the server; raises NotFoundError if the caller may not see it."""
        self._instance = compute.instance_for(self.context, self.scope["url_route"]["kwargs"]["instance_id"])

    async def serve(self) -> None:
        """Send the log from the page's offset, by default the last lines, and then new text."""
        self._offset = handshake.number(self.scope, "offset")
        while True:
            try:
                await self._follow()
            except LogEndedError as error:
                if error.message:
                    await self.send_json({"error": error.message})
                await asyncio.sleep(error.pause)
            await SOCKETS.run(self.admit)  # the server may have been migrated or deleted

    async def _follow(self) -> None:
        """Send chunks, each after the page has received the previous one. Raises LogEndedError."""
        async with guest_logs.following(self._instance) as log:
            while True:
                piece = await log.after(self._offset)
                self._offset = piece.offset
                await self.send_json(piece._asdict())
                await asyncio.sleep(PAUSE)
