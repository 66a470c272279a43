"""The overview."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.http import HttpRequest, HttpResponse

from portal.dashboard.copy_as.client_files import CLOUD, password_files
from portal.dashboard.frame import navigation
from portal.dashboard.frame.pages import Page
from portal.dashboard.graphs.parts import OF_PROJECT
from portal.dashboard.instances.lists.listing import INSTANCES
from portal.dashboard.instances.lists.rows import rows_for
from portal.dashboard.words import wording
from provisioning.common.context import RequestContext
from provisioning.compute import selectors as compute
from provisioning.compute.selectors import Limits
from provisioning.compute.selectors.instances import newest_instances
from provisioning.identity import policy
from provisioning.volumes.selectors.gauges import of_project

VOLUMES = {"volumes": "Volumes", "gigabytes": "Volume storage"}
NETWORK = {"floatingips": "Floating IPs"}


@dataclass(frozen=True, slots=True)
class Donut:
    """One resource: amounts in the API's units (memory in MiB); ``limit`` None: unlimited."""

    resource: str
    label: str
    used: int
    limit: int | None
    note: str = ""

    @property
    def percent(self) -> float:
        """Percent of the limit in use, at most 100."""
        if not self.limit:
            return 100.0 if self.limit == 0 and self.used else 0.0
        return round(min(100 * self.used / self.limit, 100), 1)

    @property
    def rounded(self) -> int:
        return round(self.percent)

    @property
    def tone(self) -> str:
        """``used``, ``near`` (80 %) or ``full``."""
        if self.limit is not None and self.used >= self.limit:
            return "full"
        return "near" if self.percent >= 80 else "used"

    @property
    def used_text(self) -> str:
        """The usage with its unit."""
        return wording.amount(self.resource, self.used)

    @property
    def limit_text(self) -> str:
        """The limit with its unit."""
        return wording.amount(self.resource, self.limit or 0)

    @property
    def left_text(self) -> str:
        """The remaining amount with its unit."""
        return wording.amount(self.resource, max((self.limit or 0) - self.used, 0))


def donuts(limits: Limits, *, volumes: bool = False, network: bool = False, deleted_gb: int = 0) -> list[Donut]:
    """Return the quotas of the resources of a launch; with ``volumes`` also of volumes and snapshots, with ``network``
    of floating IPs.

    ``deleted_gb``: storage used by data of deleted volumes.
    """
    note = f"{deleted_gb} GiB of it in deleted volumes that clones still use" if deleted_gb else ""
    drawn = []
    labels = wording.RESOURCES | (VOLUMES if volumes else {}) | (NETWORK if network else {})
    for resource, label in labels.items():
        limit = limits.limits.get(resource, -1)
        used = limits.usage.get(resource, 0)
        drawn.append(
            Donut(resource, label, used, None if limit < 0 else limit, note if resource == "gigabytes" else "")
        )
    return drawn


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
        "rows": rows_for(context, newest_instances(context)) if seen else [],
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


@dataclass(frozen=True, slots=True)
class Terminal:
    """The client files and the first command, as texts to copy."""

    clouds_yaml: str
    openrc: str
    example: str


def terminal_for(request: HttpRequest, context: RequestContext) -> Terminal:
    """Return the texts for this user in this project."""
    files = password_files(request, context)
    return Terminal(files.clouds_yaml.rstrip(), files.openrc.rstrip(), f"openstack --os-cloud {CLOUD} server list")
