"""Base class of the sockets of browsers and scripts. The token is checked again when it may have become invalid. The
project's events are sent in order, after a given id.
"""

import asyncio
import contextlib
import json
import logging
import uuid
from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Any

from django.conf import settings
from django.utils import timezone

from portal.common.websockets import handshake
from portal.common.websockets.consumer import Consumer
from provisioning.common.context import RequestContext, new_request_id
from provisioning.common.errors import (
    ConflictError,
    ForbiddenError,
    InvalidInputError,
    NotAuthenticatedError,
    NotFoundError,
    NovellaError,
)
from provisioning.common.machine.machine_shares import shares
from provisioning.common.processes.threads import SOCKETS
from provisioning.events import selectors as events
from provisioning.events.selectors import LoggedEvent
from provisioning.events.tailer import Subscription, tailer
from provisioning.identity import policy
from provisioning.identity.selectors.tokens import context_for_token, token_data


class TooManySocketsError(NovellaError):
    """The user or the session has reached its limit of sockets."""

    code = "too_many_sockets"


def reserve(context: RequestContext) -> list[int]:
    """Count a socket for the caller. Returns the slots to release with ``shares.release``. Raises
    TooManySocketsError.
    """
    session: uuid.UUID | str | None = context.sign_in_id or context.application_credential_id or context.audit_id
    limits = {
        f"sockets of user {context.user_id}": settings.SOCKETS_PER_USER,
        f"sockets of session {session}": settings.SOCKETS_PER_SESSION,
    }
    taken = shares.acquire(limits)
    if taken is None:
        raise TooManySocketsError("You have too many live pages and consoles open. Close some of them first.")
    return taken


INVALID, ENDED, FORBIDDEN, NOT_FOUND, CONFLICT, TOO_MANY, FAILED = 4400, 4401, 4403, 4404, 4409, 4429, 4500
"""Close codes, which are HTTP statuses plus 4000."""
REFUSALS = (
    InvalidInputError,
    NotAuthenticatedError,
    ForbiddenError,
    NotFoundError,
    ConflictError,
    TooManySocketsError,
)
MOST_OF_REASON = 123
"""Maximum bytes of the reason in a close frame (RFC 6455, 5.5)."""
AUTH = "auth"
LOOK_EVERY = 2.0
"""Seconds between checks for changed policy rules."""
MOST_PENDING = 500
"""Events buffered for one socket; a slower reader must resynchronize."""

logger = logging.getLogger(__name__)


