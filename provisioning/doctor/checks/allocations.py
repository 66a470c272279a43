"""Resources of hosts: the counters of each host, and the allocations of servers."""

import operator
import uuid
from collections.abc import Collection, Iterator
from datetime import timedelta
from typing import Any

from django.db.models import Count, Exists, F, OuterRef, Q, QuerySet, Subquery, Sum
from django.db.models.functions import Coalesce
from django.utils import timezone

from provisioning.common.database.prepared import Prepared
from provisioning.compute.flavors.sizes import Room, larger_room, room_of
from provisioning.compute.host_link.release import leave_host, return_home, send_destroy
from provisioning.compute.models import Allocation, Instance, MoveAllocation
from provisioning.compute.moves import returning
from provisioning.compute.records.host_commands import destroys_awaited, to_destroy
from provisioning.compute.selectors.hosts import state_of
from provisioning.compute.states import TaskState, VmState
from provisioning.doctor.finding import Finding, Repair, check, number
from provisioning.doctor.repairs import alone, moment_of, named, of_instance
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import alive, is_alive

PATIENCE = timedelta(minutes=5)
"""Age at which the last request to a host to remove a server counts as lost; the reaper repeats requests every
minute.
"""
AT_A_HOST = (
    VmState.ACTIVE, VmState.STOPPED, VmState.PAUSED, VmState.SUSPENDED, VmState.RESCUED, VmState.RESIZED,
    VmState.SHELVED,
)  # fmt: skip
_PLACED = (TaskState.NETWORKING, TaskState.BLOCK_DEVICE_MAPPING, TaskState.SPAWNING)
_LEAVING = Q(task_state=TaskState.EVACUATING, host=None)
PLACED = Q(vm_state__in=AT_A_HOST) & ~_LEAVING | Q(vm_state=VmState.BUILDING, task_state__in=_PLACED)
"""Servers that must be on a host."""
STILL_PLACED = Q(vm_state__in=[VmState.ERROR, VmState.SOFT_DELETED, VmState.SHELVED_OFFLOADED], host__isnull=False)
"""Servers that are on a host although most servers in their state are not."""

Counts = tuple[int, int, int, int]
_OVER = Q(instance__vm_state=VmState.DELETED) | Q(
    instance__vm_state__in=[VmState.BUILDING, VmState.ERROR, VmState.SHELVED_OFFLOADED], instance__host=None
)
OVER = Prepared(lambda: Allocation.objects.filter(_OVER).values_list("id")[:1])
"""Finds an allocation of a deleted or moved server."""
_OF_SERVER = ("vm_state", "task_state", "version", "attempt", "host_id", "flavor", "old_flavor")
_NEEDED = (
    "instance_id", "host_id", "attempt", "vcpus", "memory_mb", "disk_gb",
    *(f"instance__{name}" for name in _OF_SERVER),
)  # fmt: skip
"""Columns that decide whether a server's allocation is correct."""


# ----- counters -------------------------------------------------------------------------------------------------------


@check("host_counters")
def host_counters() -> Iterator[Finding]:
    """Find hosts whose counters differ from the sums of their allocations. One query reads the counters and the
    allocations.
    """
    for host, counted, held in _differing():
        sentence = f"It counts {_text(counted)}; its allocations add up to {_text(held)}."
        evidence = (counted, held)
        yield Finding("error", f"host {host.name}", sentence, "Count again.", _count(host.id), evidence)


_SIZES = ("vcpus", "memory_mb", "disk_gb")


def _summed() -> QuerySet[Host]:
    first, second = (
        model.objects.filter(host=OuterRef("pk")).order_by().values("host") for model in (Allocation, MoveAllocation)
    )
    sums = {name: _one(first.annotate(found=Sum(name))) + _one(second.annotate(found=Sum(name))) for name in _SIZES}
    many = _one(first.annotate(found=Count("pk"))) + _one(second.annotate(found=Count("pk")))
    return Host.objects.annotate(**sums, many=many).order_by("name")


def _one(rows: QuerySet[Any, Any]) -> Coalesce:
    """Return the column ``found`` of the only row; 0 without a row."""
    return Coalesce(Subquery(rows.values("found")), 0)


SUMMED = Prepared(_summed)


def _differing(host_id: uuid.UUID | None = None) -> Iterator[tuple[Host, Counts, Counts]]:
    for host in SUMMED() if host_id is None else _summed().filter(id=host_id):
        counted = (host.vcpus_allocated, host.memory_mb_allocated, host.disk_gb_allocated, host.instances_allocated)
        held: Counts = operator.attrgetter(*_SIZES, "many")(host)
        if counted != held:
            yield host, counted, held


