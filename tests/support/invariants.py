"""What holds between transactions: usage = reservations = instances, allocations = counters, addresses = ports."""

from __future__ import annotations

import uuid
from collections import Counter

from django.utils import timezone

from compute_agent.contract.commands import SnapshotRequest
from compute_agent.contract.messages import decode_command_body
from provisioning.compute import host_commands
from provisioning.compute.actions.registry import action_of, commanded_tasks
from provisioning.compute.migration_records import UNDER_WAY, WAITING
from provisioning.compute.models import Allocation, Instance, InstanceAction, Migration
from provisioning.compute.selectors.hosts import state_of
from provisioning.compute.sizes import larger_room, quota_held
from provisioning.compute.states import TRANSITIONS, VmState
from provisioning.hosts.models import Host, HostCommand
from provisioning.images.models import Image
from provisioning.network.models import FixedIP, Port
from provisioning.quotas import drift
from provisioning.quotas.models import QuotaUsage, Reservation

GONE = (VmState.DELETED, VmState.ERROR)
AT_A_HOST = {"active", "stopped", "paused", "suspended", "rescued", "resized", "shelved"}
PLACED = {"networking", "block_device_mapping", "spawning"}
SIZES = ("instances", "cores", "ram")
OF_SERVERS = (*SIZES, "ports")
STATES = {move.source for move in TRANSITIONS} | {move.target for move in TRANSITIONS}


def check() -> None:
    """Fail with a sentence when anything does not add up."""
    instances = {row.id: row for row in Instance.objects.all()}
    _check_states(instances)
    _check_quota(instances)
    assert [str(found) for found in drift.find()] == []
    _check_room(instances)
    _check_ports(instances)
    _check_orders(instances)
    _check_images(instances)


def check_empty() -> None:
    """Nothing is held by anybody: every server is deleted, and every host has confirmed it."""
    check()
    assert not Instance.objects.exclude(vm_state=VmState.DELETED).exists()
    assert not Allocation.objects.exists()
    assert not Reservation.objects.filter(resource__in=OF_SERVERS).exists()
    assert not Port.objects.exclude(device_id=None).exists()
    assert not InstanceAction.objects.filter(finished_at=None).exists(), "an action of a deleted server is open"
    assert not Migration.objects.filter(status__in=[*UNDER_WAY, *WAITING]).exists(), "a deleted server is on its way"
    for row in QuotaUsage.objects.filter(resource__in=OF_SERVERS):
        assert (row.in_use, row.reserved) == (0, 0), f"{row} is left"
    for host in Host.objects.all():
        used = (host.vcpus_allocated, host.memory_mb_allocated, host.disk_gb_allocated, host.instances_allocated)
        assert used == (0, 0, 0, 0), f"{host} still counts {used}"


def _at_a_host(row: Instance) -> bool:
    return row.vm_state in AT_A_HOST or (row.vm_state in {"error", "soft-delete"} and row.host_id is not None)


def _comes_back(row: Instance) -> bool:
    """Say whether a host was found for a server that comes off its shelf."""
    return row.vm_state == VmState.SHELVED_OFFLOADED and row.host_id is not None


def _on_shelf(row: Instance) -> bool:
    """Say whether it has its ports and no host; one that an operator has put in error keeps its image and its ports."""
    return VmState.SHELVED_OFFLOADED in {row.vm_state, row.previous_vm_state} or row.snapshot_image_id is not None


def _check_states(instances: dict[uuid.UUID, Instance]) -> None:
    for row in instances.values():
        assert (row.vm_state, row.task_state) in STATES, f"{row.id} is in no state: {row.vm_state}/{row.task_state}"
        assert (row.task_state is None) == (row.task_deadline is None), (
            f"{row.id}: a task without deadline, or the reverse"
        )
        assert (row.vm_state == VmState.DELETED) == (row.deleted_at is not None), f"{row.id}: deleted_at is wrong"


def _check_quota(instances: dict[uuid.UUID, Instance]) -> None:
    held: dict[uuid.UUID, dict[str, int]] = {}
    for row in Reservation.objects.filter(resource__in=SIZES):
        held.setdefault(row.owner_id, {})[row.resource] = row.amount
        if row.owner_id in instances:
            building = instances[row.owner_id].vm_state == VmState.BUILDING
            assert row.committed != building, (
                f"{row.owner_id} is {instances[row.owner_id].vm_state}, committed: {row.committed}"
            )
    live = {
        row.id: quota_held(row.flavor, row.old_flavor) for row in instances.values() if row.vm_state != VmState.DELETED
    }
    assert held == live, f"reservations and servers differ: {held} and {live}"


