"""Usage of projects: for accounting, the running times and sizes of servers, from the instances' own columns; for
operators, present usage by the counters of quotas and by the allocations on hosts."""

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from django.db.models import F, OuterRef, Q, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Coalesce

from provisioning.common.context import RequestContext
from provisioning.common.lists.listing import Listing, Part, Sort
from provisioning.compute.models import Allocation, Instance
from provisioning.identity import policy
from provisioning.identity.models import Project
from provisioning.quotas.models import QuotaUsage

COLUMNS = ("id", "project_id", "name", "vm_state", "flavor", "launched_at", "terminated_at")
SERVERS = Listing[Instance](order=(Sort("project_id", descending=False), Sort("id", descending=False)))

RULE = "os_compute_api:os-simple-tenant-usage:list"
COUNTED: Mapping[str, str] = {
    "instances": "instances",
    "vcpus": "cores",
    "memory_mb": "ram",
    "volume_gb": "gigabytes",
    "floating_ips": "floatingips",
}
"""Column → resource of the quotas, in use and reserved."""


@dataclass(frozen=True, slots=True)
class Period:
    """A period from ``start`` to ``stop`` in UTC; ``now`` is the time of the request."""

    start: datetime
    stop: datetime
    now: datetime


@dataclass(frozen=True, slots=True)
class ServerUsage:
    """Usage of a server in a period: ``hours`` within it, sizes of its flavor (MiB, GiB), its start and end."""

    id: uuid.UUID
    project_id: uuid.UUID
    name: str
    flavor: str
    hours: float
    vcpus: int
    memory_mb: int
    local_gb: int
    state: str
    """The ``vm_state``, or ``terminated``."""
    started_at: datetime
    ended_at: datetime | None
    uptime: int
    """Seconds from the start to the end, or until now."""


@dataclass(slots=True)
class ProjectUsage:
    """Usage of a project in a period: hours, and hours multiplied by vCPUs, MiB and GiB."""

    project_id: uuid.UUID
    hours: float = 0.0
    vcpus: float = 0.0
    memory_mb: float = 0.0
    local_gb: float = 0.0
    servers: list[ServerUsage] = field(default_factory=list)

    def add(self, server: ServerUsage, *, keep: bool) -> None:
        """Add a server to the sums; ``keep`` also adds it to the list."""
        self.hours += server.hours
        self.vcpus += server.vcpus * server.hours
        self.memory_mb += server.memory_mb * server.hours
        self.local_gb += server.local_gb * server.hours
        if keep:
            self.servers.append(server)


@dataclass(frozen=True, slots=True)
class Usage:
    """A page of the accounting: projects by id, and the ids of the counted servers, in order."""

    projects: list[ProjectUsage]
    counted: list[uuid.UUID]


def usage_for(
    context: RequestContext,
    period: Period,
    *,
    project_id: uuid.UUID | None = None,
    detailed: bool = False,
    limit: int | None = None,
    marker: str | None = None,
) -> Usage:
    """Return the usage of servers that ran in a period, including deleted ones, sorted by project and id, with one
    query.

    ``project_id`` None: all projects. ``limit`` and ``marker`` (a server's id) select a page of servers; a project that
    continues on the next page is in both. Raises ForbiddenError, InvalidInputError for the marker.
    """
    _check(context, project_id)
    every = Instance.objects.all() if project_id is None else Instance.objects.filter(project_id=project_id)
    rows = SERVERS.cut(_ran_within(period, every), Part(limit=limit, marker=marker), among=every)
    return _count(rows.values(*COLUMNS).iterator(chunk_size=2000), period, detailed=detailed)


def _check(context: RequestContext, project_id: uuid.UUID | None) -> None:
    if project_id is None:
        policy.enforce(context, "os_compute_api:os-simple-tenant-usage:list")
    else:
        policy.enforce(context, "os_compute_api:os-simple-tenant-usage:show", {"project_id": project_id})


def _ran_within(period: Period, rows: QuerySet[Instance]) -> QuerySet[Instance]:
    """Return servers that were launched before the period's end and not terminated before its beginning."""
    still = Q(terminated_at=None) | Q(terminated_at__gt=period.start)
    return rows.filter(still, launched_at__lt=period.stop)


def _count(rows: Iterable[dict[str, Any]], period: Period, *, detailed: bool) -> Usage:
    projects: dict[uuid.UUID, ProjectUsage] = {}
    counted = []
    for row in rows:
        server = _server(row, period)
        usage = projects.get(server.project_id)
        if usage is None:
            usage = projects[server.project_id] = ProjectUsage(server.project_id)
        usage.add(server, keep=detailed)
        counted.append(server.id)
    return Usage(list(projects.values()), counted)


def _server(row: dict[str, Any], period: Period) -> ServerUsage:
    flavor, began, ended = row["flavor"], row["launched_at"], row["terminated_at"]
    within = min(period.stop, ended or period.stop) - max(began, period.start)
    return ServerUsage(
        id=row["id"],
        project_id=row["project_id"],
        name=row["name"],
        flavor=flavor["name"],
        hours=max(within.total_seconds(), 0) / 3600,
        vcpus=flavor["vcpus"],
        memory_mb=flavor["memory_mb"],
        local_gb=flavor["root_gb"] + flavor["ephemeral_gb"],
        state="terminated" if ended else str(row["vm_state"]),
        started_at=began,
        ended_at=ended,
        uptime=max(int(((ended or period.now) - began).total_seconds()), 0),
    )


def usage_by_project(context: RequestContext, rule: str = RULE) -> QuerySet[Any]:
    """Return the projects with their domains and the columns of ``COUNTED``, in any order.

    ``disk_gb`` is the disk space that is allocated on hosts. Raises ForbiddenError unless ``rule`` allows it.
    """
    policy.enforce(context, rule)
    usage = {name: _counted(resource) for name, resource in COUNTED.items()} | {"disk_gb": _disk()}
    return Project.objects.select_related("domain").annotate(**usage)


def _counted(resource: str) -> Coalesce:
    rows = QuotaUsage.objects.filter(project_id=OuterRef("pk"), resource=resource)
    return Coalesce(Subquery(rows.values_list(F("in_use") + F("reserved"))[:1]), Value(0))


def _disk() -> Coalesce:
    rows = Allocation.objects.filter(instance__project_id=OuterRef("pk")).order_by().values("instance__project_id")
    return Coalesce(Subquery(rows.annotate(gb=Sum("disk_gb")).values("gb")), Value(0))