def _count(host_id: uuid.UUID) -> Repair:
    """Return a repair that sets a host's counters to the sums of its allocations, while no other process changes the
    counters.

    A claim locks the host before it creates the allocation, and a release deletes the allocation before it updates the
    counters.
    """

    def work() -> str | None:
        list(Host.objects.select_for_update(no_key=True).filter(id=host_id).values_list("id"))
        for _, _, (vcpus, memory, disk, many) in _differing(host_id):
            Host.objects.filter(id=host_id).update(
                vcpus_allocated=vcpus, memory_mb_allocated=memory, disk_gb_allocated=disk, instances_allocated=many
            )
            return f"It now counts {_text((vcpus, memory, disk, many))}."
        return None

    return alone(work)


USED = Prepared(lambda: Host.objects.exclude(instances_allocated=0).order_by("name"))


@check("full_hosts")
def full_hosts() -> Iterator[Finding]:
    """Find hosts with more allocated than their sizes and allocation ratios allow."""
    now = timezone.now()
    for host in USED():
        may = state_of(host, now)
        for taken, limit, unit in (
            (may.vcpus_allocated, may.vcpus_limit, "vCPUs"),
            (may.memory_mb_allocated, may.memory_mb_limit, "MiB of memory"),
            (may.disk_gb_allocated, may.disk_gb_limit, "GiB of disk"),
        ):
            if taken > limit:
                sentence = f"Its servers have {taken} {unit}, and the limit is {limit}: it gets no more servers."
                yield Finding("warning", f"host {host.name}", sentence)


def _text(counts: Counts) -> str:
    vcpus, memory, disk, many = counts
    return f"{number(many, 'server')} with {number(vcpus, 'vCPU')}, {memory} MiB and {disk} GiB"


# ----- allocations ----------------------------------------------------------------------------------------------------


HELD = Prepared(
    lambda: Allocation.objects.select_related("instance", "host").only(*_NEEDED, "host__name").order_by("id")
)


@check("allocations")
def allocations() -> Iterator[Finding]:
    """Find unneeded allocations that no host is asked to remove, and allocations with a wrong size or host."""
    for row in _forgotten() if OVER() else ():
        host = row.host
        sentence = f"It is {row.instance.vm_state} with an allocation on {host.name}, which is not asked to remove it."
        yield Finding("error", named(row.instance), sentence, "Ask the host.", _ask(row), (row.pk, row.attempt))
    moving = _moving()
    for row in HELD():
        instance = row.instance
        if instance.vm_state != VmState.DELETED and instance.host_id not in (None, row.host_id):
            yield from _elsewhere(row)
        room = _room_of(instance, moving)
        if (row.vcpus, row.memory_mb, row.disk_gb) != (room.vcpus, room.memory_mb, room.disk_gb):
            sentence = (
                f"It has {row.vcpus} vCPUs, {row.memory_mb} MiB and {row.disk_gb} GiB on host {row.host.name}; its"
                f" flavor specifies {room.vcpus}, {room.memory_mb} and {room.disk_gb}."
            )
            yield Finding("error", named(instance), sentence, "Correct it.", _resize(row), moment_of(instance))


def _elsewhere(row: Allocation) -> Iterator[Finding]:
    """Return the finding about a server on another host than its allocation. About a server in ERROR: only if its
    evacuation has failed, and the other host was forced down later, so that no command to it frees the allocation.
    """
    broken = row.instance.vm_state == VmState.ERROR
    if broken and not row.host.forced_down:
        return
    if returning.has_failed(row.instance):
        yield from _of_evacuation(row)
    elif not broken:
        sentence = f"It is on another host than {row.host.name}, where it has an allocation. Check where its guest is."
        yield Finding("error", named(row.instance), sentence, evidence=(row.host_id, moment_of(row.instance)))


def _of_evacuation(row: Allocation) -> Iterator[Finding]:
    """Return the finding about a server whose evacuation to another host has failed, and whose allocation is still on
    that host; none during a task of the server, and while the host is up and has the command to remove it.
    """
    if row.instance.task_state is not None:
        return
    subject, evidence = named(row.instance), (row.host_id, moment_of(row.instance))
    sentence = f"Its evacuation to host {row.host.name} has failed, and that host has not confirmed the removal."
    if row.host.forced_down:
        yield Finding("error", subject, sentence, "Return it: the host is forced down.", _return(row), evidence)
    elif destroys_awaited().filter(subject_id=row.instance_id, host_id=row.host_id).exists():
        if not is_alive(row.host, timezone.now()):
            advice = "The host is down: force it down if it is powered off or isolated."
            yield Finding("warning", subject, f"{sentence} {advice}", evidence=evidence)
    else:
        yield Finding("error", subject, sentence, "Ask the host.", _return(row), evidence)


