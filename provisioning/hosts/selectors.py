"""Hosts: for operators, whether they answer, and the zones everybody may name."""

from datetime import datetime, timedelta
from typing import Any

from django.conf import settings
from django.db.models import Q
from django.utils import timezone

from provisioning.common.context import RequestContext
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
"""Rules of who sees something of the hosts; the face asks the one of its operation."""


def is_alive(host: Host, now: datetime) -> bool:
    """Whether the host's agent has been heard of within HOST_DOWN_AFTER seconds and no operator says that the host is
    down; a link that is being dialled anew changes nothing.
    """
    since = now - timedelta(seconds=settings.HOST_DOWN_AFTER)
    return not host.forced_down and host.last_seen_at is not None and host.last_seen_at >= since


def alive(now: datetime, path: str = "") -> Q:
    """Return the condition that ``is_alive`` is, for a query; ``path`` leads to the host: ``allocation__host__``."""
    return seen_since(long_ago(now), path)


def long_ago(now: datetime) -> datetime:
    """Return when a host must have been seen last to be alive."""
    return now - timedelta(seconds=settings.HOST_DOWN_AFTER)


def seen_since(since: Any, path: str = "") -> Q:
    """Return the condition ``alive`` for hosts seen since a moment, which may be the parameter of a prepared query."""
    return Q(**{f"{path}forced_down": False, f"{path}last_seen_at__gte": since})


def wrong_clock() -> Q:
    """Return the condition that a host's clock is further from ours than CLOCK_DIFFERENCE_LIMIT seconds."""
    limit = settings.CLOCK_DIFFERENCE_LIMIT
    return Q(clock_difference__gt=limit) | Q(clock_difference__lt=-limit)


def usable_hosts() -> int:
    """Return how many hosts answer, may get new servers and have told what they have."""
    return Host.objects.filter(alive(timezone.now()), enabled=True, vcpus_total__gt=0).count()


def enrolled_hosts() -> set[str]:
    return set(Host.objects.exclude(credential_digest="").values_list("name", flat=True))


def tracked_connections() -> list[tuple[str, str, dict[str, Any]]]:
    """Return name and zone of each host that says what it tracks, by name, and that (``Host.tracking``)."""
    rows = Host.objects.exclude(tracking={}).order_by("name")
    return list(rows.values_list("name", "availability_zone", "tracking"))


def hosts_for(context: RequestContext) -> list[Host]:
    """Return all hosts by name.  Raises ForbiddenError for anyone but operators."""
    if not any(policy.allows(context, rule) for rule in SEEING_HOSTS):
        policy.enforce(context, SEEING_HOSTS[0])
    return list(Host.objects.order_by("name"))


def zones() -> dict[str, bool]:
    """Return each zone that has a host, except ``INTERNAL_ZONE``, and whether one of its hosts is enabled."""
    found: dict[str, bool] = {}
    shown = Host.objects.exclude(availability_zone=INTERNAL_ZONE)
    for zone, enabled in shown.values_list("availability_zone", "enabled").distinct().order_by():
        found[zone] = found.get(zone, False) or enabled
    return found


def availability_zones() -> list[str]:
    """Return the names of all zones that have a host, sorted."""
    return list(Host.objects.order_by("availability_zone").values_list("availability_zone", flat=True).distinct())
