"""A page's socket, which sends the page's partials again when they change."""

import contextlib
import logging
from collections.abc import Sequence

from portal.common import handshake
from portal.common.sign_in import token_of_cookies
from portal.sockets.follower import Follower
from portal.sockets.renders import Renders
from provisioning.common.errors import NotFoundError
from provisioning.compute.selectors.instances import ALL_PROJECTS, instance_for
from provisioning.events.selectors import EVERYBODY, LoggedEvent, of_user
from provisioning.identity import policy

logger = logging.getLogger(__name__)

INSTANCE = "instance"
"""The name of the page of an instance, before its id."""
TRAY = "tray"
"""The page that is a part of every page: the actions of the user."""
LONGEST_PAGE = 1000
"""Maximum characters of a page's name, which includes the filter of a list."""


class BrowserConsumer(Follower):
    """``/ws/dashboard?page=<page>&since=<number>``.

    Sends ``{"hello": n}`` first, then ``{"id": n, "html": "…"}`` for changes, or ``{"resync": true, "id": n}`` if the
    page must be reloaded.
    """

    rule = "novella:events:follow"

    def __init__(self, *, renders: Renders) -> None:
        """``renders`` is shared by all sockets of this class."""
        super().__init__()
        self._renders = renders
        self._of_others: Sequence[str] = ()

    def token(self) -> str:
        return token_of_cookies(handshake.cookies(self.scope))

    def admit(self) -> None:
        """Follow the events of another project if the page is that of its instance: operators may open it."""
        name, _, rest = self._page.partition("/")
        if name != INSTANCE or not policy.allows(self.context, ALL_PROJECTS):
            return
        with contextlib.suppress(NotFoundError):
            project_id = instance_for(self.context, rest.partition("/")[0]).project_id
            self._of_others = () if project_id == self.context.project_id else (f"project:{project_id}",)

    def rules_changed(self) -> None:
        """Request a reload of the page, as its buttons may have changed."""
        self.fall_behind()

    @property
    def topics(self) -> Sequence[str]:
        """Add the topics of events about resources that are visible to all projects, and of the user's own."""
        return (self.topic, *self._of_others, EVERYBODY, self._own_topic)

    @property
    def _own_topic(self) -> str:
        return of_user(self.context.user_id)

    def concerns(self, event: LoggedEvent) -> bool:
        """Whether the event is for this project."""
        return event.topic != self._own_topic or event.payload.get("project_id") == str(self.context.project_id)

    async def serve(self) -> None:
        """Send missed events, then new ones."""
        await self._show(await self.begin(), caught_up=True)
        while True:
            await self._show(await self.news())

    async def _show(self, events: list[LoggedEvent] | None, *, caught_up: bool = False) -> None:
        """Send one frame: the changed partials, or a request to reload the page if ``events`` is None or rendering
        fails.
        """
        if events == []:
            return
        number = self.cursor
        if events is not None:
            try:
                html = await self._html(events, caught_up=caught_up)
            except Exception:
                logger.exception("The page %s cannot be brought up to date.", self._page)
            else:
                await self.send_json({"id": number, "html": html})
                return
        await self.send_json({"resync": True, "id": number})

    async def _html(self, events: list[LoggedEvent], *, caught_up: bool) -> str:
        """Render what the events change on the page, and in the user's tray.

        The rows of a list come first: a browser parses rows of tables only at the beginning of a frame.
        """
        own = [event for event in events if event.topic == self._own_topic]
        rest = [event for event in events if event.topic != self._own_topic]
        parts = []
        if rest:
            parts.append(await self._renders.html(self._page, rest, self.context, caught_up=caught_up))
        for page in dict.fromkeys((self._page, TRAY)) if own else ():
            parts.append(await self._renders.html(page, own, self.context, caught_up=caught_up, personal=True))
        return "".join(parts)

    @property
    def _page(self) -> str:
        return handshake.parameter(self.scope, "page")[:LONGEST_PAGE]
