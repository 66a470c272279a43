"""Allocations of host resources, claimed and released by conditional updates, so that a host is never overcommitted."""

from __future__ import annotations

import math
import uuid
from collections.abc import Iterable
from functools import cache
from typing import Any

from django.conf import settings
from django.db.models import BigIntegerField, CharField, F, Field, Q, QuerySet, UUIDField, Value

from provisioning.common.database.prepared import Prepared, PreparedDeleteReturning, PreparedInsert, PreparedUpdate
from provisioning.compute.flavors.sizes import Room, room_of
from provisioning.compute.models import Allocation, Instance, Migration, MoveAllocation, ServerGroup
from provisioning.compute.selectors.hosts import disk_limit, memory_limit, vcpus_limit
from provisioning.compute.selectors.server_groups import group_of
from provisioning.hosts.models import Host
from provisioning.scheduler import GroupSpec, group_allows, options_of
from provisioning.scheduler.resources import NumInstancesFilter

_HARD = (ServerGroup.Policy.AFFINITY, ServerGroup.Policy.ANTI_AFFINITY)


def claim_room(room: Room, host_id: uuid.UUID, zone: str = "") -> bool:
    """Claim resources of a host, inside the caller's transaction.

    Returns False when the host no longer has them free, has reached its limit of servers, or is not in ``zone`` (empty:
    any).
    """
    filters = {"zone": zone} if zone else {}
    take = _claim(_most_servers(), of_zone=bool(zone))
    return bool(take(host_id=host_id, vcpus=room.vcpus, memory_mb=room.memory_mb, disk_gb=room.disk_gb, **filters))


@cache
def _claim(most: float | None, *, of_zone: bool) -> PreparedUpdate:
    """Return the prepared claim. ``most``: see ``_most_servers``."""

    def claim(
        host_id: Value, vcpus: Value, memory_mb: Value, disk_gb: Value, zone: Value | None = None
    ) -> tuple[QuerySet[Host], dict[str, Any]]:
        fits = Host.objects.filter(
            _may_have_more(most),
            id=host_id,
            enabled=True,
            forced_down=False,
            vcpus_total__gte=vcpus,
            vcpus_allocated__lte=vcpus_limit() - vcpus,
            memory_mb_allocated__lte=memory_limit() - memory_mb,
            disk_gb_allocated__lte=disk_limit() - disk_gb,
        )
        return fits if zone is None else fits.filter(availability_zone=zone), {
            "vcpus_allocated": F("vcpus_allocated") + vcpus,
            "memory_mb_allocated": F("memory_mb_allocated") + memory_mb,
            "disk_gb_allocated": F("disk_gb_allocated") + disk_gb,
            "instances_allocated": F("instances_allocated") + 1,
        }

    parameters: dict[str, Field[Any, Any]] = {"host_id": UUIDField()}
    parameters |= {name: BigIntegerField() for name in ("vcpus", "memory_mb", "disk_gb")}
    return PreparedUpdate(claim, **parameters, **({"zone": CharField()} if of_zone else {}))


def _most_servers() -> float | None:
    """Return the default limit of servers on a host, for hosts whose aggregates set no limit. None means that servers
    are not counted.
    """
    options = options_of(settings)
    judges = [judge for judge in options.driver.filters(options) if isinstance(judge, NumInstancesFilter)]
    return min(judge.most for judge in judges) if judges else None


def _may_have_more(most: float | None) -> Q:
    """Return the condition that a host has fewer servers than the limit of its aggregates, or the default limit."""
    if most is None:
        return Q()
    by_aggregates = Q(aggregate_max_instances__isnull=False, instances_allocated__lt=F("aggregate_max_instances"))
    by_settings = Q() if math.isinf(most) else Q(instances_allocated__lt=int(most))
    return by_aggregates | (Q(aggregate_max_instances=None) & by_settings)


def claim_first(room: Room, host_ids: Iterable[uuid.UUID], instance: Instance) -> tuple[uuid.UUID | None, int]:
    """Claim resources on the first of these hosts that has them free, if the instance's server group allows the host.

    Call it inside a transaction, after ``state.lock``. The server group stays locked until the transaction ends, so
    that the members of an affinity or anti-affinity group are placed one after the other. Returns the host, or None,
    and the number of hosts that were tried.
    """
    group, zone, tried = lock_group(instance), instance.availability_zone, 0
    for host_id in host_ids:
        tried += 1
        if (group is None or group_allows(group, host_id)) and claim_room(room, host_id, zone):
            return host_id, tried
    return None, tried


