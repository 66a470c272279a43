"""What browsers' and scripts' sockets share: a token that is checked again whenever it may have lost its worth, and the
project's events in order, from the last one seen.
"""

import asyncio
import contextlib
import json
import logging
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django.utils import timezone

from portal.common import handshake
from portal.common.consumer import Consumer
from portal.sockets import places
from portal.sockets.places import TooManySocketsError
from provisioning.common.context import RequestContext, new_request_id
from provisioning.common.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotAuthenticatedError,
    NotFoundError,
    NovellaError,
)
from provisioning.common.machine_shares import shares
from provisioning.common.threads import SOCKETS
from provisioning.events import selectors as events
from provisioning.events.selectors import LoggedEvent
from provisioning.events.tailer import Subscription, tailer
from provisioning.identity import policy
from provisioning.identity.selectors.tokens import context_for_token, token_data

INVALID, ENDED, FORBIDDEN, NOT_FOUND, CONFLICT, TOO_MANY, FAILED = 4400, 4401, 4403, 4404, 4409, 4429, 4500
"""Codes a socket is closed with, as HTTP's with 4000 added."""
REFUSALS = (
    InvalidInputError,
    NotAuthenticatedError,
    ForbiddenError,
    NotFoundError,
    ConflictError,
    TooManySocketsError,
)
MOST_OF_REASON = 123
"""Bytes that a close frame has room for beside the code (RFC 6455, 5.5)."""
AUTH = "auth"
LOOK_EVERY = 2.0
"""Seconds between two questions whether the rules have changed."""
MOST_PENDING = 500
"""Events that wait for one socket; a reader that is further behind starts anew."""

logger = logging.getLogger(__name__)


