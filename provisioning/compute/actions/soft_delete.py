"""Deleting with a way back: the guest is stopped and kept for RECLAIM_INSTANCE_INTERVAL seconds.

Such a server keeps its place, its addresses and its quota until it is reclaimed.
"""

from __future__ import annotations

import uuid
from datetime import datetime

from django.db import transaction
from django.utils import timezone

from compute_agent.contract.commands import PowerRequest
from provisioning.common.context import RequestContext
from provisioning.common.retry import when_broken_off
from provisioning.compute import host_commands, instance_actions, selectors, state
from provisioning.compute.actions.base import Deed, check_lock, order
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.models import Instance
from provisioning.compute.notifications import Note
from provisioning.compute.states import VmState
from provisioning.hosts.selectors import is_alive

CAN_COME_BACK = {
    VmState.ACTIVE,
    VmState.STOPPED,
    VmState.PAUSED,
    VmState.SUSPENDED,
    VmState.SHELVED,
    VmState.SHELVED_OFFLOADED,
    VmState.ERROR,
}
"""A server that is rescued, resized or was never built is deleted at once."""
_BACK = {
    VmState.SHELVED: "restored_shelved",
    VmState.SHELVED_OFFLOADED: "restored_offloaded",
    VmState.ERROR: "restored_error",
}


def soft_delete(context: RequestContext, instance: Instance, started: datetime) -> bool:
    """Begin to delete a server that can come back, inside the caller's transaction; False when it cannot, or has moved
    on, and nothing was written.  One that is kept already stays as it is: a client may ask twice.
    """
    if instance.vm_state == VmState.SOFT_DELETED and instance.task_state is None:
        return True
    if instance.vm_state not in CAN_COME_BACK or instance.task_state is not None or instance.launched_at is None:
        return False
    changes = {"previous_vm_state": instance.vm_state, "soft_deleted_at": started}
    running = instance.vm_state in {VmState.ACTIVE, VmState.PAUSED} and instance.host is not None
    if running and instance.host is not None and is_alive(instance.host, started):
        order(context, instance, Deed("delete", "soft_delete", lambda _: PowerRequest(action="stop"), changes), started)
        return True
    moves = ["soft_delete", "soft_deleted"]
    moved = state.walk(instance, moves, attempt=instance.attempt, changes=changes, note=Note(context))
    if moved is None:
        return False
    instance_actions.begin(context, moved.id, "delete", started)
    instance_actions.finish(moved.id, "delete")
    if running and moved.host is not None:
        host_commands.send(moved.host.id, moved.id, moved.attempt, PowerRequest(action="stop"), None)
    return True


@when_broken_off
def restore(context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
    """Take back a delete; a server that ran is started again.

    Raises NotFoundError, InstanceLockedError, InstanceBusyError when it was not deleted that way, UnavailableError when
    its host is down.
    """
    started = timezone.now()
    with transaction.atomic():
        instance = selectors.instance_for(context, instance_id)
        check_lock(context, instance)
        before = VmState(instance.previous_vm_state) if instance.previous_vm_state else VmState.STOPPED
        changes = {"previous_vm_state": "", "soft_deleted_at": None}
        if before == VmState.ACTIVE:
            return order(
                context, instance, Deed("restore", "restore", lambda _: PowerRequest(action="start"), changes), started
            )
        end = _BACK.get(before, "restored_stopped")
        was = instance.vm_state, instance.task_state
        moved = state.walk(instance, ["restore", end], attempt=instance.attempt, changes=changes, note=Note(context))
        if moved is None:
            raise InstanceBusyError("restore", instance.id, *was)
        instance_actions.begin(context, moved.id, "restore", started)
        instance_actions.finish(moved.id, "restore")
        return moved
