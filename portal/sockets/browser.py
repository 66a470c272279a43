"""A page's socket, which sends the page's partials again when they change."""

import asyncio
import contextlib
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portal.common.sign_in import token_of_cookies
from portal.common.websockets import handshake
from portal.sockets.follower import Follower
from portal.sockets.renders import Renders
from provisioning.common.errors import NotFoundError
from provisioning.compute.selectors.instances import ALL_PROJECTS, instance_for
from provisioning.compute.selectors.migrations import EVERY_PROJECT
from provisioning.doctor.overview.cloud import RULE as CLOUD
from provisioning.drains.selectors import SHOW as DRAINS
from provisioning.events.selectors import EVERYBODY, OPERATORS, LoggedEvent, of_user
from provisioning.identity import policy
from provisioning.volumes.selectors.pools import RULE as POOLS

logger = logging.getLogger(__name__)

INSTANCE = "instance"
"""The name of the page of an instance, before its id."""
TRAY = "tray"
"""The page that is a part of every page: the actions of the user."""
LONGEST_PAGE = 1000
"""Maximum characters of a page's name, which includes the filter of a list."""


@dataclass(frozen=True, slots=True)
class OperatorsPage:
    """A page that follows the events for operators, if the ``rule`` allows it.

    After ``seconds`` without an event it is drawn as after an event of the ``kind``; 0: never.
    """

    rule: str
    kind: str = ""
    seconds: float = 0.0


OF_OPERATORS: Mapping[str, OperatorsPage] = {
    "hosts": OperatorsPage("os_compute_api:os-hypervisors:list-detail", "host", 15.0),  # load and allocated resources
    "migrations": OperatorsPage(EVERY_PROJECT),
    "pools": OperatorsPage(POOLS, "host", 15.0),  # their sizes
    "cloud": OperatorsPage(CLOUD, "host", 15.0),
    "host": OperatorsPage("os_compute_api:os-hypervisors:show", "host", 15.0),
    "pool": OperatorsPage(POOLS, "host", 15.0),
    "drain": OperatorsPage(DRAINS, "drain", 15.0),
}


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
        self._operators_page: OperatorsPage | None = None
        self._redrawn = ""

    def token(self) -> str:
        return token_of_cookies(handshake.cookies(self.scope))

    def admit(self) -> None:
        """On the lists for operators, follow the events for operators. On the page of an instance of another project,
        which operators may open, follow the events of that project.
        """
        name, _, rest = self._page.replace("?", "/", 1).partition("/")
        listed = OF_OPERATORS.get(name)
        self._operators_page = listed if listed and policy.allows(self.context, listed.rule) else None
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
        of_operators = () if self._operators_page is None else (OPERATORS,)
        return (self.topic, *self._of_others, *of_operators, EVERYBODY, self._own_topic)

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
            page = self._operators_page
            try:
                events = await asyncio.wait_for(self.news(), page.seconds if page and page.seconds else None)
            except TimeoutError:
                await self._show([LoggedEvent(0, OPERATORS, page.kind if page else "", {})], announced=False)
            else:
                await self._show(events)

    async def _show(self, events: list[LoggedEvent] | None, *, caught_up: bool = False, announced: bool = True) -> None:
        """Send one frame: the changed partials, or a request to reload the page if ``events`` is None or rendering
        fails. Not ``announced``: no event has come, so a frame that equals the last one of this kind is not sent.
        """
        if events == []:
            return
        number = self.cursor
        if events is not None:
            try:
                html = await self._html(events, caught_up=caught_up)
            except Exception:
                logger.exception("The page %s cannot be updated.", self._page)
            else:
                if announced or html != self._redrawn:
                    await self.send_json({"id": number, "html": html})
                if not announced:
                    self._redrawn = html
                return
        await self.send_json({"resync": True, "id": number})

    async def _html(self, events: list[LoggedEvent], *, caught_up: bool) -> str:
        """Render the parts of the page, and of the user's tray, that the events change."""
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
