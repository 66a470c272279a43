"""Live pages of operators. Each has one live part, which the page and its socket draw with the same function.

The state of the cloud also changes without an event (a host stops reporting, a worker dies, a message in the queue
gets old), so the sockets of these pages also draw without an event (``portal.sockets.browser.OF_OPERATORS``).
"""

import uuid
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse
from django.template.loader import render_to_string

from portal.dashboard.frame.pages import Page
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.events.selectors import LoggedEvent
from provisioning.identity import policy

HOST_ID = "host_id"
"""The ``key`` of the pages of one host, which events about other hosts do not change."""


class WatchedPage(Page):
    """Base of these pages. ``template`` includes ``live_templates``, whose elements have ids.

    ``live_kind``: the first part of the name of the live page; the id of the record follows if ``key`` is the name of
    its argument in the URL. ``kinds``: the events that change the page.
    """

    template: ClassVar[str]
    live_templates: ClassVar[Sequence[str]]
    live_kind: ClassVar[str]
    kinds: ClassVar[frozenset[str]] = frozenset({"host"})
    key: ClassVar[str] = ""

    def get(self, request: HttpRequest, **kwargs: Any) -> HttpResponse:
        since = self.live_since()
        self.live_page = f"{self.live_kind}/{kwargs[self.key]}" if self.key else self.live_kind
        parts = dict(self.parts())
        return self.page(self.template, {"live_since": since, **parts, **self.whole(parts)})

    def parts(self) -> Mapping[str, Any]:
        """Return the context of the live part; it depends on the record and the caller only."""
        raise NotImplementedError

    def whole(self, parts: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return additional context of the whole page."""
        return {}

    @classmethod
    def draw(cls, rest: str, events: Sequence[LoggedEvent], context: RequestContext) -> str:
        """Return the live part as HTML with ids; a notice if the record was deleted, and nothing if the events are
        about others or the caller may not see the page.
        """
        identity = read_id(rest) or NOBODY
        if not policy.allows(context, cls.rule) or not any(cls._concerns(event, identity) for event in events):
            return ""
        page = cls()
        page.context = context
        try:
            page.target(**({cls.key: identity} if cls.key else {}))
            parts = dict(page.parts())
        except NotFoundError:
            return render_to_string("dashboard/records/_gone.html")
        return "".join(render_to_string(each, parts) for each in cls.live_templates)

    @classmethod
    def _concerns(cls, event: LoggedEvent, identity: uuid.UUID) -> bool:
        return cls.key != HOST_ID or event.payload.get("id") in {None, str(identity)}