def lock_group(instance: Instance) -> GroupSpec | None:
    """Lock the instance's server group until the caller's transaction ends, and return its current state.

    None for an instance without a group, or with one whose policy is soft.
    """
    if instance.server_group_id is None:
        return None
    rows = ServerGroup.objects.filter(id=instance.server_group_id, policy__in=_HARD)
    if not rows.select_for_update(no_key=True).values_list("id"):
        return None
    return group_of(instance)


def record_allocation(instance: Instance, host_id: uuid.UUID) -> None:
    """Record the allocation of claimed resources, in the transaction of the claim and after the state transition."""
    room = room_of(instance.flavor)
    allocation = Allocation(
        instance=instance,
        host_id=host_id,
        attempt=instance.attempt,
        vcpus=room.vcpus,
        memory_mb=room.memory_mb,
        disk_gb=room.disk_gb,
    )
    _HOLD([allocation])


_HOLD = PreparedInsert(Allocation)


def occupy(instance: Instance, host_id: uuid.UUID) -> None:
    """Allocate the resources of a guest that is already on a host, even beyond its limits, and release the previous
    allocation.
    """
    release_allocation(instance.id)
    record_allocation(instance, host_id)
    room = room_of(instance.flavor)
    _move(Host.objects.filter(id=host_id), room)
    Host.objects.filter(id=host_id).update(instances_allocated=F("instances_allocated") + 1)


def release_allocation(instance_id: uuid.UUID) -> bool:
    """Release the instance's allocation, inside the caller's transaction. Idempotent; returns whether there was one."""
    for host_id, vcpus, memory_mb, disk_gb in (released := _DELETE(instance_id=instance_id)):
        _GIVE_BACK(host_id=host_id, vcpus=vcpus, memory_mb=memory_mb, disk_gb=disk_gb)
    return bool(released)


_DELETE = PreparedDeleteReturning(
    lambda instance_id: Allocation.objects.filter(instance_id=instance_id).values_list(
        "host_id", "vcpus", "memory_mb", "disk_gb"
    ),
    instance_id=UUIDField(),
)
_GIVE_BACK = PreparedUpdate(
    lambda host_id, vcpus, memory_mb, disk_gb: (
        Host.objects.filter(id=host_id),
        {
            "vcpus_allocated": F("vcpus_allocated") - vcpus,
            "memory_mb_allocated": F("memory_mb_allocated") - memory_mb,
            "disk_gb_allocated": F("disk_gb_allocated") - disk_gb,
            "instances_allocated": F("instances_allocated") - 1,
        },
    ),
    host_id=UUIDField(),
    **{name: BigIntegerField() for name in ("vcpus", "memory_mb", "disk_gb")},
)


# ----- the second host of a move ------------------------------------------------------------------------------------


def record_second(instance: Instance, migration: Migration, host_id: uuid.UUID, room: Room) -> None:
    """Record the resources that ``claim_first`` or ``claim_room`` has claimed on the second host of a move, in the
    transaction of the claim. An instance has at most one second host.
    """
    MoveAllocation.objects.create(
        instance=instance,
        migration=migration,
        host_id=host_id,
        attempt=instance.attempt,
        vcpus=room.vcpus,
        memory_mb=room.memory_mb,
        disk_gb=room.disk_gb,
    )


def second_of(instance_id: uuid.UUID) -> MoveAllocation | None:
    """Return the instance's allocation on the second host of its move, with host and migration; None without a move."""
    return _SECOND.first(instance_id=instance_id)


_SECOND = Prepared(
    lambda instance_id: MoveAllocation.objects.select_related("host", "migration").filter(instance_id=instance_id),
    instance_id=UUIDField(),
)


