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
