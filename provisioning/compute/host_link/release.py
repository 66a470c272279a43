"""Release of an instance's resources. Each step is idempotent, so that it can be repeated after a crash.

Allocation and addresses are released only if no command was sent to a host, or after the host has confirmed that
nothing is left. The quota is released as soon as the instance is deleted for its owner; the quota of ports and
addresses is released together with the ports.
"""

import uuid

from django.db.models import F, Q, UUIDField
from django.utils import timezone

from compute_agent.contract.commands import DestroyRequest
from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import ConflictError
from provisioning.compute.disks import block_devices
from provisioning.compute.disks.snapshot_images import remove_image
from provisioning.compute.flavors.sizes import quota_held
from provisioning.compute.host_link import firmware_states
from provisioning.compute.host_link.allocations import occupy, release_allocation
from provisioning.compute.models import Allocation, Instance, NewerGuest
from provisioning.compute.notifications import Note
from provisioning.compute.records import host_commands, instance_actions
from provisioning.compute.records.migration_records import close_migration
from provisioning.compute.selectors.root_pools import is_in_pool
from provisioning.compute.state_machine import state
from provisioning.compute.states import PowerState, TaskState, VmState
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive
from provisioning.network import selectors as network_selectors
from provisioning.network import services as network
from provisioning.quotas.services.ledger import commit, release
from provisioning.quotas.services.sizes import shrink

FORGOTTEN: dict[str, object] = {
    "user_data": None,
    "injected_files": [],
    "public_key": None,
    "metadata": {},
    "scheduler_hints": {},
    "requested_networks": [],
    "password": "",
}
"""Values of a deleted server's columns that held user data which may be secret or large."""
_WELL_WITHOUT_GUEST = ("attach_interface", "detach_interface", "attach_volume", "detach_volume")
"""Actions that end successfully when their guest is removed, because the records already contain the change."""
GUEST = "guest"
"""Key in the detail of an evacuation's first step: the attempt of the guest on the host that the server leaves."""
_BEFORE_HAND_OFF = {
    TaskState.SCHEDULING, TaskState.NETWORKING, TaskState.BLOCK_DEVICE_MAPPING, TaskState.EVACUATING
}  # fmt: skip


def host_holding(instance: Instance) -> Host | None:
    """Return the host that may have a guest or data of the instance; None if no command was sent to a host, or if the
    host has confirmed the removal.
    """
    allocation = _HELD.first(instance_id=instance.id)
    if allocation is None:
        return None
    if not_handed_over(instance) and allocation.attempt == instance.attempt:
        return None
    return allocation.host


_HELD = Prepared(
    lambda instance_id: Allocation.objects.select_related("host").filter(instance_id=instance_id),
    instance_id=UUIDField(),
)


def not_handed_over(instance: Instance) -> bool:
    """Whether an instance is being scheduled and no host has a command for it yet."""
    to_unshelve = instance.vm_state == VmState.SHELVED_OFFLOADED and instance.task_state == TaskState.UNSHELVING
    return instance.task_state in _BEFORE_HAND_OFF or to_unshelve


def keeps_ports(instance: Instance) -> bool:
    """Whether a server that leaves its host keeps its ports, addresses and volumes.

    True for a server that ran once and is not deleted, or that is offloaded.
    """
    ran = instance.launched_at is not None and instance.vm_state != VmState.DELETED
    return ran or instance.vm_state == VmState.SHELVED_OFFLOADED


def release_place(instance_id: uuid.UUID, *, keep_quota: bool = False) -> None:
    """Release the allocation and the addresses. Idempotent.

    ``keep_quota``: the server is built on another host, so the quota of its ports stays reserved. The network is
    released first, because the lock order is quota before hosts.
    """
    network.release(instance_id, keep_quota=keep_quota)
    release_allocation(instance_id)


def leave_host(instance: Instance) -> None:
    """Release the allocation only; the server keeps its ports, addresses and volumes, except those that were being
    detached.

    Idempotent.
    """
    block_devices.disconnect(instance.id)
    for port in network_selectors.interfaces_of(instance.id):
        if port.leaving:
            remove_interface(instance, port.id)
    network.bind_ports(instance.id, "")
    network.set_ports_status(instance.id, "DOWN")
    release_allocation(instance.id)


def return_home(instance: Instance) -> None:
    """Bind a server whose evacuation has failed to its own host again, which may be down, and which keeps its guest."""
    host = instance.host
    if host is None:
        return
    occupy(instance, host.id)
    network.bind_ports(instance.id, host.name)
    spare_guest(instance, host)


def spare_guest(instance: Instance, host: Host) -> None:
    """Let the host of a server whose evacuation has failed keep the guest and its disks, unless it may have begun to
    remove them.
    """
    guest = instance_actions.newest_detail(instance.id, "evacuate").get(GUEST, "")
    if guest.isdecimal() and host_commands.spare(host, instance.id, int(guest)):
        state.update(instance, {"guest_attempt": int(guest)})


def is_cut_off(instance: Instance, host: Host) -> bool:
    """Whether a host that has not confirmed the removal of a server cannot write to its volumes or to its root disk in
    a pool: it is forced down, or it is down and the server has neither.
    """
    if host.forced_down or is_alive(host, timezone.now()):
        return host.forced_down
    return not has_shared_disks(instance, host)


def has_shared_disks(instance: Instance, host: Host | None = None) -> bool:
    """Whether a server has volumes, or a root disk in a pool, which another host could acquire. ``host``: as in
    ``is_in_pool``.
    """
    return is_in_pool(instance, host) or bool(block_devices.volumes_of(instance.id))


