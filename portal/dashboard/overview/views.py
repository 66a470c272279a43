"""The overview."""

from collections.abc import Mapping
from typing import Any

from django.http import HttpRequest, HttpResponse

from portal.dashboard.frame import navigation
from portal.dashboard.frame.pages import Page
from portal.dashboard.graphs.parts import OF_PROJECT
from portal.dashboard.instances.lists.listing import INSTANCES
from portal.dashboard.instances.lists.rows import rows_for
from portal.dashboard.overview.quota import Donut, donuts
from portal.dashboard.overview.terminal import terminal_for
from provisioning.common.context import RequestContext
from provisioning.compute import selectors as compute
from provisioning.identity import policy
from provisioning.volumes.selectors.deleted_data import of_project

RECENT = 5


class Overview(Page):
    """The overview of the project."""

    section = live_page = "overview"

    def outside(self) -> HttpResponse:
        """Redirect to the start page of a domain's or the system's scope."""
        return self.go(navigation.HOME_OF[navigation.scope_of(self.context)])

    def get(self, request: HttpRequest) -> HttpResponse:
        """Show quota, newest instances and terminal instructions."""
        since = self.live_since()
        parts = parts_for(self.context)
        return self.page(
            "dashboard/overview/index.html",
            {
                "live_since": since,
                "terminal": terminal_for(request, self.context),
                "shows_graphs": bool(parts["rows"]) and self.allows(OF_PROJECT),
                **parts,
            },
        )


def parts_for(context: RequestContext) -> Mapping[str, Any]:
    """Return the context of the page's live parts."""
    seen = policy.allows(context, "os_compute_api:servers:detail")
    return {
        "donuts": _donuts(context),
        "rows": rows_for(context, compute.instances_for(context, limit=RECENT)) if seen else [],
        "list": INSTANCES,
        "can_launch": policy.allows(context, "os_compute_api:servers:create"),
    }


def _donuts(context: RequestContext) -> list[Donut]:
    if not policy.allows(context, "os_compute_api:limits"):
        return []
    volumes = policy.allows(context, "limits_extension:used_limits")
    limits = compute.limits_for(context)
    project = context.project_id if volumes and limits.usage.get("gigabytes") else None
    network = policy.allows(context, "get_floatingip")
    return donuts(limits, volumes=volumes, network=network, deleted_gb=of_project(project) if project else 0)
