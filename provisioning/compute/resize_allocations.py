"""The room of a server that becomes larger or smaller on its host: raised by one conditional update, then lowered."""

from __future__ import annotations

import uuid

from django.db.models import F, Q, QuerySet

from provisioning.compute.models import Allocation
from provisioning.compute.selectors.capacity import disk_limit, memory_limit, vcpus_limit
from provisioning.compute.sizes import Room
from provisioning.hosts.models import Host


def raise_room(instance_id: uuid.UUID, wanted: Room) -> bool:
    """Raise what the instance holds on its host to at least ``wanted``, inside the caller's transaction.

    False when the host has not got the room, takes nothing more, or holds nothing for the instance; then nothing was
    written.  What the instance holds more of stays.
    """
    held = Allocation.objects.filter(instance_id=instance_id).first()
    if held is None:
        return False
    both = Room(max(held.vcpus, wanted.vcpus), max(held.memory_mb, wanted.memory_mb), max(held.disk_gb, wanted.disk_gb))
    more = _difference(both, held)
    if more == Room(0, 0, 0):
        return True
    fits = Host.objects.filter(_fits(more, both), id=held.host_id, enabled=True, forced_down=False)
    if not _move(fits, more):
        return False
    _write(held, both)
    return True


def lower_room(instance_id: uuid.UUID, wanted: Room) -> None:
    """Give back what the instance holds beyond ``wanted``, inside the caller's transaction; a repeat is harmless."""
    held = Allocation.objects.filter(instance_id=instance_id).first()
    if held is None:
        return
    less = Room(min(held.vcpus, wanted.vcpus), min(held.memory_mb, wanted.memory_mb), min(held.disk_gb, wanted.disk_gb))
    difference = _difference(less, held)
    if difference != Room(0, 0, 0):
        _move(Host.objects.filter(id=held.host_id), difference)
        _write(held, less)


def _fits(more: Room, wanted: Room) -> Q:
    """Return the condition that a host has so much more; what does not grow is not looked at."""
    fits = Q()
    if more.vcpus:
        fits &= Q(vcpus_total__gte=wanted.vcpus, vcpus_allocated__lte=vcpus_limit() - more.vcpus)
    if more.memory_mb:
        fits &= Q(memory_mb_allocated__lte=memory_limit() - more.memory_mb)
    if more.disk_gb:
        fits &= Q(disk_gb_allocated__lte=disk_limit() - more.disk_gb)
    return fits


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
