"""Operators' settings of pools: whether they are enabled or frozen, their limits, and their hosts."""

import math
from collections.abc import Mapping
from typing import Any

from django.db import transaction
from django.utils import timezone

from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.common.values.text import one_line
from provisioning.hosts.models import Host
from provisioning.volumes.models import PoolClaim, PoolHost, StoragePool, Volume
from provisioning.volumes.pools import deleted_data
from provisioning.volumes.pools.pools import has_copied
from provisioning.volumes.records import holds
from provisioning.volumes.services.connections import daemons
from provisioning.volumes.state_machine import state

MAX_RATIO = 1000.0


def set_enabled(pool: StoragePool, *, enabled: bool, reason: str = "") -> StoragePool:
    """Enable or disable a pool for new volumes. ``reason`` is stored while it is disabled; ``doubt`` is cleared."""
    pool.enabled, pool.disabled_reason, pool.doubt = enabled, "" if enabled else reason, ""
    pool.save(update_fields=["enabled", "disabled_reason", "doubt"])
    return pool


def set_frozen(pool: StoragePool, *, frozen: bool) -> StoragePool:
    """Freeze or thaw a pool. Volumes of a frozen pool stay usable, but cannot be created, deleted or changed."""
    pool.frozen = frozen
    pool.save(update_fields=["frozen"])
    return pool


def update_pool(pool: StoragePool, changes: Mapping[str, Any]) -> StoragePool:
    """Update ``reserved_percentage``, ``max_over_subscription_ratio`` or ``availability_zone``.

    Existing volumes are not moved.  Raises InvalidInputError.
    """
    reserved = changes.get("reserved_percentage", pool.reserved_percentage)
    ratio = changes.get("max_over_subscription_ratio", pool.max_over_subscription_ratio)
    zone = one_line(str(changes.get("availability_zone", pool.availability_zone)), 255)
    if not 0 <= reserved <= 100:
        raise InvalidInputError("The reserved percentage must be 0 to 100.", field="reserved_percentage")
    if not (math.isfinite(ratio) and 1 <= ratio <= MAX_RATIO):
        message = f"The over-subscription ratio must be a number from 1 to {MAX_RATIO:g}."
        raise InvalidInputError(message, field="max_over_subscription_ratio")
    if not zone:
        raise InvalidInputError("A pool must have an availability zone.", field="availability_zone")
    pool.reserved_percentage, pool.max_over_subscription_ratio, pool.availability_zone = reserved, ratio, zone
    pool.save(update_fields=["reserved_percentage", "max_over_subscription_ratio", "availability_zone"])
    return pool


@transaction.atomic
def admit_host(pool: StoragePool, host: Host) -> None:
    """Admit a host to a pool as of its next audit, even if it has not claimed the pool.

    If the pool is not shared, the host replaces the present host. Raises ConflictError if the present host may have
    volumes open.
    """
    others = PoolHost.objects.filter(pool=pool).exclude(host=host)
    if not pool.shared:
        for each in others.select_related("host"):
            _check_closed(pool, each.host)
        others.delete()
    defaults = {"last_seen_at": timezone.now(), "serving": False, "heard": not has_copied(pool)}
    PoolHost.objects.get_or_create(pool=pool, host=host, defaults=defaults)
    PoolClaim.objects.filter(pool=pool, host=host).delete()


@transaction.atomic
def remove_host(pool: StoragePool, host: Host) -> None:
    """Remove a host from a pool, and end its holds on the pool's volumes.

    A host that still knows the pool's secret is admitted again at its next audit. Raises NotFoundError for a host that
    does not serve the pool, and ConflictError while it may have volumes of the pool open.
    """
    held = {row.volume_id for row in holds.by_host(host.id) if row.volume.pool_id == pool.id}
    for volume in state.lock(held).values():
        if volume.daemon_host_id != host.id:
            daemons.end_hold(volume, host.id)
    _check_closed(pool, host)
    removed, _ = PoolHost.objects.filter(pool=pool, host=host).delete()
    if not removed:
        raise NotFoundError(f"Host {host.name} does not serve the pool.")


def _check_closed(pool: StoragePool, host: Host) -> None:
    if not host.forced_down and Volume.objects.filter(pool=pool, daemon_host=host).exists():
        raise ConflictError(f"Host {host.name} has volumes of the pool open.")


@transaction.atomic
def forget_pool(pool: StoragePool) -> None:
    """Delete the record of an empty pool that no host serves. It is created again if a host reports the pool.

    Raises ConflictError if the pool has volumes or a host serves it.
    """
    if Volume.objects.filter(pool=pool).exists():
        raise ConflictError("It has volumes.")
    if PoolHost.objects.filter(pool=pool, serving=True).exists():
        raise ConflictError("A host serves it.")
    deleted_data.forget(pool)
    pool.delete()
