"""Present usage of each project."""

from collections.abc import Sequence
from typing import Any

from django.db.models.functions import Lower

from portal.dashboard.lists import cells
from portal.dashboard.lists.declaration import BY_NAME, Column, Empty, RecordList, searched
from portal.dashboard.lists.views import ListPage
from provisioning.common.context import RequestContext
from provisioning.compute.selectors.usage import RULE, usage_by_project
from provisioning.identity.models import Project


def _number(key: str, label: str) -> Column:
    """Return a column of numbers, with the largest first."""
    return Column(key, label, lambda project: getattr(project, key), sort=key, css="num", largest_first=True)


def _memory(project: Any) -> float:
    gibibytes = round(project.memory_mb / 1024, 1)
    return int(gibibytes) if gibibytes.is_integer() else gibibytes


def _name(project: Any) -> object:
    return cells.record(project, "dashboard:project_page")


def _rows(_: RequestContext, projects: Sequence[Project]) -> Sequence[Project]:
    return projects


USAGE = RecordList[Project](
    key="usage",
    model=Project,
    one="project",
    noun="projects",
    rule=RULE,
    records=lambda context, _: usage_by_project(context),
    rows=_rows,
    default="-vcpus",
    columns=(
        Column("name", "Project", _name, sort=BY_NAME, plain=lambda project: project.name, css="name"),
        Column(
            "domain",
            "Domain",
            lambda project: cells.bdi(project.domain.name),
            sort=Lower("domain__name"),
            css="muted",
            optional=True,
        ),
        _number("instances", "Instances"),
        _number("vcpus", "vCPUs"),
        Column("memory", "Memory (GiB)", _memory, sort="memory_mb", css="num", largest_first=True),
        _number("disk_gb", "Disk on hosts (GiB)"),
        _number("volume_gb", "Volumes (GiB)"),
        _number("floating_ips", "Floating IPs"),
    ),
    search=searched("name"),
    find="Find by name or ID",
    empty=Empty("bar-chart", "No projects yet", "A project owns instances, volumes and networks."),
)


class UsageList(ListPage):
    """The projects with their usage."""

    records = USAGE
    lead = "Resources that projects have now, by the counters of their quotas; disk on hosts by the allocations."
