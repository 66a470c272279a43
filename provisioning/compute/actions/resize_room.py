"""Resources of a server whose flavor changes: its allocation on the host, its quota, and their release."""

from compute_agent.contract.commands import ConfirmResizeRequest
from provisioning.compute.actions.resize_checks import rank_here
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.flavors.sizes import larger_room, quota_held, room_of
from provisioning.compute.host_link.allocations import lower_room, raise_room, second_of
from provisioning.compute.launch.decisions import NO_VALID_HOST, record_decision
from provisioning.compute.models import Instance
from provisioning.compute.moves.hosts import leave_second
from provisioning.compute.notifications import Note
from provisioning.compute.records import host_commands, instance_actions
from provisioning.compute.records.faults import record_fault
from provisioning.compute.records.migration_records import OPEN, close_migration, set_migration
from provisioning.compute.state_machine import state
from provisioning.hosts.models import Host
from provisioning.quotas.services.sizes import shrink
from provisioning.scheduler import explain

STAYS = "The host of the server"


def discard_earlier(instance: Instance, host: Host) -> None:
    """Discard an earlier resize that ended by a state reset; the guest keeps its current disks."""
    if instance.old_flavor is None:
        return
    if second_of(instance.id) is None:
        host_commands.send(host.id, instance.id, instance.attempt, ConfirmResizeRequest(), None)
    else:
        leave_second(instance)
    shrink(instance.id, quota_held(instance.flavor))
    lower_room(instance.id, room_of(instance.flavor))
    close_migration(instance.id)


def claim_on_host(instance: Instance, host: Host) -> str:
    """Raise the server's allocation on its host. Returns the reason of a refusal, empty on success."""
    flavor = instance.old_flavor or instance.flavor
    attempt = rank_here(instance, host, flavor)
    why = explain(attempt.decision)
    suits = not why or attempt.decision.filters[-1].asked is not None  # the claim checks the resources itself
    room = larger_room(instance.flavor, flavor)
    claimed = suits and raise_room(instance.id, room)
    record_decision(instance, "resize", attempt, attempt.hosts[0] if claimed else None, flavor=flavor)
    if claimed:
        return ""
    if not suits:
        return f"{STAYS} does not suit the flavor. {why}"
    cores = "vCPU" if room.vcpus == 1 else "vCPUs"
    return f"{STAYS} has not got {room.vcpus} {cores}, {room.memory_mb} MiB of memory and {room.disk_gb} GiB of disk."


def refuse(instance: Instance, why: str) -> Instance:
    """Fail a resize for which the host lacks the resources; the server stays unchanged."""
    message = NO_VALID_HOST + why
    undo_resize(instance)
    back = state.advance(
        instance,
        "action_failed",
        attempt=instance.attempt,
        changes={"old_flavor": None, "previous_vm_state": ""},
        note=Note(fault=message, cause="NoValidHost"),
    )
    if back is None:
        raise InstanceBusyError("resize", instance.id, instance.vm_state, instance.task_state)
    set_migration(back.id, "error")
    record_fault(back, message, details="resize", host_name=back.host_name)
    instance_actions.finish(back.id, "resize", message=message)
    return back


def undo_resize(instance: Instance) -> None:
    """Release the resources beyond the server's current flavor, inside the caller's transaction."""
    shrink(instance.id, quota_held(instance.flavor))
    lower_room(instance.id, room_of(instance.flavor))


def is_elsewhere(instance: Instance) -> bool:
    """Whether a resized server waits for its confirmation on another host than before."""
    second = second_of(instance.id)
    return second is not None and second.migration.status in OPEN and second.host_id != instance.host_id