def _check_room(instances: dict[uuid.UUID, Instance]) -> None:
    sums: dict[uuid.UUID, Counter[str]] = {}
    for row in Allocation.objects.all():
        instance = instances[row.instance_id]
        room = larger_room(instance.flavor, instance.old_flavor)
        assert (row.vcpus, row.memory_mb, row.disk_gb) == (room.vcpus, room.memory_mb, room.disk_gb)
        sums.setdefault(row.host_id, Counter()).update(
            vcpus=row.vcpus, memory=row.memory_mb, disk=row.disk_gb, instances=1
        )
        if instance.vm_state not in GONE and instance.host_id is not None:
            assert instance.host_id == row.host_id, f"{instance.id} holds room on another host than its own"
    for host in Host.objects.all():
        total = sums.get(host.id, Counter())
        counted = (host.vcpus_allocated, host.memory_mb_allocated, host.disk_gb_allocated, host.instances_allocated)
        assert counted == (total["vcpus"], total["memory"], total["disk"], total["instances"]), (
            f"{host}: {counted}, {total}"
        )
        state = state_of(host, timezone.now())
        assert host.vcpus_allocated <= state.vcpus_limit
        assert host.memory_mb_allocated <= state.memory_mb_limit
        assert host.disk_gb_allocated <= state.disk_gb_limit
    placed = {row.id for row in instances.values() if _at_a_host(row) or row.task_state in PLACED or _comes_back(row)}
    holding = set(Allocation.objects.values_list("instance_id", flat=True))
    lacking = [f"{row} ({instances[row].vm_state}/{instances[row].task_state})" for row in placed - holding]
    assert not lacking, f"servers without room: {lacking}"
    for instance_id in holding - placed:
        asked = HostCommand.objects.filter(subject_id=instance_id, kind="destroy_request")
        assert asked.exists(), f"{instance_id} holds room, and nobody was asked to give it back"


def _check_ports(instances: dict[uuid.UUID, Instance]) -> None:
    ports = Port.objects.exclude(device_id=None)
    count = Counter(port.device_id for port in ports)
    holding = set(Allocation.objects.values_list("instance_id", flat=True))
    for device_id in count:
        instance = instances[device_id]
        assert device_id in holding or instance.vm_state == VmState.BUILDING or _on_shelf(instance), (
            f"{device_id} has ports and no room"
        )
    for row in instances.values():
        if _at_a_host(row) or row.task_state in ("block_device_mapping", "spawning"):
            assert count[row.id] == len(row.requested_networks), f"{row.id} has {count[row.id]} ports"
    for port in Port.objects.all():
        assert port.fixed_ips.exists(), f"port {port.id} has no address"
    addresses = list(FixedIP.objects.values_list("subnet_id", "address"))
    assert len(addresses) == len(set(addresses))


def _check_orders(instances: dict[uuid.UUID, Instance]) -> None:
    """Each task that a host ends has one order, and no order of a task is left where there is none."""
    orders = host_commands.of_tasks(HostCommand.objects.filter(finished_at=None))
    awaited = Counter(
        order.subject_id
        for order in orders
        if order.subject_id in instances
        and (action := action_of(instances[order.subject_id])) is not None
        and order.generation == instances[order.subject_id].attempt
        and action.awaits(decode_command_body(order.body))
    )
    for row in instances.values():
        if row.task_state in commanded_tasks() and row.vm_state != VmState.SHELVED_OFFLOADED:
            assert awaited[row.id] == 1, f"{row.id} is {row.task_state} and waits for {awaited[row.id]} orders"
        if row.vm_state == VmState.RESIZED:
            assert row.old_flavor is not None, f"{row.id} is resized and forgot its other size"


def _check_images(instances: dict[uuid.UUID, Instance]) -> None:
    """An image that a host is to send belongs to an order, and a server on its shelf has its image."""
    wanted = set()
    for order in HostCommand.objects.filter(kind="snapshot_request", finished_at=None):
        body = decode_command_body(order.body)
        if isinstance(body, SnapshotRequest):
            wanted.add(body.image_id)
    halves = Image.objects.filter(status__in=[Image.Status.QUEUED, Image.Status.SAVING])
    for image in halves:
        if "instance_uuid" in image.properties:
            assert str(image.id) in wanted, f"image {image.id} of a server waits for nobody"
    kept = {row.snapshot_image_id: row for row in instances.values() if row.snapshot_image_id is not None}
    for image in Image.objects.filter(id__in=list(kept)):
        owner = kept[image.id]
        if owner.vm_state == VmState.DELETED:
            assert image.status == Image.Status.DELETED, f"{owner.id} is deleted, its shelf {image.id} is not"
