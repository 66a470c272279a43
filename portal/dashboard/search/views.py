"""The search: a page, and the results of the palette; and starred resources."""

import uuid
from typing import cast

from django.http import Http404, HttpRequest, HttpResponse
from django.urls import reverse

from portal.common.http import rate_limits
from portal.common.http.redirects import safe_next
from portal.dashboard.frame.pages import Page, PageRequest
from portal.dashboard.frame.things import PAGES
from portal.dashboard.search.offers import grouped, offers_for
from provisioning.search.find import LONGEST
from provisioning.starred import services


class Search(Page):
    """Results for ``?q=``, grouped by kind."""

    everywhere = True

    def get(self, request: HttpRequest) -> HttpResponse:
        text = request.GET.get("q", "").replace("\0", "").strip()[:LONGEST]
        if text:
            rate_limits.check(self.context, rate_limits.SEARCHES)
        offers = offers_for(self.context, text)
        parts = {"text": text, "groups": grouped(offers), "many": len(offers)}
        if cast("PageRequest", request).htmx:
            return self.part("dashboard/search/_options.html", parts)
        return self.page("dashboard/search/page.html", parts)


class Star(Page):
    """Stars a resource, or removes its star (``starred`` is empty)."""

    def post(self, request: HttpRequest, resource_kind: str, thing_id: uuid.UUID) -> HttpResponse:
        """Add or remove the star, and redirect to the page of the resource."""
        if resource_kind not in PAGES:
            raise Http404
        if request.POST.get("starred"):
            services.star(self.context, resource_kind, thing_id)
        else:
            services.unstar(self.context, resource_kind, thing_id)
        return self.go(safe_next(request, reverse("dashboard:starred")))


class Starred(Page):
    """The starred resources, with a button to remove each star."""

    def get(self, request: HttpRequest) -> HttpResponse:
        return self.page("dashboard/search/starred.html")