def exchange(instance: Instance, guest_attempt: int | None) -> None:
    """Exchange the first and the second allocation of an instance that moves to the second host. Call it in the
    transaction that changes the instance's host, after the state transition.

    The counters of hosts do not change. The first allocation gets the instance's new attempt, and the second
    allocation gets the attempt of the previous host. ``guest_attempt``: the attempt of the guest there, if it is a
    different one.
    """
    first, second = Allocation.objects.get(instance=instance), MoveAllocation.objects.get(instance=instance)
    one, other = ({name: getattr(row, name) for name in _EXCHANGED} for row in (first, second))
    Allocation.objects.filter(pk=first.pk).update(**other, attempt=instance.attempt)
    MoveAllocation.objects.filter(pk=second.pk).update(**one, attempt=first.attempt, guest_attempt=guest_attempt)


_EXCHANGED = ("host_id", "vcpus", "memory_mb", "disk_gb")


def release_second(instance_id: uuid.UUID) -> bool:
    """Release the allocation on the second host, inside the caller's transaction. Idempotent; returns whether there was
    one.

    Call it when that host has no data of the instance: it never got a command, or has confirmed the removal.
    """
    row = MoveAllocation.objects.filter(instance_id=instance_id).first()
    if row is None or not MoveAllocation.objects.filter(pk=row.pk).delete()[0]:
        return False
    _GIVE_BACK(host_id=row.host_id, vcpus=row.vcpus, memory_mb=row.memory_mb, disk_gb=row.disk_gb)
    return True


# ----- resize on the same host ---------------------------------------------------------------------------------------


def raise_room(instance_id: uuid.UUID, requested: Room) -> bool:
    """Raise the instance's allocation to at least ``requested``, inside the caller's transaction; nothing is lowered.

    Returns False, with nothing written, when the host lacks the resources, is disabled, or has no allocation of the
    instance.
    """
    held = Allocation.objects.filter(instance_id=instance_id).first()
    if held is None:
        return False
    both = Room(
        max(held.vcpus, requested.vcpus), max(held.memory_mb, requested.memory_mb), max(held.disk_gb, requested.disk_gb)
    )
    more = _difference(both, held)
    if more == Room(0, 0, 0):
        return True
    fits = Host.objects.filter(_fits(more, both), id=held.host_id, enabled=True, forced_down=False)
    if not _move(fits, more):
        return False
    _write(held, both)
    return True


def lower_room(instance_id: uuid.UUID, requested: Room) -> None:
    """Lower the instance's allocation to at most ``requested``, inside the caller's transaction. Idempotent."""
    held = Allocation.objects.filter(instance_id=instance_id).first()
    if held is None:
        return
    less = Room(
        min(held.vcpus, requested.vcpus), min(held.memory_mb, requested.memory_mb), min(held.disk_gb, requested.disk_gb)
    )
    difference = _difference(less, held)
    if difference != Room(0, 0, 0):
        _move(Host.objects.filter(id=held.host_id), difference)
        _write(held, less)


def _fits(more: Room, requested: Room) -> Q:
    """Return the condition that a host has the additional resources; resources that do not grow are ignored."""
    fits = Q()
    if more.vcpus:
        fits &= Q(vcpus_total__gte=requested.vcpus, vcpus_allocated__lte=vcpus_limit() - more.vcpus)
    if more.memory_mb:
        fits &= Q(memory_mb_allocated__lte=memory_limit() - more.memory_mb)
    if more.disk_gb:
        fits &= Q(disk_gb_allocated__lte=disk_limit() - more.disk_gb)
    return fits


def raise_attempt(instance_id: uuid.UUID, before: int, after: int) -> None:
    """Update the attempt in the allocation of a server that stays on its host."""
    Allocation.objects.filter(instance_id=instance_id, attempt=before).update(attempt=after)


def _difference(after: Room, before: Allocation) -> Room:
    return Room(after.vcpus - before.vcpus, after.memory_mb - before.memory_mb, after.disk_gb - before.disk_gb)


def _move(hosts: QuerySet[Host], difference: Room) -> bool:
    return bool(
        hosts.update(
            vcpus_allocated=F("vcpus_allocated") + difference.vcpus,
            memory_mb_allocated=F("memory_mb_allocated") + difference.memory_mb,
            disk_gb_allocated=F("disk_gb_allocated") + difference.disk_gb,
        )
    )


def _write(held: Allocation, room: Room) -> None:
    Allocation.objects.filter(id=held.id).update(vcpus=room.vcpus, memory_mb=room.memory_mb, disk_gb=room.disk_gb)