def _return(allocation: Allocation) -> Repair:
    def work(instance: Instance) -> str | None:
        row = Allocation.objects.select_related("host").filter(pk=allocation.pk).first()
        if row is None or moment_of(instance) != moment_of(allocation.instance) or row.host_id != allocation.host_id:
            return None
        if row.host.forced_down:
            leave_host(instance)
            return_home(instance)
            return "It is on its own host again."
        send_destroy(instance.id, row.host_id, max(instance.attempt, row.attempt + 1))
        return f"A removal command was sent to host {row.host.name}."

    return of_instance(allocation.instance_id, work)


def _moving() -> set[uuid.UUID]:
    """Return the servers with a second allocation, for the other flavor of their move."""
    return set(MoveAllocation.objects.values_list("instance_id", flat=True))


def _room_of(instance: Instance, moving: Collection[uuid.UUID]) -> Room:
    """Return the correct size of an allocation: of its flavor during a move, otherwise the larger of both flavors of a
    resize.
    """
    return room_of(instance.flavor) if instance.id in moving else larger_room(instance.flavor, instance.old_flavor)


def _forgotten() -> QuerySet[Allocation]:
    """Return allocations of deleted or moved servers whose hosts were never asked to remove them, or were not asked
    recently although they are up.
    """
    now = timezone.now()
    records = to_destroy().filter(subject_id=OuterRef("instance_id"), host_id=OuterRef("host_id"))
    awaited = destroys_awaited().filter(subject_id=OuterRef("instance_id"), host_id=OuterRef("host_id"))
    neglected = alive(now, "host__") & ~Exists(records.filter(created_at__gte=now - PATIENCE)) & ~Exists(awaited)
    neglected &= Q(instance__task_state=None, instance__updated_at__lt=now - PATIENCE)
    rows = Allocation.objects.select_related("instance", "host").filter(_OVER, ~Exists(records) | neglected)
    return rows.order_by("id")


def _ask(allocation: Allocation) -> Repair:
    def work(instance: Instance) -> str | None:
        row = _forgotten().filter(pk=allocation.pk).first()
        if row is None:
            return None
        send_destroy(instance.id, row.host_id, max(instance.attempt, row.attempt + 1))
        return f"A removal command was sent to host {row.host.name}."

    return of_instance(allocation.instance_id, work)


def _resize(allocation: Allocation) -> Repair:
    def work(instance: Instance) -> str | None:
        row = Allocation.objects.filter(pk=allocation.pk).first()
        room = _room_of(instance, _moving())
        if row is None or moment_of(instance) != moment_of(allocation.instance):
            return None
        _raise(row.host_id, Room(room.vcpus - row.vcpus, room.memory_mb - row.memory_mb, room.disk_gb - row.disk_gb))
        row.vcpus, row.memory_mb, row.disk_gb = room.vcpus, room.memory_mb, room.disk_gb
        row.save(update_fields=["vcpus", "memory_mb", "disk_gb"])
        return "The allocation and the host's counters are corrected."

    return of_instance(allocation.instance_id, work)


def _roomless() -> QuerySet[Instance]:
    rows = Instance.objects.select_related("host").filter(PLACED | STILL_PLACED, host__isnull=False, allocation=None)
    return rows.order_by("id")


ROOMLESS = Prepared(_roomless)


@check("without_room")
def without_room() -> Iterator[Finding]:
    """Find servers that have a host but no allocation on it."""
    for row in ROOMLESS():
        host = row.host
        sentence = f"It is on host {host.name if host else '?'} without an allocation: others may claim its resources."
        yield Finding("error", named(row), sentence, "Create its allocation.", _hold(row), moment_of(row))


def _hold(instance: Instance) -> Repair:
    def work(row: Instance) -> str | None:
        if moment_of(row) != moment_of(instance) or row.host_id is None or not _roomless().filter(id=row.id).exists():
            return None
        room = _room_of(row, _moving())
        _raise(row.host_id, room, servers=1)
        Allocation.objects.create(
            instance=row, host_id=row.host_id, attempt=row.attempt, vcpus=room.vcpus, memory_mb=room.memory_mb,
            disk_gb=room.disk_gb,
        )  # fmt: skip
        return "Its allocation was created."

    return of_instance(instance.id, work)


def _raise(host_id: uuid.UUID, more: Room, *, servers: int = 0) -> None:
    """Add to the counters of a host (negative: subtract), even beyond the host's limits: the guest is already there."""
    Host.objects.filter(id=host_id).update(
        vcpus_allocated=F("vcpus_allocated") + more.vcpus,
        memory_mb_allocated=F("memory_mb_allocated") + more.memory_mb,
        disk_gb_allocated=F("disk_gb_allocated") + more.disk_gb,
        instances_allocated=F("instances_allocated") + servers,
    )