class Follower(Consumer):
    """A socket with a token.  Subclasses say where the token is (``token``), the policy ``rule``, what to ``serve``.

    In order: origin · token and rule · place among the caller's sockets · subscribe · accept · ``serve`` in a task,
    until the client or the token is gone.
    """

    rule = ""
    own_pages_only = True
    context: RequestContext

    _places: Sequence[int] = ()
    _subscription: Subscription | None = None
    _tasks: Sequence[asyncio.Task[None]] = ()

    async def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Run the socket to its end, whichever way that comes; nothing of it is left."""
        try:
            await super().__call__(*args, **kwargs)
        finally:
            self._leave()

    async def connect(self) -> None:
        """Let the caller in, or close with the reason's code."""
        self._pending: list[LoggedEvent] = []
        self._replayed: set[int] = set()
        self._seen = 0
        self._overrun = False
        self._news = asyncio.Event()
        self._recheck = asyncio.Event()
        if self.own_pages_only and not handshake.is_own_page(self.scope):
            await self.close()
            return
        rules = policy.version()
        try:
            expires_at = await SOCKETS.run(self._admit)
            self._places = self.take_place()
            await SOCKETS.run(self._subscribe, asyncio.get_running_loop())
            self._recheck.set()  # what was taken away between the two
        except REFUSALS as error:
            await self.accept()
            await self.refuse(error)
            return
        await self.accept()
        self._tasks = [
            asyncio.create_task(self._guard(self.serve)),
            asyncio.create_task(self._guard(lambda: self._watch(expires_at, rules))),
        ]

    async def disconnect(self, code: int) -> None:
        self._leave()

    async def receive(self, text_data: str | None = None, bytes_data: bytes | None = None) -> None:
        """Nothing is expected from this side."""

    # --- for subclasses -----------------------------------------------------------------------------------------

    def token(self) -> str:
        """Return the token in the handshake, or an empty text."""
        raise NotImplementedError

    def take_place(self) -> Sequence[int]:
        """Count this socket; returns what ``shares.give_back`` takes.  Raises TooManySocketsError."""
        return places.take(self.context)

    def admit(self) -> None:
        """Check more about the request, in a thread; raises an error that closes the socket."""

    async def serve(self) -> None:
        raise NotImplementedError

    def reason_of(self, error: NovellaError) -> str | None:
        """Return what the socket says when it is closed for this; None: nothing beside the code."""
        return error.message if isinstance(error, TooManySocketsError) else None

    async def refuse(self, error: NovellaError) -> None:
        """End a socket that may not be used, with the reason's code."""
        await self.close(code_of(error), self.reason_of(error))

    def rules_changed(self) -> None:
        """Do what is right when other policy rules are in force and the caller is still let in."""

    async def send_json(self, message: dict[str, Any]) -> None:
        await self.send(text_data=json.dumps(message, separators=(",", ":"), ensure_ascii=False))

    @property
    def cursor(self) -> int:
        """The number from which this reader may resume."""
        return min(tailer().cursor, self._seen)

    async def begin(self) -> list[LoggedEvent] | None:
        """Say hello; return the events since the number the reader gave, None when they are not all kept any more."""
        await self.send_json({"hello": self._seen})
        after = handshake.number(self.scope, "since")
        if after is None:
            return []
        missed = await SOCKETS.run(_missed, self.topics, after, self.where)
        self._replayed = {event.id for event in missed or ()}
        return missed

    async def news(self) -> list[LoggedEvent] | None:
        """Wait for events and return all that have come; None when the reader has fallen too far behind."""
        await self._news.wait()
        self._news.clear()
        found, self._pending = self._pending, []
        overrun, self._overrun = self._overrun, False
        self._seen = max([self._seen, *(event.id for event in found)])
        return None if overrun else [event for event in found if event.id not in self._replayed]

    def fall_behind(self) -> None:
        """Let ``news`` say that this reader begins anew."""
        self._overrun = True
        self._news.set()

    @property
    def topic(self) -> str:
        """Where the project's events are."""
        return f"project:{self.context.project_id}"

    @property
    def topics(self) -> Sequence[str]:
        """All topics whose events this reader gets."""
        return (self.topic,)

    @property
    def where(self) -> dict[str, Any]:
        """What the payloads of its events must say, by Django's lookups; of what is new ``concerns`` says it."""
        return {}

    def concerns(self, event: LoggedEvent) -> bool:
        return True

    # --- inside -------------------------------------------------------------------------------------------------

    def _leave(self) -> None:
        """End what works for this socket, and give its place to another; more than once does no harm."""
        if self._subscription is not None:
            self._subscription.close()
        for task in self._tasks:
            task.cancel()
        shares.give_back(self._places)
        self._places = ()

    def _admit(self) -> datetime:
        """Check token, rule and request; returns when the token ends.  In a thread."""
        value = self.token()
        self.context = context_for_token(value, request_id=new_request_id())
        if self.context.project_id is None:
            raise ForbiddenError("The token is for no project.")
        if self.context.access_rules is not None:
            raise ForbiddenError("The access rules of this application credential allow other requests only.")
        policy.enforce(self.context, self.rule)
        self.admit()
        return token_data(value).expires_at

    def _subscribe(self, loop: asyncio.AbstractEventLoop) -> None:
        def arrived(event: LoggedEvent) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process ends
                loop.call_soon_threadsafe(self._take, event)

        self._subscription = tailer().subscribe([*self.topics, AUTH], arrived)
        self._seen = tailer().cursor

    def _take(self, event: LoggedEvent) -> None:
        """Keep an event; in the loop's thread."""
        if event.topic == AUTH:
            if self._concerns_me(event.payload):
                self._recheck.set()
            return
        if not self.concerns(event):
            return
        if len(self._pending) >= MOST_PENDING:
            self._overrun = True
            del self._pending[:-1]
        self._pending.append(event)
        self._news.set()

    def _concerns_me(self, payload: dict[str, Any]) -> bool:
        """Whether what was taken away may have been this caller's, or that of who lets the caller act."""
        if self.context.trust_id is not None:
            return True
        return all(
            payload.get(key) in {None, "", str(own), getattr(own, "hex", "")}
            for key, own in (("user_id", self.context.user_id), ("project_id", self.context.project_id))
        )

    async def _watch(self, expires_at: datetime, rules: int) -> None:
        """Check the token at every change of rights or rules and at its end; close when it is not valid any more."""
        while True:
            left = (expires_at - timezone.now()).total_seconds()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._recheck.wait(), min(max(left, 0) + 0.01, LOOK_EVERY))
            if not self._recheck.is_set() and policy.version() == rules and expires_at > timezone.now():
                continue
            self._recheck.clear()
            before, rules = rules, policy.version()
            expires_at = await SOCKETS.run(self._admit)
            if rules != before:
                self.rules_changed()

    async def _guard(self, work: Callable[[], Any]) -> None:
        """Run a task of this socket; however it ends, the socket ends with it."""
        code = FAILED
        try:
            await work()
        except REFUSALS as error:
            code = code_of(error)
        except Exception:
            logger.exception("A live connection failed.")
        await self.close(code)


def code_of(error: Exception) -> int:
    """Return the code that a socket is closed with for one of ``REFUSALS``."""
    if isinstance(error, NotAuthenticatedError):
        return ENDED
    if isinstance(error, InvalidInputError):
        return INVALID
    if isinstance(error, ConflictError):
        return CONFLICT
    if isinstance(error, TooManySocketsError):
        return TOO_MANY
    return FORBIDDEN if isinstance(error, ForbiddenError) else NOT_FOUND


def fits(reason: str) -> str:
    """Cut a reason to what a close frame has room for."""
    return reason.encode()[:MOST_OF_REASON].decode(errors="ignore")


def _missed(topics: Sequence[str], after: int, where: dict[str, Any]) -> list[LoggedEvent] | None:
    """The topics' events after a number that say what is asked for; None when some may be gone, or when they are too
    many to go through.
    """
    if after > events.latest_id() or after < events.oldest_id() - 1:
        return None
    found = events.since_for_reader(topics, after, MOST_PENDING + 1, where=where)
    return found if len(found) <= MOST_PENDING else None
