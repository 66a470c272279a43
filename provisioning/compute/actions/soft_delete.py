"""Soft deletion: a deleted server is stopped and can be restored for RECLAIM_INSTANCE_INTERVAL seconds.

It keeps its allocation, addresses and quota until it is reclaimed.
"""

from datetime import datetime

from compute_agent.contract.commands import CommandBody, PowerRequest
from provisioning.common.context import RequestContext
from provisioning.compute.actions.base import HostAction, Prepared
from provisioning.compute.actions.ways import Button
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.host_link.guest_agent import shutdown_seconds
from provisioning.compute.models import Instance
from provisioning.compute.notifications import Note
from provisioning.compute.records import host_commands, instance_actions
from provisioning.compute.state_machine import state
from provisioning.compute.states import AT_REST, TaskState, VmState
from provisioning.hosts.selectors import is_alive

_BACK = {
    VmState.SHELVED: "restored_shelved",
    VmState.SHELVED_OFFLOADED: "restored_offloaded",
    VmState.ERROR: "restored_error",
}


class SoftDelete(HostAction[None, PowerRequest]):
    """Stop a server and mark it as soft-deleted. Rescued, resized and never built servers cannot be soft-deleted."""

    key, record = "soft_delete", "delete"
    doing = "Deleting"
    from_states = (*AT_REST, VmState.SHELVED, VmState.SHELVED_OFFLOADED, VmState.ERROR)
    task, ends = TaskState.SOFT_DELETING, {"soft_deleted": VmState.SOFT_DELETED}
    timeout = "POWER_TIMEOUT"
    notification = "soft_delete"
    body = PowerRequest

    def start(self, context: RequestContext, instance: Instance, request: None, started: datetime) -> Instance:
        """Stop a running guest; a server that does not run, or whose host is down, is only marked."""
        running = instance.vm_state in {VmState.ACTIVE, VmState.PAUSED} and instance.host is not None
        prepared = Prepared({"previous_vm_state": instance.vm_state, "soft_deleted_at": started})
        if running and instance.host is not None and is_alive(instance.host, started):
            return self.carry_out(context, instance, prepared, started)
        transitions, was = [self.key, "soft_deleted"], (instance.vm_state, instance.task_state)
        moved = state.walk(
            instance, transitions, attempt=instance.attempt, changes=prepared.columns, note=Note(context)
        )
        if moved is None:
            raise InstanceBusyError(self.record, instance.id, *was)
        instance_actions.begin(context, moved.id, self.record, started)
        instance_actions.finish(moved.id, self.record)
        if running and moved.host is not None:
            host_commands.send(moved.host.id, moved.id, moved.attempt, PowerRequest(action="stop"), None)
        return moved

    def awaits(self, body: CommandBody) -> bool:
        return isinstance(body, PowerRequest) and body.action == "stop"

    def command(self, instance: Instance, prepared: Prepared) -> PowerRequest:
        return PowerRequest(action="stop", timeout=shutdown_seconds(instance))


class Restore(HostAction[None, PowerRequest]):
    """Restore a soft-deleted server; it is started if it was active."""

    key = record = api = "restore"
    done = "Restored"
    doing = "Restoring"
    rule = "os_compute_api:os-deferred-delete:restore"
    rule_description = "Restore a deleted server."
    from_states, task = (VmState.SOFT_DELETED,), TaskState.RESTORING
    ends = {
        "restored": VmState.ACTIVE,
        "restored_stopped": VmState.STOPPED,
        "restored_shelved": VmState.SHELVED,
        "restored_offloaded": VmState.SHELVED_OFFLOADED,
        "restored_error": VmState.ERROR,
    }
    timeout = "POWER_TIMEOUT"
    notification = "restore"
    body = PowerRequest
    button = Button(
        140,
        "restore",
        "Restore",
        "arrow-counterclockwise",
        "Restore {name}?",
        "It returns to the state in which it was deleted.",
        "{name} is being restored.",
    )

    def start(self, context: RequestContext, instance: Instance, request: None, started: datetime) -> Instance:
        """Start the guest if it was active. Raises InstanceBusyError when the server is not soft-deleted."""
        before = VmState(instance.previous_vm_state) if instance.previous_vm_state else VmState.STOPPED
        prepared = Prepared({"previous_vm_state": "", "soft_deleted_at": None})
        if before == VmState.ACTIVE:
            return self.carry_out(context, instance, prepared, started)
        transitions = [self.key, _BACK.get(before, "restored_stopped")]
        was = instance.vm_state, instance.task_state
        moved = state.walk(
            instance, transitions, attempt=instance.attempt, changes=prepared.columns, note=Note(context)
        )
        if moved is None:
            raise InstanceBusyError(self.record, instance.id, *was)
        instance_actions.begin(context, moved.id, self.record, started)
        instance_actions.finish(moved.id, self.record)
        return moved

    def awaits(self, body: CommandBody) -> bool:
        return isinstance(body, PowerRequest) and body.action == "start"

    def command(self, instance: Instance, prepared: Prepared) -> PowerRequest:
        return PowerRequest(action="start")


def soft_delete(context: RequestContext, instance: Instance, started: datetime) -> bool:
    """Begin a soft deletion, inside the caller's transaction.

    Returns False, with nothing written, when the server cannot be restored later or has changed concurrently.
    Idempotent: True for a server that is already soft-deleted or being soft-deleted.
    """
    kept = instance.vm_state == VmState.SOFT_DELETED and instance.task_state is None
    if kept or instance.task_state == TaskState.SOFT_DELETING:
        return True
    if not SoftDelete().offered(instance) or instance.launched_at is None:
        return False
    try:
        SoftDelete().start(context, instance, None, started)
    except InstanceBusyError:
        return False
    return True
