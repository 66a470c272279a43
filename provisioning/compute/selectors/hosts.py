"""Queries of hosts and of the resources that servers use on them, for operators and the scheduler."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import BigIntegerField, Count, ExpressionWrapper, F, FloatField, Func, Sum
from django.db.models.functions import Coalesce

from provisioning.compute.models import Instance
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive
from provisioning.scheduler import HostState


def servers_on(host_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, list[tuple[str, uuid.UUID]]]:
    """Return host → names and ids of its servers that are not deleted, with one query; for operators."""
    result: dict[uuid.UUID, list[tuple[str, uuid.UUID]]] = {}
    rows = Instance.objects.filter(host__in=list(host_ids), deleted_at=None).order_by("created_at", "id")
    for host_id, name, server in rows.values_list("host_id", "name", "id"):
        if host_id is not None:
            result.setdefault(host_id, []).append((name, server))
    return result


def workloads() -> dict[uuid.UUID, int]:
    """Return host → number of its servers with a task, with one query; for operators."""
    busy = Instance.objects.filter(host__isnull=False, task_state__isnull=False, deleted_at=None)
    counted = busy.order_by().values_list("host_id").annotate(many=Count("id"))
    return {host_id: many for host_id, many in counted if host_id is not None}


GUEST_COLUMNS = (
    *("id", "name", "project_id", "user_id", "vm_state", "task_state", "power_state", "flavor", "created_at"),
    *("locked", "deleted_at", "host"),
)
MOST_GUESTS = 500


def guests_on(host: Host) -> list[Instance]:
    """Return at most MOST_GUESTS servers on a host that are not deleted, by name, with one query; for operators."""
    rows = Instance.objects.filter(host=host, deleted_at=None).only(*GUEST_COLUMNS)
    result = list(rows.order_by("name", "id")[:MOST_GUESTS])
    for each in result:
        each.host = host
    return result


@dataclass(frozen=True, slots=True)
class Share:
    """Resources of one project's servers on a host: memory in MiB, disk in GiB."""

    project_id: uuid.UUID
    vcpus: int
    memory_mb: int
    disk_gb: int


def shares_of(host: Host) -> list[Share]:
    """Return the resources of each project's servers on a host, with one query; for operators."""
    held = host.allocations.filter(instance__deleted_at=None).order_by("instance__project_id")
    sums = held.values_list("instance__project_id").annotate(Sum("vcpus"), Sum("memory_mb"), Sum("disk_gb"))
    return [Share(*row) for row in sums]


def state_of(host: Host, now: datetime) -> HostState:
    """Return a loaded host as the scheduler's row, without facts."""
    vcpus, memory, disk = limits_of(host)
    return HostState(
        raw_id=host.id,
        name=host.name,
        availability_zone=host.availability_zone,
        enabled=host.enabled,
        alive=is_alive(host, now),
        vcpus_total=host.vcpus_total,
        vcpus_limit=vcpus,
        memory_mb_limit=memory,
        disk_gb_limit=disk,
        vcpus_allocated=host.vcpus_allocated,
        memory_mb_allocated=host.memory_mb_allocated,
        disk_gb_allocated=host.disk_gb_allocated,
        instances=host.instances_allocated,
        architecture=host.architecture,
        hypervisor_type=host.hypervisor_type,
        hypervisor_version=host.hypervisor_version,
        failed_builds=host.failed_builds,
        max_instances=host.aggregate_max_instances,
        max_io_ops=host.aggregate_max_io_ops,
    )


class Whole(Func):
    """A number truncated to an integer."""

    arity = 1
    output_field = BigIntegerField()

    def as_sqlite(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """SQLite's cast truncates."""
        return self.as_sql(compiler, connection, template="CAST(%(expressions)s AS INTEGER)", **extra)

    def as_postgresql(self, compiler: Any, connection: Any, **extra: Any) -> Any:
        """PostgreSQL's cast rounds, so the number is truncated first."""
        return self.as_sql(compiler, connection, template="TRUNC(%(expressions)s)::bigint", **extra)


def ratio(resource: str) -> Coalesce:
    """Return the allocation ratio of ``cpu``, ``ram`` or ``disk``: of the host's aggregates, or its own."""
    return Coalesce(F(f"aggregate_{resource}_ratio"), F(f"{resource}_allocation_ratio"))


def _whole(total: Any, resource: str) -> Whole:
    return Whole(ExpressionWrapper(total * ratio(resource), output_field=FloatField()))


def vcpus_limit() -> Whole:
    """Return the number of vCPUs that may be allocated."""
    return _whole(F("vcpus_total"), "cpu")


def memory_limit() -> Whole:
    """Return the MiB of memory that may be allocated."""
    return _whole(F("memory_mb_total") - F("reserved_memory_mb"), "ram")


def disk_limit() -> Whole:
    """Return the GiB of disk that may be allocated."""
    return _whole(F("disk_gb_total") - F("reserved_disk_gb"), "disk")


def limits_of(host: Host) -> tuple[int, int, int]:
    """Return the limits of a host, computed in Python: vCPUs, MiB of memory, GiB of disk."""
    cpu, ram, disk = (_ratio(host, resource) for resource in ("cpu", "ram", "disk"))
    return (
        int(host.vcpus_total * cpu),
        int((host.memory_mb_total - host.reserved_memory_mb) * ram),
        int((host.disk_gb_total - host.reserved_disk_gb) * disk),
    )


def _ratio(host: Host, resource: str) -> float:
    by_aggregates: float | None = getattr(host, f"aggregate_{resource}_ratio")
    own: float = getattr(host, f"{resource}_allocation_ratio")
    return own if by_aggregates is None else by_aggregates
