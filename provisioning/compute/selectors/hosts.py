"""Hosts: for operators, for the scheduler, and the zones everybody may name."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta

from django.conf import settings
from django.db.models import Count, Q, Sum

from provisioning.common.context import RequestContext
from provisioning.compute.models import Host, Instance
from provisioning.compute.selectors.capacity import limits_of
from provisioning.identity import policy
from provisioning.scheduler import HostState

DEFAULT_ZONE = "nova"
"""The zone of hosts that no operator has moved to another."""
INTERNAL_ZONE = "internal"
"""The zone of the workers; no server can be there."""
SEEING_HOSTS = (
    "os_compute_api:os-hypervisors:list",
    "os_compute_api:os-hypervisors:list-detail",
    "os_compute_api:os-hypervisors:show",
    "os_compute_api:os-hypervisors:uptime",
    "os_compute_api:os-hypervisors:search",
    "os_compute_api:os-hypervisors:servers",
    "os_compute_api:os-hypervisors:statistics",
    "os_compute_api:os-services:list",
    "os_compute_api:os-services:update",
    "os_compute_api:os-services:delete",
    "os_compute_api:os-hosts:list",
    "os_compute_api:os-hosts:show",
    "os_compute_api:os-hosts:update",
    "os_compute_api:os-availability-zone:detail",
)
"""Rules of who sees something of the hosts; the face asks the one of its operation."""


def is_alive(host: Host, now: datetime) -> bool:
    """Whether the host's agent has been heard of within HOST_DOWN_AFTER seconds and no operator says that the host is
    down; a link that is being dialled anew changes nothing.
    """
    since = now - timedelta(seconds=settings.HOST_DOWN_AFTER)
    return not host.forced_down and host.last_seen_at is not None and host.last_seen_at >= since


def alive(now: datetime, path: str = "") -> Q:
    """Return the condition that ``is_alive`` is, for a query; ``path`` leads to the host: ``allocation__host__``."""
    since = now - timedelta(seconds=settings.HOST_DOWN_AFTER)
    return Q(**{f"{path}forced_down": False, f"{path}last_seen_at__gte": since})


def hosts_for(context: RequestContext) -> list[Host]:
    """Return all hosts by name.  Raises ForbiddenError for anyone but operators."""
    if not any(policy.allows(context, rule) for rule in SEEING_HOSTS):
        policy.enforce(context, SEEING_HOSTS[0])
    return list(Host.objects.order_by("name"))


def zones() -> dict[str, bool]:
    """Return each zone that has a host, and whether one of its hosts is enabled."""
    found: dict[str, bool] = {}
    for zone, enabled in Host.objects.values_list("availability_zone", "enabled").distinct().order_by():
        found[zone] = found.get(zone, False) or enabled
    return found


def servers_on(host_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, list[tuple[str, uuid.UUID]]]:
    """Return host → name and id of its servers that are not deleted, in one query; for operators."""
    found: dict[uuid.UUID, list[tuple[str, uuid.UUID]]] = {}
    rows = Instance.objects.filter(host__in=list(host_ids), deleted_at=None).order_by("created_at", "id")
    for host_id, name, server in rows.values_list("host_id", "name", "id"):
        if host_id is not None:
            found.setdefault(host_id, []).append((name, server))
    return found


def workloads() -> dict[uuid.UUID, int]:
    """Return host → how many of its servers have a task that goes on, in one query; for operators."""
    busy = Instance.objects.filter(host__isnull=False, task_state__isnull=False, deleted_at=None)
    counted = busy.order_by().values_list("host_id").annotate(many=Count("id"))
    return {host_id: many for host_id, many in counted if host_id is not None}


@dataclass(frozen=True, slots=True)
class Share:
    """What one project's servers take of a host: memory in MiB, disk in GiB."""

    project_id: uuid.UUID
    vcpus: int
    memory_mb: int
    disk_gb: int


def shares_of(host: Host) -> list[Share]:
    """Return what each project's servers take of a host, in one query; for operators."""
    held = host.allocations.filter(instance__deleted_at=None).order_by("instance__project_id")
    sums = held.values_list("instance__project_id").annotate(Sum("vcpus"), Sum("memory_mb"), Sum("disk_gb"))
    return [Share(*row) for row in sums]


def availability_zones() -> list[str]:
    """Return the names of all zones that have a host, sorted."""
    return list(Host.objects.order_by("availability_zone").values_list("availability_zone", flat=True).distinct())


def state_of(host: Host, now: datetime) -> HostState:
    """Return one host that has been read as the scheduler sees it, without the facts beside its row."""
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