class Follower(Consumer):
    """A socket with a token. Subclasses define the source of the token (``token``), the policy ``rule`` and ``serve``.

    Order: origin, token and rule, limit of the caller's sockets, subscription, accept, ``serve`` in a task, until the
    client disconnects or the token is invalid.
    """

    rule = ""
    own_pages_only = True
    context: RequestContext

    _places: Sequence[int] = ()
    _subscription: Subscription | None = None
    _tasks: Sequence[asyncio.Task[None]] = ()

    async def __call__(self, *args: Any, **kwargs: Any) -> None:
        """Run the socket and release all its resources at the end."""
        try:
            await super().__call__(*args, **kwargs)
        finally:
            self._leave()

    async def connect(self) -> None:
        """Authorize the caller, or close the socket with the code of the error."""
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
            self._places = self.reserve_place()
            await SOCKETS.run(self._subscribe, asyncio.get_running_loop())
            self._recheck.set()  # rights may have been revoked before the subscription
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
        """Ignore data of the client."""

    # --- for subclasses -----------------------------------------------------------------------------------------

    def token(self) -> str:
        """Return the token in the handshake, or an empty text."""
        raise NotImplementedError

    def reserve_place(self) -> Sequence[int]:
        """Count this socket; returns the argument of ``shares.release``. Raises TooManySocketsError."""
        return reserve(self.context)

    def admit(self) -> None:
        """Run additional checks of the request, in a thread; an error closes the socket."""

    async def serve(self) -> None:
        raise NotImplementedError

    def reason_of(self, error: NovellaError) -> str | None:
        """Return the reason for the close frame; None for only the code."""
        return error.message if isinstance(error, TooManySocketsError) else None

    async def refuse(self, error: NovellaError) -> None:
        """Close a refused socket with the code of the error."""
        await self.close(code_of(error), self.reason_of(error))

    def rules_changed(self) -> None:
        """Called when the policy rules have changed and still allow the caller."""

    async def send_json(self, message: dict[str, Any]) -> None:
        await self.send(text_data=json.dumps(message, separators=(",", ":"), ensure_ascii=False))

    @property
    def cursor(self) -> int:
        """The event id from which this reader can resume."""
        return min(tailer().cursor, self._seen)

    async def begin(self) -> list[LoggedEvent] | None:
        """Send the hello message. Returns the events since the reader's id, or None if some are no longer stored."""
        await self.send_json({"hello": self._seen})
        after = handshake.number(self.scope, "since")
        if after is None:
            return []
        missed = await SOCKETS.run(_missed, self.topics, after, self.where)
        self._replayed = {event.id for event in missed or ()}
        return missed

    async def news(self) -> list[LoggedEvent] | None:
        """Wait for events and return them; None if the reader has fallen too far behind."""
        await self._news.wait()
        self._news.clear()
        found, self._pending = self._pending, []
        overrun, self._overrun = self._overrun, False
        self._seen = max([self._seen, *(event.id for event in found)])
        return None if overrun else [event for event in found if event.id not in self._replayed]

    def fall_behind(self) -> None:
        """Make ``news`` return None, so that this reader resynchronizes."""
        self._overrun = True
        self._news.set()

    @property
    def topic(self) -> str:
        """The topic of the project's events."""
        return f"project:{self.context.project_id}"

    @property
    def topics(self) -> Sequence[str]:
        """All topics of this reader."""
        return (self.topic,)

    @property
    def where(self) -> dict[str, Any]:
        """Condition on the payloads of stored events, as Django look-ups; ``concerns`` filters new events."""
        return {}

    def concerns(self, event: LoggedEvent) -> bool:
        return True

    # --- internal -----------------------------------------------------------------------------------------------

    def _leave(self) -> None:
        """Cancel the tasks of this socket and stop counting it for its user; idempotent."""
        if self._subscription is not None:
            self._subscription.close()
        for task in self._tasks:
            task.cancel()
        shares.release(self._places)
        self._places = ()

    def _admit(self) -> datetime:
        """Check token, rule and request; returns the expiry of the token. Runs in a thread."""
        value = self.token()
        self.context = context_for_token(value, request_id=new_request_id())
        if self.context.project_id is None:
            raise ForbiddenError("The token is not scoped to a project.")
        if self.context.access_rules is not None:
            raise ForbiddenError("The access rules of this application credential allow other requests only.")
        policy.enforce(self.context, self.rule)
        self.admit()
        return token_data(value).expires_at

    def _subscribe(self, loop: asyncio.AbstractEventLoop) -> None:
        def arrived(event: LoggedEvent) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is closed: the process is stopping
                loop.call_soon_threadsafe(self._receive_event, event)

        self._subscription = tailer().subscribe([*self.topics, AUTH], arrived)
        self._seen = tailer().cursor

    def _receive_event(self, event: LoggedEvent) -> None:
        """Buffer an event, in the loop's thread."""
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
        """Whether a revocation may concern the caller, or the trustor on whose behalf the caller acts."""
        if self.context.trust_id is not None:
            return True
        return all(
            payload.get(key) in {None, "", str(own), getattr(own, "hex", "")}
            for key, own in (("user_id", self.context.user_id), ("project_id", self.context.project_id))
        )

    async def _watch(self, expires_at: datetime, rules: int) -> None:
        """Check the token at each change of rights or rules and at its expiry; close when it is no longer valid."""
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
        """Run a task of this socket; the socket is closed when the task ends for any reason."""
        code = FAILED
        try:
            await work()
        except REFUSALS as error:
            code = code_of(error)
        except Exception:
            logger.exception("A live connection failed.")
        await self.close(code)


def code_of(error: Exception) -> int:
    """Return the close code for one of ``REFUSALS``."""
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
    """Truncate a reason to the size of a close frame."""
    return reason.encode()[:MOST_OF_REASON].decode(errors="ignore")


def _missed(topics: Sequence[str], after: int, where: dict[str, Any]) -> list[LoggedEvent] | None:
    """Return the topics' events after an id that match the condition; None if there are too many, or if some may no
    longer be stored.
    """
    if after > events.latest_id() or after < events.oldest_id() - 1:
        return None
    missed = events.since_for_reader(topics, after, MOST_PENDING + 1, where=where)
    return missed if len(missed) <= MOST_PENDING else None
