"""Present usage of each project, for operators: by the counters of quotas, and by the allocations on hosts."""

from collections.abc import Mapping
from typing import Any

from django.db.models import F, OuterRef, QuerySet, Subquery, Sum, Value
from django.db.models.functions import Coalesce

from provisioning.common.context import RequestContext
from provisioning.compute.models import Allocation
from provisioning.identity import policy
from provisioning.identity.models import Project
from provisioning.quotas.models import QuotaUsage

RULE = "os_compute_api:os-simple-tenant-usage:list"
COUNTED: Mapping[str, str] = {
    "instances": "instances",
    "vcpus": "cores",
    "memory_mb": "ram",
    "volume_gb": "gigabytes",
    "floating_ips": "floatingips",
}
"""Column → resource of the quotas, in use and reserved."""
COLUMNS = ("instances", "vcpus", "memory_mb", "disk_gb", "volume_gb", "floating_ips")
"""Columns in the order of the page; ``disk_gb`` is the disk space that is allocated on hosts."""


def usage_by_project(
    context: RequestContext, *, sort: str = "vcpus", descending: bool = True, rule: str = RULE
) -> QuerySet[Any]:
    """Return the projects with their domains and ``COLUMNS``, sorted by a column or by ``name``.

    Raises ForbiddenError unless ``rule`` allows it.
    """
    policy.enforce(context, rule)
    found = {name: _counted(resource) for name, resource in COUNTED.items()} | {"disk_gb": _disk()}
    column = sort if sort in COLUMNS else "name"
    order = F(column).desc() if descending else F(column).asc()
    return Project.objects.select_related("domain").annotate(**found).order_by(order, "name", "id")


def _counted(resource: str) -> Coalesce:
    rows = QuotaUsage.objects.filter(project_id=OuterRef("pk"), resource=resource)
    return Coalesce(Subquery(rows.values_list(F("in_use") + F("reserved"))[:1]), Value(0))


def _disk() -> Coalesce:
    rows = Allocation.objects.filter(instance__project_id=OuterRef("pk")).order_by().values("instance__project_id")
    return Coalesce(Subquery(rows.annotate(gb=Sum("disk_gb")).values("gb")), Value(0))
