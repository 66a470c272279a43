"""Room on hosts: claimed and given back by conditional updates, so that no load can take more than there is."""

from __future__ import annotations

import uuid

from django.db.models import F

from provisioning.compute.models import Allocation, Host, Instance
from provisioning.compute.sizes import Room, room_of


def take_room(room: Room, host_id: uuid.UUID) -> bool:
    """Raise what a host has allocated, inside the caller's transaction; False when the room is taken by now."""
    fits = Host.objects.filter(
        id=host_id,
        enabled=True,
        vcpus_total__gte=room.vcpus,
        vcpus_allocated__lte=F("vcpus_total") * F("cpu_allocation_ratio") - room.vcpus,
        memory_mb_allocated__lte=(F("memory_mb_total") - F("reserved_memory_mb")) * F("ram_allocation_ratio")
        - room.memory_mb,
        disk_gb_allocated__lte=(F("disk_gb_total") - F("reserved_disk_gb")) * F("disk_allocation_ratio") - room.disk_gb,
    )
    return bool(
        fits.update(
            vcpus_allocated=F("vcpus_allocated") + room.vcpus,
            memory_mb_allocated=F("memory_mb_allocated") + room.memory_mb,
            disk_gb_allocated=F("disk_gb_allocated") + room.disk_gb,
            instances_allocated=F("instances_allocated") + 1,
        )
    )


def hold(instance: Instance, host_id: uuid.UUID) -> None:
    """Write down for whom the room was taken, in the same transaction, behind the move that only one can make."""
    room = room_of(instance.flavor)
    Allocation.objects.create(
        instance=instance,
        host_id=host_id,
        attempt=instance.attempt,
        vcpus=room.vcpus,
        memory_mb=room.memory_mb,
        disk_gb=room.disk_gb,
    )


def give_back(instance_id: uuid.UUID) -> bool:
    """Give back what the instance holds, inside the caller's transaction; a repeat is harmless.  Returns whether it
    held anything.
    """
    allocation = Allocation.objects.filter(instance_id=instance_id).first()
    if allocation is None:
        return False
    deleted, _ = Allocation.objects.filter(id=allocation.id).delete()
    if not deleted:
        return False
    room = Room(allocation.vcpus, allocation.memory_mb, allocation.disk_gb)
    Host.objects.filter(id=allocation.host_id).update(
        vcpus_allocated=F("vcpus_allocated") - room.vcpus,
        memory_mb_allocated=F("memory_mb_allocated") - room.memory_mb,
        disk_gb_allocated=F("disk_gb_allocated") - room.disk_gb,
        instances_allocated=F("instances_allocated") - 1,
    )
    return True
