"""Pools for operators: as Cinder's services, pools and hosts, and as availability zones."""

import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal

from django.db.models import Count, Prefetch, Q, QuerySet, Sum
from django.utils import timezone

from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.hosts.models import DEFAULT_ZONE
from provisioning.hosts.selectors import is_alive
from provisioning.identity import policy
from provisioning.volumes.models import PoolHost, Snapshot, StoragePool, Volume

RULE = "scheduler_extension:scheduler_stats:get_pools"
"""The policy rule to see all pools."""
VOLUMES = "volume_extension:volume_host_attribute"
"""The policy rule to see which volumes a pool has."""
MOST_VOLUMES = 100
Condition = Literal["unserved", "silent", "fault", "frozen", "disabled", "in service"]
DOWN_AFTER = timedelta(seconds=60)
"""Time without a report of a host after which a pool counts as down, as in Cinder."""
VOLUME = "cinder-volume"


@dataclass(frozen=True, slots=True)
class Service:
    """A service as in Cinder's API."""

    binary: str
    host: str
    zone: str
    enabled: bool
    up: bool
    updated_at: datetime | None
    disabled_reason: str = ""
    frozen: bool = False


def servings(path: str = "") -> "Prefetch[str, Any, str]":
    """Return a prefetch of the pools' hosts. ``path``: the lookup from the model to its pool, as ``pool__``."""
    return Prefetch(f"{path}servings", PoolHost.objects.select_related("host"))


def host_of(pool: StoragePool) -> str:
    """Return Cinder's host name of a pool: ``HOST@DRIVER#POOL``. For a shared pool, HOST is the pool's name."""
    return f"{backend_of(pool)}#{pool.name}"


def backend_of(pool: StoragePool) -> str:
    """Return ``HOST@DRIVER``, Cinder's name of the backend."""
    first = min((each.host.name for each in pool.servings.all()), default=pool.name)
    return f"{pool.name if pool.shared else first}@{pool.driver}"


def is_up(pool: StoragePool, now: datetime | None = None) -> bool:
    """Return whether one of the pool's hosts is connected, or the pool was reported recently."""
    seen = pool.last_seen_at
    connected = any(each.serving and each.host.connected for each in pool.servings.all())
    return connected or (seen is not None and (now or timezone.now()) - seen < DOWN_AFTER)


def every_pool(context: RequestContext) -> QuerySet[StoragePool]:
    """Return all pools, in any order.  Raises ForbiddenError."""
    policy.enforce(context, RULE)
    return StoragePool.objects.all()


def pool_for(context: RequestContext, pool_id: uuid.UUID) -> StoragePool:
    """Return a pool with its hosts.  Raises ForbiddenError and NotFoundError."""
    pool = every_pool(context).prefetch_related(servings()).filter(id=pool_id).first()
    if pool is None:
        raise NotFoundError(f"Pool {pool_id} could not be found.")
    return pool


def condition_of(pool: StoragePool, now: datetime) -> tuple[Condition, str]:
    """Return whether new volumes are created in a pool, or the first reason why not, and its explanation."""
    hosts = list(pool.servings.all())
    serving = [each for each in hosts if each.serving and is_alive(each.host, now)]
    if not serving:
        return ("silent" if hosts else "unserved"), ""
    if warning := pool.warning or next((each.warning for each in serving if each.warning), ""):
        return "fault", warning
    if pool.frozen:
        return "frozen", ""
    return ("in service", "") if pool.enabled else ("disabled", pool.disabled_reason)


def volumes_in(pool: StoragePool) -> list[Volume]:
    """Return the volumes of all projects in a pool, largest first; at most ``MOST_VOLUMES``."""
    rows = Volume.objects.filter(pool=pool).prefetch_related("attachments").order_by("-size_gb", "name", "id")
    return list(rows[:MOST_VOLUMES])


def pools() -> list[StoragePool]:
    """Return all pools by name, with their hosts."""
    return list(StoragePool.objects.prefetch_related(servings()).order_by("name", "id"))


def pool_named(host: str) -> StoragePool:
    """Return the pool with this ``HOST@DRIVER`` or ``HOST@DRIVER#POOL``.  Raises NotFoundError."""
    requested = host.strip()
    for pool in pools():
        if requested in {backend_of(pool), host_of(pool)}:
            return pool
    raise NotFoundError(f"Host {host[:120]} could not be found.")


def services(binary: str | None = None, host: str | None = None) -> list[Service]:
    """Return one ``cinder-volume`` for each pool, and the scheduler and backup services of the control plane."""
    now = timezone.now()
    result = [
        Service(
            VOLUME,
            backend_of(pool),
            pool.availability_zone,
            pool.enabled,
            is_up(pool, now),
            pool.last_seen_at or pool.created_at,
            pool.disabled_reason,
            pool.frozen,
        )
        for pool in pools()
    ]
    own = [
        Service(name, "novella", DEFAULT_ZONE, enabled=True, up=True, updated_at=now)
        for name in ("cinder-scheduler", "cinder-backup")
    ]
    every: Iterable[Service] = [*own, *result]
    return [each for each in every if (not binary or each.binary == binary) and (not host or host in _names_of(each))]


def _names_of(service: Service) -> set[str]:
    return {service.host, service.host.partition("@")[0]}


def zones() -> dict[str, bool]:
    """Return zone → whether volumes can be created in it; ``nova`` is always included."""
    result = {DEFAULT_ZONE: False}
    for pool in StoragePool.objects.all():
        result[pool.availability_zone] = result.get(pool.availability_zone, False) or pool.enabled
    result[DEFAULT_ZONE] = result[DEFAULT_ZONE] or len(result) == 1
    return dict(sorted(result.items()))


@dataclass(frozen=True, slots=True)
class Usage:
    """The usage of a pool by one project, or by all projects in total."""

    project: str
    volumes: int
    volume_gb: int
    snapshots: int
    snapshot_gb: int


def held_in(pool: StoragePool) -> list[Usage]:
    """Return the usage of a pool by all projects in total, then by each project."""
    volumes = {
        project: (count, size or 0)
        for project, count, size in Volume.objects.filter(pool=pool)
        .order_by()
        .values_list("project_id")
        .annotate(many=Count("pk"), gb=Sum("size_gb"))
    }
    snapshots = {
        project: (count, size or 0)
        for project, count, size in Snapshot.objects.filter(Q(volume__pool=pool))
        .order_by()
        .values_list("project_id")
        .annotate(many=Count("pk"), gb=Sum("size_gb"))
    }
    each = [
        Usage(project.hex, *volumes.get(project, (0, 0)), *snapshots.get(project, (0, 0)))
        for project in sorted({*volumes, *snapshots})
    ]
    total = Usage(
        "(total)",
        sum(one.volumes for one in each),
        sum(one.volume_gb for one in each),
        sum(one.snapshots for one in each),
        sum(one.snapshot_gb for one in each),
    )
    return [total, *each]
