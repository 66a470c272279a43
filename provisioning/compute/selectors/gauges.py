"""Current values of the cloud for the metrics, with a constant number of queries."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count, F, Q, Sum, Value
from django.db.models.functions import Coalesce

from provisioning.compute.models import Instance, Migration
from provisioning.compute.records.migration_records import EVACUATION, LIVE_MIGRATION, MIGRATION, OPEN, RESIZE
from provisioning.compute.selectors.hosts import disk_limit, memory_limit, vcpus_limit
from provisioning.compute.states import VmState
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import alive, wrong_clock


@dataclass(frozen=True, slots=True)
class Capacity:
    """Capacity of an availability zone or a host.

    Numbers of hosts in total, connected, up, enabled, and with a wrong clock; ``total``, ``limit`` and ``allocated``
    are vCPUs, MiB of memory and GiB of disk.
    """

    name: str
    hosts: int
    connected: int
    up: int
    enabled: int
    wrong_clock: int
    servers: int
    total: tuple[int, int, int]
    limit: tuple[int, int, int]
    allocated: tuple[int, int, int]


def capacity_by_zone(now: datetime) -> list[Capacity]:
    """Return the capacity of each availability zone, by name; one query."""
    return _capacity("availability_zone", now)


def capacity_by_host(now: datetime) -> list[Capacity]:
    """Return the capacity of each host, by name; one query."""
    return _capacity("name", now)


def instances_by_state() -> dict[str, int]:
    """Return the number of servers in each state, without deleted ones; one query on an index."""
    rows = Instance.objects.filter(deleted_at=None).values_list("vm_state").annotate(many=Count("*")).order_by()
    return {state.value: 0 for state in VmState if state != VmState.DELETED} | dict(rows)


def tasks_overdue(now: datetime) -> int:
    """Return the number of servers with an overdue task; one query on an index."""
    return Instance.objects.exclude(task_state=None).filter(task_deadline__lt=now).count()


def moves_by_type() -> dict[str, int]:
    """Return Nova's migration type → number of unfinished migrations, 0 for types without any. One query."""
    rows = Migration.objects.filter(status__in=OPEN).order_by().values_list("migration_type").annotate(many=Count("id"))
    return dict.fromkeys((MIGRATION, RESIZE, LIVE_MIGRATION, EVACUATION), 0) | dict(rows)


def _capacity(column: str, now: datetime) -> list[Capacity]:
    limits = Host.objects.annotate(vcpus_limit=vcpus_limit(), memory_limit=memory_limit(), disk_limit=disk_limit())
    sums = (
        *("instances_allocated", "vcpus_total", "memory_mb_total", "disk_gb_total"),
        *("vcpus_limit", "memory_limit", "disk_limit"),
        *("vcpus_allocated", "memory_mb_allocated", "disk_gb_allocated"),
    )
    rows = (
        limits.values_list(column)
        .annotate(
            hosts=Count("pk"),
            linked=Count("pk", filter=Q(connected=True)),
            up=Count("pk", filter=alive(now)),
            usable=Count("pk", filter=Q(enabled=True)),
            strange=Count("pk", filter=wrong_clock()),
            **{f"{name}_sum": Coalesce(Sum(F(name)), Value(0)) for name in sums},
        )
        .order_by(column)
    )
    return [_of(row) for row in rows]


def _of(row: tuple[Any, ...]) -> Capacity:
    name, hosts, connected, up, enabled, wrong_clocks, servers = row[:7]
    return Capacity(name, hosts, connected, up, enabled, wrong_clocks, servers, row[7:10], row[10:13], row[13:16])
