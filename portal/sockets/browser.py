"""A page's socket: the page's own partials, sent again for whatever changed."""

import asyncio
import logging
from collections.abc import Callable, Sequence

from portal.common import handshake
from portal.common.sign_in import token_of_cookies
from portal.sockets.follower import Follower
from provisioning.common.context import RequestContext
from provisioning.common.threads import in_thread
from provisioning.events.selectors import LoggedEvent

Render = Callable[[str, Sequence[LoggedEvent], RequestContext], str]
"""From a page's name, the events and the caller to HTML elements with ids; state is read when it is called."""
PAUSE = 0.04
"""Seconds between two frames of one socket, so that a burst of events makes few of them."""

logger = logging.getLogger(__name__)


class BrowserConsumer(Follower):
    """``/ws/dashboard?page=<page>&since=<number>``.

    Sends ``{"hello": n}`` first, then ``{"id": n, "html": "…"}`` for what changed; ``{"resync": true, "id": n}`` when
    the page must be fetched anew.
    """

    rule = "novella:events:follow"

    def __init__(self, *, render: Render) -> None:
        """``render`` is the dashboard's, given by the root routing: faces do not import each other."""
        super().__init__()
        self._render = render

    def token(self) -> str:
        return token_of_cookies(handshake.cookies(self.scope))

    def rules_changed(self) -> None:
        """Have the page fetched anew: other buttons may be on it."""
        self.fall_behind()

    async def serve(self) -> None:
        """Send what was missed, then what happens."""
        events = await self.begin()
        while True:
            await self._show(events)
            await asyncio.sleep(PAUSE)
            events = await self.news()

    async def _show(self, events: list[LoggedEvent] | None) -> None:
        """Send one frame; None asks for a fresh page."""
        if events == []:
            return
        number = self.cursor
        if events is not None:
            try:
                html = await in_thread(self._render, self._page, events, self.context)
            except Exception:
                logger.exception("The page %s cannot be brought up to date.", self._page)
            else:
                await self.send_json({"id": number, "html": html})
                return
        await self.send_json({"resync": True, "id": number})

    @property
    def _page(self) -> str:
        return handshake.parameter(self.scope, "page")[:80]
