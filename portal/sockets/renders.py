"""Rendering of pages for sockets: once for all sockets with the same content, and rate-limited to a part of one core.

The content depends on the project, the roles and the policy, on the events and on the current state, but not on the
user, so a shared page is rendered with a context without the user (``RequestContext.without_person``). Language and
time zone are the same for all users (browsers convert times), the partials contain neither forms nor CSRF tokens, and
filter, order and page of a list are not sent to the server this way. If a policy rule depends on the user, each socket
renders its own.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from provisioning.common.context import RequestContext
from provisioning.common.processes.threads import RENDERS
from provisioning.events.selectors import LoggedEvent
from provisioning.identity.policy import PersonalRuleError

Render = Callable[[str, Sequence[LoggedEvent], RequestContext], str]
"""Renders a page's name, events and the caller into HTML elements with ids; state is read when it is called."""
Key = tuple[str, RequestContext, tuple[int, ...]]
"""The page, its context, and the ids of events for a reader that catches up."""

GATHER = 0.002
"""Seconds to wait before each frame for other events and other sockets that need the same frame."""
SHARE = 0.25
"""Share of a core that the frames of one page may use in the long run."""
AHEAD = 0.5
"""Seconds of rendering that a page may use before it is limited to its share."""

logger = logging.getLogger(__name__)


class _Turn:
    """A frame to be rendered, with its events."""

    def __init__(self) -> None:
        self.events: dict[int, LoggedEvent] = {}
        self.html: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        # asyncio logs an error that is never read, and there may be no socket that waits for this frame
        self.html.add_done_callback(lambda done: done.cancelled() or done.exception())


class Renders:
    """The pages of one event loop that are being rendered."""

    def __init__(self, render: Render) -> None:
        self._render = render
        self._next: dict[Key, _Turn] = {}
        self._workers: dict[Key, asyncio.Task[None]] = {}
        self._paid: dict[Key, float] = {}  # page -> time of the loop at which its share has paid for its frames

    async def html(
        self,
        page: str,
        events: Sequence[LoggedEvent],
        context: RequestContext,
        *,
        caught_up: bool = False,
        personal: bool = False,
    ) -> str:
        """Return the changes of these events on the page, possibly together with the changes of concurrent events.

        ``caught_up``: whether these are events that a single reader has missed; ``personal``: whether the content
        depends on the user. Raises the errors of rendering.
        """
        apart = tuple(event.id for event in events) if caught_up else ()
        if personal:
            return await self._joined((page, context, apart), events)
        try:
            return await self._joined((page, context.without_person(), apart), events)
        except PersonalRuleError:
            return await self._joined((page, context, apart), events)

    async def _joined(self, key: Key, events: Sequence[LoggedEvent]) -> str:
        """Wait for the next frame of this key. A frame that is already being rendered is not returned, because its
        rendering may have read the state before these events.
        """
        turn = self._next.get(key)
        if turn is None:
            turn = self._next[key] = _Turn()
        turn.events.update((event.id, event) for event in events)
        if key not in self._workers:
            self._workers[key] = asyncio.get_running_loop().create_task(self._work(key))
        return await asyncio.shield(turn.html)

    async def _work(self, key: Key) -> None:
        """Render frames of one key until no socket waits for another."""
        loop = asyncio.get_running_loop()
        try:
            while True:
                owed = self._paid.get(key, 0.0) - loop.time() - AHEAD / SHARE
                await asyncio.sleep(max(GATHER, owed))
                turn = self._next.pop(key, None)
                if turn is None:
                    return
                took = await self._draw(key, turn)
                self._paid[key] = max(self._paid.get(key, 0.0), loop.time()) + took / SHARE
        finally:
            del self._workers[key]
            self._paid = {each: at for each, at in self._paid.items() if at > loop.time()}

    async def _draw(self, key: Key, turn: _Turn) -> float:
        """Render a frame. Return the processor time in seconds, because on a busy machine the elapsed time would be
        longer.
        """
        page, context, _ = key
        events = [turn.events[number] for number in sorted(turn.events)]

        def work() -> tuple[str, float]:
            begun = time.thread_time()
            return self._render(page, events, context), time.thread_time() - begun

        try:
            html, took = await RENDERS.run(work)
        except Exception as error:  # noqa: BLE001 - reported to the waiting caller
            turn.html.set_exception(error)
            return 0.0
        turn.html.set_result(html)
        return took
