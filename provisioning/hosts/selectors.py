"""Hosts for operators, their liveness, and the availability zones that all users may specify."""

import uuid
from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q, QuerySet
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.hosts.models import Host
from provisioning.identity import policy

INTERNAL_ZONE = "internal"
"""The zone of the workers, and of hosts that an operator hides from the list of zones."""
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
"""Policy rules of which one suffices for reading hosts; the API checks the rule of each operation."""


def is_alive(host: Host, now: datetime) -> bool:
    """Whether the host's agent has sent a heartbeat within HOST_DOWN_AFTER seconds and no operator has forced the host
    down. It does not matter whether the agent is connected at the moment.
    """
    since = now - timedelta(seconds=settings.HOST_DOWN_AFTER)
    return not host.forced_down and host.last_seen_at is not None and host.last_seen_at >= since


def alive(now: datetime, path: str = "") -> Q:
    """Return ``is_alive`` as a query condition; ``path`` is the path to the host, such as ``allocation__host__``."""
    return seen_since(long_ago(now), path)


def long_ago(now: datetime) -> datetime:
    """Return the earliest ``last_seen_at`` with which a host is alive."""
    return now - timedelta(seconds=settings.HOST_DOWN_AFTER)


def seen_since(since: Any, path: str = "") -> Q:
    """Return the condition ``alive`` for the limit of ``long_ago``, which may be a parameter of a prepared query."""
    return Q(**{f"{path}forced_down": False, f"{path}last_seen_at__gte": since})


def wrong_clock() -> Q:
    """Return the condition that a host's clock and the portal's differ by more than CLOCK_DIFFERENCE_LIMIT seconds."""
    limit = settings.CLOCK_DIFFERENCE_LIMIT
    return Q(clock_difference__gt=limit) | Q(clock_difference__lt=-limit)


def usable_hosts() -> int:
    """Return the number of hosts that are alive, enabled and have reported their resources."""
    return Host.objects.filter(alive(timezone.now()), enabled=True, vcpus_total__gt=0).count()


def enrolled_hosts() -> set[str]:
    return set(Host.objects.exclude(credential_digest="").values_list("name", flat=True))


def tracked_connections() -> list[tuple[str, str, dict[str, Any]]]:
    """Return name, zone and ``Host.tracking`` of each host that reports its connection tracking, by name."""
    rows = Host.objects.exclude(tracking={}).order_by("name")
    return list(rows.values_list("name", "availability_zone", "tracking"))


def hosts_for(context: RequestContext) -> list[Host]:
    """Return all hosts by name.  Raises ForbiddenError unless the caller is an operator."""
    if not any(policy.allows(context, rule) for rule in SEEING_HOSTS):
        policy.enforce(context, SEEING_HOSTS[0])
    return list(Host.objects.order_by("name"))


def every_host(context: RequestContext, rule: str) -> QuerySet[Host]:
    """Return all hosts, in any order.  Raises ForbiddenError unless the rule allows it."""
    policy.enforce(context, rule)
    return Host.objects.all()


def host_for(context: RequestContext, host_id: uuid.UUID, rule: str) -> Host:
    """Return a host.  Raises ForbiddenError unless the rule allows it, and NotFoundError."""
    policy.enforce(context, rule)
    host = Host.objects.filter(id=host_id).first()
    if host is None:
        raise NotFoundError(f"Host {host_id} could not be found.")
    return host


def zones() -> dict[str, bool]:
    """Return zone → whether one of its hosts is enabled, without ``INTERNAL_ZONE``."""
    result: dict[str, bool] = {}
    shown = Host.objects.exclude(availability_zone=INTERNAL_ZONE)
    for zone, enabled in shown.values_list("availability_zone", "enabled").distinct().order_by():
        result[zone] = result.get(zone, False) or enabled
    return result


def availability_zones() -> list[str]:
    """Return the names of all zones with hosts, sorted."""
    return list(Host.objects.order_by("availability_zone").values_list("availability_zone", flat=True).distinct())
