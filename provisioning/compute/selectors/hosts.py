"""Hosts: for operators, for the scheduler, and the zones everybody may name."""

from __future__ import annotations

from datetime import datetime, timedelta

from django.conf import settings
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.compute.models import Host
from provisioning.identity import policy
from provisioning.scheduler import HostState

INTERNAL_ZONE = "nova"
"""The zone of hosts that no operator has moved to another."""
SEEING_HOSTS = (
    "compute:hypervisors:list",
    "compute:hypervisors:list_detail",
    "compute:hypervisors:show",
    "compute:services:list",
    "compute:services:update",
    "compute:availability_zones:detail",
)
"""Rules of who sees something of the hosts; the face asks the one of its operation."""


def is_alive(host: Host, now: datetime) -> bool:
    """Whether the host's agent has been heard of within HOST_DOWN_AFTER seconds; a link that is being dialled anew
    changes nothing.
    """
    return host.last_seen_at is not None and host.last_seen_at >= now - timedelta(seconds=settings.HOST_DOWN_AFTER)


def hosts_for(context: RequestContext) -> list[Host]:
    """Return all hosts by name.  Raises ForbiddenError for anyone but operators."""
    if not any(policy.allows(context, rule) for rule in SEEING_HOSTS):
        policy.enforce(context, SEEING_HOSTS[0])
    return list(Host.objects.order_by("name"))


def availability_zones() -> list[str]:
    """Return the names of all zones that have a host, sorted."""
    return list(Host.objects.order_by("availability_zone").values_list("availability_zone", flat=True).distinct())


def host_states() -> list[HostState]:
    """Return every host as the scheduler sees it, in one query."""
    now = timezone.now()
    return [state_of(host, now) for host in Host.objects.all()]


def state_of(host: Host, now: datetime) -> HostState:
    """Return one host as the scheduler sees it."""
    return HostState(
        id=host.id,
        name=host.name,
        availability_zone=host.availability_zone,
        enabled=host.enabled,
        alive=is_alive(host, now),
        vcpus_total=host.vcpus_total,
        vcpus_limit=int(host.vcpus_total * host.cpu_allocation_ratio),
        memory_mb_limit=int((host.memory_mb_total - host.reserved_memory_mb) * host.ram_allocation_ratio),
        disk_gb_limit=int((host.disk_gb_total - host.reserved_disk_gb) * host.disk_allocation_ratio),
        vcpus_allocated=host.vcpus_allocated,
        memory_mb_allocated=host.memory_mb_allocated,
        disk_gb_allocated=host.disk_gb_allocated,
        instances=host.instances_allocated,
    )
