"""Pages that fetch their changing part again every few seconds.

The state of the cloud also changes without an event: a host stops reporting, a worker dies, a message in the queue gets
old.
"""

from collections.abc import Mapping
from typing import Any, ClassVar, cast

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.utils.cache import patch_vary_headers

from portal.dashboard.pages import Page, PageRequest

PART = "now"
"""The id of the element that is fetched again."""
SECONDS = 15


class WatchedPage(Page):
    """Base of these pages. ``template`` includes ``part_template``, which extends ``dashboard/cloud/_watched.html``."""

    template: ClassVar[str]
    part_template: ClassVar[str]

    def get(self, request: HttpRequest, **given: Any) -> HttpResponse:
        """Show the page, or only its changing part if the part itself asks for it."""
        htmx = cast("PageRequest", request).htmx
        context = {"read_at": timezone.now(), "seconds": SECONDS, "address": request.get_full_path()}
        context |= dict(self.parts(**given))
        part = bool(htmx) and htmx.target == PART
        answer = self.part(self.part_template, context) if part else self.page(self.template, context)
        patch_vary_headers(answer, ["HX-Request", "HX-Target"])
        return answer

    def parts(self, **given: Any) -> Mapping[str, Any]:
        """Return the context of the part."""
        raise NotImplementedError
