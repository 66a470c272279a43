"""The operators' first page: the state of the cloud and its present faults."""

from collections.abc import Mapping
from typing import Any

from portal.dashboard.cloud.listing import bars_of, host_rows
from portal.dashboard.cloud.things import troubles_of
from portal.dashboard.cloud.watched import WatchedPage
from portal.dashboard.graphs.bars import Bar
from portal.dashboard.graphs.parts import OF_HOSTS
from provisioning.compute.actions.evacuate import Evacuate
from provisioning.compute.selectors.hosts import state_of
from provisioning.doctor.overview.cloud import RULE, cloud_for
from provisioning.identity.selectors.lookups import projects_by_id
from provisioning.volumes.selectors.pools import RULE as POOLS

MOST_HOSTS = 12
"""Maximum number of hosts on the page, worse and fuller ones first."""
MOST_FAULTS = 50


class CloudPage(WatchedPage):
    """The cloud: faults, hosts, capacity, failed launches, projects, work and releases."""

    section = "cloud"
    rule = RULE
    template = "dashboard/cloud/cloud.html"
    live_templates = ("dashboard/cloud/_cloud.html",)
    live_kind = "cloud"

    def parts(self) -> Mapping[str, Any]:
        cloud = cloud_for(self.context)
        rows = sorted(host_rows(cloud.hosts, cloud.at), key=lambda row: row.order)
        whole = bars_of([state_of(host, cloud.at) for host in cloud.hosts])
        projects = projects_by_id({each.project_id for each in cloud.launches.newest})
        return {
            "cloud": cloud,
            "troubles": troubles_of(self.context, cloud.faults, cloud.examined)[:MOST_FAULTS],
            "reported": troubles_of(self.context, cloud.reported, cloud.examined)[:MOST_FAULTS],
            "many": len(cloud.faults) + len(cloud.reported),
            "rows": rows[:MOST_HOSTS],
            "up": sum(row.status.tone != "bad" for row in rows),
            "whole": whole,
            "servers": sum(cloud.servers.values()),
            "launches": [(each, projects.get(each.project_id)) for each in cloud.launches.newest],
            "projects": [(each, _shares(each, whole)) for each in cloud.projects],
            "can": {
                "join": self.allows("novella:hosts:join"),
                "examine": self.allows("novella:doctor:run"),
                "admin": self.allows("novella:admin"),
                "graphs": self.allows(OF_HOSTS),
                "evacuate": self.allows(Evacuate.rule),
                "hosts": self.allows("os_compute_api:os-hypervisors:list-detail"),
                "pools": self.allows(POOLS),
                "usage": self.allows("os_compute_api:os-simple-tenant-usage:list"),
            },
        }


def _shares(project: Any, whole: list[Bar]) -> list[Bar]:
    """Return a project's usage as parts of the cloud."""
    used = (project.vcpus, project.memory_mb, project.disk_gb)
    return [type(bar)(bar.resource, bar.limit, amount) for bar, amount in zip(whole, used, strict=True)]
