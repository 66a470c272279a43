"""Pages drawn anew for sockets: once for all that would be sent the same, and no faster than a part of one core.

What a page shows depends on the project, the roles and the rules in force, on what happened and on the state as it is
now; not on the person, whose id and name are therefore left out of the context that a shared page is drawn with
(``RequestContext.without_person``).  Language and time zone are the same for everybody (browsers write times in their
own), and the parts that are sent hold neither forms nor CSRF tokens; filter, order and page of a list do not reach the
server by this way.  Rules that ask for the person make each socket draw its own.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Sequence

from provisioning.common.context import RequestContext
from provisioning.common.threads import RENDERS
from provisioning.events.selectors import LoggedEvent
from provisioning.identity.policy import PersonalRuleError

Render = Callable[[str, Sequence[LoggedEvent], RequestContext], str]
"""From a page's name, the events and the caller to HTML elements with ids; state is read when it is called."""
Key = tuple[str, RequestContext, tuple[int, ...]]
"""The page, for whom, and the events of a reader that catches up."""

GATHER = 0.01
"""Seconds that sockets have to join when something happens after a quiet time."""
PAUSE = 0.04
"""Seconds between two frames of one page, so that a burst of events makes few of them."""
REST = 3.0
"""The pause is at least so many times what the frame took: a page keeps no more than a quarter of a thread busy."""

logger = logging.getLogger(__name__)


class _Turn:
    """One frame that is to be drawn, and all that it is drawn for."""

    def __init__(self) -> None:
        self.events: dict[int, LoggedEvent] = {}
        self.html: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self.html.add_done_callback(lambda done: done.cancelled() or done.exception())  # all who waited may have left


class Renders:
    """The pages of one event loop that are being drawn."""

    def __init__(self, render: Render) -> None:
        self._render = render
        self._next: dict[Key, _Turn] = {}
        self._workers: dict[Key, asyncio.Task[None]] = {}

    async def html(
        self, page: str, events: Sequence[LoggedEvent], context: RequestContext, *, caught_up: bool = False
    ) -> str:
        """Return what the events change on the page, and perhaps what others do that came meanwhile.

        ``caught_up``: these are events from before, which nobody else is sent.  Raises whatever drawing it does.
        """
        apart = tuple(event.id for event in events) if caught_up else ()
        try:
            return await self._joined((page, context.without_person(), apart), events)
        except PersonalRuleError:
            return await self._joined((page, context, apart), events)

    async def _joined(self, key: Key, events: Sequence[LoggedEvent]) -> str:
        """Join the next frame of this key; one that is being drawn may have read the state before the events."""
        turn = self._next.get(key)
        if turn is None:
            turn = self._next[key] = _Turn()
        turn.events.update((event.id, event) for event in events)
        if key not in self._workers:
            self._workers[key] = asyncio.get_running_loop().create_task(self._work(key))
        return await asyncio.shield(turn.html)

    async def _work(self, key: Key) -> None:
        """Draw frame after frame of one key until nobody asks for another."""
        try:
            await asyncio.sleep(GATHER)
            while (turn := self._next.pop(key, None)) is not None:
                took = await self._draw(key, turn)
                await asyncio.sleep(max(PAUSE, took * REST))
        finally:
            del self._workers[key]

    async def _draw(self, key: Key, turn: _Turn) -> float:
        """Return the seconds that a thread was busy with it."""
        page, context, _ = key
        events = [turn.events[number] for number in sorted(turn.events)]

        def work() -> tuple[str, float]:
            begun = time.monotonic()
            return self._render(page, events, context), time.monotonic() - begun

        try:
            html, took = await RENDERS.run(work)
        except Exception as error:  # noqa: BLE001 - whoever waits for it is told
            turn.html.set_exception(error)
            return 0.0
        turn.html.set_result(html)
        return took