def remove_interface(instance: Instance, port_id: uuid.UUID | str) -> None:
    """Remove an interface from the records; a port that was created for it is deleted, with its address and quota."""
    place = network.remove_interface(instance.id, port_id)
    if place is not None:
        interfaces = list(instance.requested_networks)
        del interfaces[place : place + 1]
        write_interfaces(instance, interfaces)


def write_interfaces(instance: Instance, interfaces: list[dict[str, object]]) -> None:
    """Update ``requested_networks`` after a change of interfaces, which notifies the project's pages."""
    if not state.update(instance, {"requested_networks": interfaces}):
        raise ConflictError("The server is changing too quickly; try again.")


def finish_offload(instance: Instance) -> Instance | None:
    """End the offloading of a shelved server, after its host has confirmed the removal.

    Data kept for an interrupted resize is deleted as well. Returns None when the server is not being offloaded.
    """
    changes = {"host": None, "power_state": int(PowerState.NOSTATE), "old_flavor": None, "resized_at": None}
    gone = state.advance(instance, "offloaded", attempt=instance.attempt, changes=changes)
    if gone is None:
        return None
    shrink(gone.id, quota_held(gone.flavor))
    leave_host(gone)
    close_migration(gone.id)
    instance_actions.finish_all(
        gone.id, "shelveOffload", *_WELL_WITHOUT_GUEST, message="The server was offloaded from its host."
    )
    return gone


def finish_delete(instance: Instance, holder: Host | None) -> Instance | None:
    """End a delete for the owner: ``deleting`` → ``deleted``, quota released, actions closed.

    The caller has locked the instance. ``holder``: the host that may have data of the server, for whose report the
    release of the allocation waits; None: no host has any, so the allocation is released too. Returns None when the
    server is not being deleted.
    """
    now = timezone.now()
    devices = block_devices.devices_of(instance.id)
    volumes = [device for device in devices if device.is_volume]
    state.lock_volumes_among(volumes)
    gone = state.advance(
        instance,
        "deleted",
        attempt=instance.attempt,
        changes={
            "deleted_at": now,
            "terminated_at": now,
            "power_state": int(PowerState.NOSTATE),
            "admin_password": "",
        },
        forgotten=FORGOTTEN,
        note=Note(devices=volumes),
    )
    if gone is None:
        return None
    network.release_floating_ips(gone.id)
    if holder is None:
        release(gone.id)
        block_devices.release_all(gone.id, devices)
        release_place(gone.id, keep_quota=True)  # the quota is already released
    else:
        if devices and holder.forced_down:  # it no longer writes to volumes
            block_devices.release_all(gone.id, devices)
        release(gone.id, keep=network.OF_PORTS)
        commit(gone.id)
    firmware_states.discard(gone)
    if gone.snapshot_image_id is not None:
        remove_image(gone.snapshot_image_id)
    instance_actions.finish_all(gone.id, "delete", message="The server was deleted.")
    return gone


def release_volumes_of_dead(host_id: uuid.UUID) -> None:
    """Release the volumes of deleted servers that waited for the report of a host which is now forced down."""
    waiting = Allocation.objects.filter(host_id=host_id, instance__vm_state=VmState.DELETED)
    waiting = waiting.filter(instance__block_devices__isnull=False)
    ids = sorted(set(waiting.values_list("instance_id", flat=True)))
    state.lock(ids)
    for instance_id in ids:
        block_devices.release_all(instance_id)


def return_from_dead(host_id: uuid.UUID) -> None:
    """Return the servers whose evacuation to this host has failed to their own hosts. This host is now forced down, so
    its confirmation is no longer awaited.
    """
    rows = Instance.objects.filter(_WAITS_FOR_OTHER, allocation__host_id=host_id).order_by("id")
    state.lock(rows.values_list("id", flat=True))
    for instance in rows.select_related("host"):
        leave_host(instance)
        return_home(instance)


_WAITS_FOR_OTHER = (
    Q(task_state=None, host__isnull=False) & ~Q(vm_state=VmState.DELETED) & ~Q(host=F("allocation__host"))
)
"""Servers whose allocation is on another host than theirs, because that host has not confirmed their removal."""


def send_destroy(
    instance_id: uuid.UUID, host_id: uuid.UUID, attempt: int, *, decided: bool = False, keep_root: bool = True
) -> None:
    """Send a host the command to remove everything it has of an instance; the command has no deadline.

    It replaces earlier destroy commands. A guest that is newer than its record is not destroyed until an operator has
    decided about it (``newer_guests``). ``decided``: the caller deletes the server, and has read that no guest is
    undecided. ``keep_root``: a root disk in a pool is kept unless the server is deleted, is offloaded, or was never
    built.
    """
    if not decided and _UNDECIDED(instance_id=instance_id, host_id=host_id):
        return
    keep_root = keep_root and not decided and bool(_WITH_ROOT(instance_id=instance_id))
    host_commands.withdraw_destroys(host_id, instance_id, attempt)
    host_commands.send(host_id, instance_id, attempt, DestroyRequest(keep_root=keep_root), None)


_WITH_ROOT = Prepared(
    lambda instance_id: (
        Instance.objects.filter(id=instance_id, launched_at__isnull=False)
        .exclude(vm_state__in=[VmState.DELETED, VmState.SHELVED_OFFLOADED])
        .exclude(task_state__in=[TaskState.DELETING, TaskState.SHELVING_OFFLOADING])
        .values_list("id", flat=True)
    ),
    instance_id=UUIDField(),
)
"""Finds a server that has a root disk, on one host or another."""


_UNDECIDED = Prepared(
    lambda instance_id, host_id: NewerGuest.objects.filter(
        instance_id=instance_id, host_id=host_id, outcome=NewerGuest.Outcome.OPEN
    ).values_list("id", flat=True),
    instance_id=UUIDField(),
    host_id=UUIDField(),
)
