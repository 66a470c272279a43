"""Giving back what an instance holds, each thing once, in any order of crashes and repeats.

What a host may still run stays accounted for: room and addresses are given back only when nothing was handed to a host,
or when the host has confirmed that nothing is left.  The quota belongs to the user and is given back as soon as the
instance is gone for them; that of its ports and addresses with the ports.
"""

import uuid

from django.db.models import UUIDField
from django.utils import timezone

from compute_agent.contract.commands import DestroyRequest
from provisioning.common.errors import ConflictError
from provisioning.common.prepared import Prepared
from provisioning.compute import block_devices, host_commands, instance_actions, state
from provisioning.compute.allocations import give_back
from provisioning.compute.migration_records import close_migration
from provisioning.compute.models import Allocation, Instance, NewerGuest
from provisioning.compute.sizes import quota_held
from provisioning.compute.snapshot_images import remove_image
from provisioning.compute.states import PowerState, TaskState, VmState
from provisioning.hosts.models import Host
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
"""What a deleted server keeps of what its owner gave it: nothing that may be secret, or large."""
_WELL_WITHOUT_GUEST = ("attach_interface", "detach_interface", "attach_volume", "detach_volume")
"""What a guest had not done yet when it went, and its records have."""
_BEFORE_HAND_OFF = {TaskState.SCHEDULING, TaskState.NETWORKING, TaskState.BLOCK_DEVICE_MAPPING}


def host_holding(instance: Instance) -> Host | None:
    """Return the host that may have something of the instance, None when no command for it ever left or the host has
    confirmed its end.
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
    """Whether an instance is on its way to a host, which has no command for it yet."""
    to_unshelve = instance.vm_state == VmState.SHELVED_OFFLOADED and instance.task_state == TaskState.UNSHELVING
    return instance.task_state in _BEFORE_HAND_OFF or to_unshelve


def keeps_ports(instance: Instance) -> bool:
    """Whether a server that leaves its host keeps ports, addresses and volumes: it ran once, and is not deleted.

    It waits on its shelf, or an operator has set it in error on the way there.
    """
    ran = instance.launched_at is not None and instance.vm_state != VmState.DELETED
    return ran or instance.vm_state == VmState.SHELVED_OFFLOADED


def release_place(instance_id: uuid.UUID, *, keep_quota: bool = False) -> None:
    """Give back the room on the host and the addresses; a repeat is harmless.

    ``keep_quota``: it is built elsewhere, so the ports it will have stay reserved.  The quota goes first: hosts are
    locked behind counters everywhere.
    """
    network.release(instance_id, keep_quota=keep_quota)
    give_back(instance_id)


def leave_host(instance: Instance) -> None:
    """Give back the room on the host alone: the server keeps its ports, addresses and volumes, but for those that were
    being taken out of its guest; a repeat is harmless.
    """
    block_devices.disconnect(instance.id)
    for port in network_selectors.interfaces_of(instance.id):
        if port.leaving:
            take_interface(instance, port.id)
    network.bind_ports(instance.id, "")
    network.set_ports_status(instance.id, "DOWN")
    give_back(instance.id)


def take_interface(instance: Instance, port_id: uuid.UUID | str) -> None:
    """Take an interface from the records: the port that was made for it goes, with its address and its quota."""
    place = network.remove_interface(instance.id, port_id)
    if place is not None:
        interfaces = list(instance.requested_networks)
        del interfaces[place : place + 1]
        write_interfaces(instance, interfaces)


def write_interfaces(instance: Instance, interfaces: list[dict[str, object]]) -> None:
    """Let ``requested_networks`` follow the interfaces, and tell the project's pages."""
    if not state.update(instance, {"requested_networks": interfaces}):
        raise ConflictError("The server is changing too quickly; try again.")


def finish_offload(instance: Instance) -> Instance | None:
    """End the removal of a shelved server from its host, which has confirmed that nothing is left there.

    What a resize that was cut off had kept is gone there, too.  Returns None when it is not being removed (any more).
    """
    changes = {"host": None, "power_state": int(PowerState.NOSTATE), "old_flavor": None, "resized_at": None}
    gone = state.advance(instance, "offloaded", attempt=instance.attempt, changes=changes)
    if gone is None:
        return None
    shrink(gone.id, quota_held(gone.flavor))
    leave_host(gone)
    close_migration(gone.id)
    for action in ("shelveOffload", *_WELL_WITHOUT_GUEST):
        instance_actions.finish(gone.id, action)
    instance_actions.finish(gone.id, message="The server was taken off its host.")
    return gone


def finish_delete(instance: Instance, *, confirmed: bool) -> Instance | None:
    """End a delete for the user: ``deleting`` → ``deleted``, quota given back, actions closed.

    ``confirmed``: no host has anything of it, so its place is given back too; else that waits for the host's word.
    Returns None when the instance is not being deleted (any more).
    """
    now = timezone.now()
    state.lock_volumes([instance.id])
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
    )
    if gone is None:
        return None
    network.release_floating_ips(gone.id)
    Instance.objects.filter(id=gone.id).update(**FORGOTTEN)  # only now: the notification of the delete has metadata
    if confirmed:
        release(gone.id)
        block_devices.give_back(gone.id)
        release_place(gone.id, keep_quota=True)  # there is none left
    else:
        if _said_to_be_dead(gone.id):
            block_devices.give_back(gone.id)
        release(gone.id, keep=network.OF_PORTS)
        commit(gone.id)
    if gone.snapshot_image_id is not None:
        remove_image(gone.snapshot_image_id)
    instance_actions.finish(gone.id, "delete")
    instance_actions.finish(gone.id, message="The server was deleted.")
    return gone


def _said_to_be_dead(instance_id: uuid.UUID) -> bool:
    """Whether an operator says that the host is down which holds room for a server: nobody there writes any more."""
    return Allocation.objects.filter(instance_id=instance_id, host__forced_down=True).exists()


def give_back_of_dead(host_id: uuid.UUID) -> None:
    """Give back the volumes of deleted servers that waited for the word of a host that is said to be down."""
    waiting = Allocation.objects.filter(host_id=host_id, instance__vm_state=VmState.DELETED)
    waiting = waiting.filter(instance__block_devices__isnull=False)
    ids = sorted(set(waiting.values_list("instance_id", flat=True)))
    state.lock(ids)
    for instance_id in ids:
        block_devices.give_back(instance_id)


def send_destroy(instance_id: uuid.UUID, host_id: uuid.UUID, attempt: int) -> None:
    """Order a host to remove whatever it has of an instance; the order waits for the host as long as it takes.

    It takes the place of what the host was ordered before.  A guest that is newer than its record stays until it is
    decided about (``newer_guests``).
    """
    if NewerGuest.objects.filter(instance_id=instance_id, host_id=host_id, outcome=NewerGuest.Outcome.OPEN).exists():
        return
    host_commands.withdraw_destroys(host_id, instance_id, attempt)
    host_commands.send(host_id, instance_id, attempt, DestroyRequest(), None)
