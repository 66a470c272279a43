"""A page's socket: the page's own partials, sent again for whatever changed."""

import logging
from collections.abc import Sequence

from portal.common import handshake
from portal.common.sign_in import token_of_cookies
from portal.sockets.follower import Follower
from portal.sockets.renders import Renders
from provisioning.events.selectors import EVERYBODY, LoggedEvent

logger = logging.getLogger(__name__)

LONGEST_PAGE = 1000
"""Characters of a page's name: a list's has its filter."""


class BrowserConsumer(Follower):
    """``/ws/dashboard?page=<page>&since=<number>``.

    Sends ``{"hello": n}`` first, then ``{"id": n, "html": "…"}`` for what changed; ``{"resync": true, "id": n}`` when
    the page must be fetched anew.
    """

    rule = "novella:events:follow"

    def __init__(self, *, renders: Renders) -> None:
        """``renders`` are shared by all of these sockets."""
        super().__init__()
        self._renders = renders

    def token(self) -> str:
        return token_of_cookies(handshake.cookies(self.scope))

    def rules_changed(self) -> None:
        """Have the page fetched anew: other buttons may be on it."""
        self.fall_behind()

    @property
    def topics(self) -> Sequence[str]:
        """Records of other projects that everybody sees are on pages, too."""
        return (self.topic, EVERYBODY)

    async def serve(self) -> None:
        """Send what was missed, then what happens."""
        await self._show(await self.begin(), caught_up=True)
        while True:
            await self._show(await self.news())

    async def _show(self, events: list[LoggedEvent] | None, *, caught_up: bool = False) -> None:
        """Send one frame; None asks for a fresh page."""
        if events == []:
            return
        number = self.cursor
        if events is not None:
            try:
                html = await self._renders.html(self._page, events, self.context, caught_up=caught_up)
            except Exception:
                logger.exception("The page %s cannot be brought up to date.", self._page)
            else:
                await self.send_json({"id": number, "html": html})
                return
        await self.send_json({"resync": True, "id": number})

    @property
    def _page(self) -> str:
        return handshake.parameter(self.scope, "page")[:LONGEST_PAGE]
