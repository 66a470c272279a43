"""The effect of the death of each host on its instances."""

from typing import Any, cast

from django.http import HttpRequest, HttpResponse
from django.utils.cache import patch_vary_headers

from portal.dashboard.frame.pages import Page, PageRequest
from provisioning.compute.actions.evacuate import Evacuate
from provisioning.compute.plans.deaths import deaths_for


class DeathsPage(Page):
    """The answer for each host, as a page, and as a panel of the operators' first page."""

    section = "cloud"
    rule = Evacuate.rule
    back_to = "dashboard:cloud"

    def get(self, request: HttpRequest, **_: Any) -> HttpResponse:
        context = {"deaths": deaths_for(self.context)}
        if cast("PageRequest", request).htmx:
            answer = self.part("dashboard/cloud/_deaths.html", context)
        else:
            answer = self.page("dashboard/cloud/deaths.html", context)
        patch_vary_headers(answer, ["HX-Request"])
        return answer
