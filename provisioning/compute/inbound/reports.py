"""Effects of the hosts' reports on servers. Hosts are not trusted: texts are cut and times validated."""

import logging
import re
import uuid
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.db.models import UUIDField
from django.utils import timezone

from compute_agent.contract.commands import BuildRequest, CommandBody, DestroyRequest, ReceiveGuestRequest
from compute_agent.contract.messages import AgentEvent, decode_command_body
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import BUILD_STEPS
from provisioning.common.database.prepared import Prepared
from provisioning.common.values.text import one_line
from provisioning.compute.actions.registry import abandoned, action_of, awaiting, is_taskless
from provisioning.compute.disks import block_devices
from provisioning.compute.host_link import guest_changes, superseded
from provisioning.compute.host_link.allocations import release_second, second_of
from provisioning.compute.host_link.newer_guests import is_current
from provisioning.compute.host_link.outcome import Outcome
from provisioning.compute.host_link.release import (
    finish_delete,
    finish_offload,
    keeps_ports,
    leave_host,
    release_place,
    return_home,
)
from provisioning.compute.launch.builds import build_kind_of
from provisioning.compute.launch.finished import finished, is_spawning
from provisioning.compute.launch.retry import cast_schedule, hold_again
from provisioning.compute.models import Allocation, Instance, InstanceAction, InstanceActionEvent
from provisioning.compute.moves import cold
from provisioning.compute.moves.hosts import set_bytes
from provisioning.compute.records import instance_actions, passwords
from provisioning.compute.records.migration_records import source_is_clean
from provisioning.compute.state_machine import state
from provisioning.compute.states import TaskState, VmState
from provisioning.hosts.models import HostCommand
from provisioning.hosts.subjects import Reported
from provisioning.network.services import note_lease
from provisioning.volumes.inbound.volume_subjects import number_of

log = logging.getLogger(__name__)

MAX_DETAILS = 10
_STEP = re.compile("[a-z_]{1,40}")
MAX_DETAIL = 200
MOST_STEPS = 50
"""Maximum number of steps stored for an action."""
MAX_MESSAGE = 1000
MAX_SKEW = timedelta(days=1)
"""A step with a time farther from now than this gets the current time."""
RECEIVE = str(ReceiveGuestRequest.__struct_config__.tag)
_OFF = {PowerState.NOSTATE, PowerState.SHUTDOWN, PowerState.CRASHED}
_ON_A_HOST = set(VmState) - {VmState.BUILDING, VmState.SHELVED_OFFLOADED, VmState.ERROR, VmState.DELETED}


def record_steps(instance: Instance, known: Sequence[Reported]) -> None:
    """Record the steps of a running command, and send an event for each."""
    current = [(event, command) for event, command in known if _is_awaited(instance, event, command)]
    action = _action_of(instance, current[0][1]) if current else None
    if action is None:
        return
    host = instance.host_name
    rows: dict[str, InstanceActionEvent] = {}
    for event, _ in current:
        if event.kind == "step" or event.step not in rows:
            rows[event.step] = _row(action, event, host)
    rows = _few(action, rows)
    instance_actions.write(list(rows.values()))
    state.announce_steps(instance, rows.values())
    action_under_way = action_of(instance)
    if action_under_way is not None:
        action_under_way.progressed(instance, {name for name, row in rows.items() if row.finished_at is not None})


def _few(action: InstanceAction, rows: dict[str, InstanceActionEvent]) -> dict[str, InstanceActionEvent]:
    """Return the steps to store: all steps of builds, whose names are known, and a limited number of others."""
    if rows.keys() <= set(BUILD_STEPS):
        return rows
    there = set(InstanceActionEvent.objects.filter(action=action).values_list("name", flat=True))
    fresh = [name for name in rows if name not in there][: max(MOST_STEPS - len(there), 0)]
    return {name: row for name, row in rows.items() if name in there or name in fresh}


def heartbeat(instance: Instance, command: HostCommand, until: datetime) -> None:
    """Extend the deadline of the task whose command the host is working on."""
    if instance.attempt == command.generation and _is_on(instance, command.host_id) and _awaits(instance, command):
        state.extend_deadline(instance, until)


def record_progress(instance: Instance, event: AgentEvent, command: HostCommand) -> None:
    """Record the bytes that a host has transferred for a move."""
    if instance.attempt != command.generation or not _is_on(instance, command.host_id):
        return
    if not cold.is_moving(instance) or instance.host_id != command.host_id:
        action = action_of(instance)
        if action is not None and _awaits(instance, command):
            action.counted(instance, event.detail)
        return
    done, total = (number_of(event, name) for name in ("done", "total"))
    second = second_of(instance.id)
    if done is None or second is None or command.kind != RECEIVE:
        return
    total = max(total or 0, done)
    set_bytes(second.migration, disk_total=total, disk_processed=done, disk_remaining=total - done)
    state.announce_all(instance, [{}])


def process_end(instance: Instance, event: AgentEvent, command: HostCommand) -> None:
    """Process the end of a command, if the instance still waits for it."""
    body = decode_command_body(command.body)
    well = event.kind == "finished"
    if not well and event.error_code == superseded.CODE:
        superseded.repeat(instance, event, command)  # a repetition raises the attempt
    if isinstance(body, DestroyRequest):
        if well:
            _destroyed(instance, command)
        else:
            log.warning("Host %s could not destroy instance %s: %s", command.host_id, instance.id, event.message)
            if event.error_code == superseded.CODE and instance.host_id == command.host_id:
                _left_second(instance, command)
    elif _concerns(instance, body, command):
        _ended(instance, body, _outcome(event, command, well=well))


def _concerns(instance: Instance, body: CommandBody, command: HostCommand) -> bool:
    """Whether the instance still waits for the command. An action beside its tasks also outlasts the begin of a move:
    the guest is the same.
    """
    if instance.attempt == command.generation:
        return _is_on(instance, command.host_id)
    return is_taskless(body) and instance.host_id == command.host_id and is_current(instance, command.generation)


def _is_on(instance: Instance, host_id: uuid.UUID) -> bool:
    """Whether this is the server's host, or the second host of its move."""
    if instance.host_id == host_id:
        return True
    second = second_of(instance.id)
    return second is not None and second.host_id == host_id


def _ended(instance: Instance, body: CommandBody, outcome: Outcome) -> None:
    """Pass the end to the action, or the build, that waits for it."""
    action = awaiting(instance, body)
    if action is not None:
        action.end(instance, body, outcome)
    elif isinstance(body, BuildRequest):
        finished(instance, body, outcome)
    else:
        abandoned(instance, body)


def record_power(host_id: uuid.UUID, instance: Instance, event: AgentEvent) -> None:
    """Record a change of a guest's power state that the host reports on its own; ignored during tasks."""
    if instance.host_id == host_id and is_current(instance, event.generation):
        sync_power(instance, power_state_of(event.power_state))


def store_password(host_id: uuid.UUID, instance: Instance, event: AgentEvent) -> None:
    """Store the password that a guest has posted, encrypted with its owner's key; only the first one is accepted."""
    password = event.detail.get("password", "")[: passwords.MOST]
    if instance.host_id == host_id and is_current(instance, event.generation) and password and not instance.password:
        state.update(instance, {"password": password})
        guest_changes.changed(instance, ["password"])


def record_lease(host_id: uuid.UUID, instance: Instance, event: AgentEvent) -> None:
    """Record that a guest acquired or released the DHCP lease of one of its addresses."""
    port_id, address = event.detail.get("port_id", ""), event.detail.get("address", "")
    if instance.host_id != host_id or not is_current(instance, event.generation):
        return
    since = _time(event.finished_at) if event.detail.get("held") == "true" else None
    if note_lease(instance.id, port_id, address, since):
        state.announce_all(instance, [{}])


def sync_power(instance: Instance, power: PowerState | None) -> None:
    """Update the record to the hypervisor's power state, unless the instance has a task."""
    if power is None or instance.task_state is not None:
        return
    changes: dict[str, Any] = {"power_state": int(power)}
    if instance.vm_state in (VmState.ACTIVE, VmState.PAUSED) and power in _OFF:
        state.advance(instance, "found_stopped", attempt=instance.attempt, changes=changes)
    elif instance.vm_state in (VmState.STOPPED, VmState.SUSPENDED) and power == PowerState.RUNNING:
        state.advance(instance, "found_running", attempt=instance.attempt, changes=changes)
    elif instance.vm_state in _ON_A_HOST:
        state.set_power_state(instance, power)


def power_differs(vm_state: VmState, recorded: int, power: PowerState | None) -> bool:
    """Whether ``sync_power`` would change an instance without a task."""
    if power is None:
        return False
    stopped = vm_state in (VmState.ACTIVE, VmState.PAUSED) and power in _OFF
    running = vm_state in (VmState.STOPPED, VmState.SUSPENDED) and power == PowerState.RUNNING
    return stopped or running or (vm_state in _ON_A_HOST and recorded != power)


def power_state_of(number: int | None) -> PowerState | None:
    """Read a power state from a report; None for an unknown number."""
    try:
        return PowerState(number) if number is not None else None
    except ValueError:
        return None


# ----- ends of commands -----------------------------------------------------------------------------------------------


def _destroyed(instance: Instance, command: HostCommand) -> None:
    """Process the end of a destroy command: the host has no data of the instance's attempts up to the command's
    attempt.

    An allocation of the command's attempt, or of a newer one, is kept.
    """
    allocation = _ALLOCATION.first(instance_id=instance.id)
    held_there = (
        allocation is not None and allocation.host_id == command.host_id and allocation.attempt < command.generation
    )
    if instance.task_state == TaskState.SHELVING_OFFLOADING:
        if command.generation == instance.attempt and (allocation is None or held_there):
            finish_offload(instance)
    elif instance.task_state == TaskState.DELETING:
        if command.generation == instance.attempt and (allocation is None or held_there):
            finish_delete(instance, None)
    elif held_there and (instance.vm_state == VmState.DELETED or instance.host_id != command.host_id):
        _left(instance)
    if instance.host_id is not None and instance.host_id != command.host_id:
        source_is_clean(instance.id, command.host_id)
    _left_second(instance, command)


def _left_second(instance: Instance, command: HostCommand) -> None:
    """Release the allocation on the second host of a move; a server that returns from it continues.

    That host may also be the server's own by now, if the server was evacuated to it.
    """
    second = second_of(instance.id)
    if second is None or second.host_id != command.host_id or second.attempt >= command.generation:
        return
    release_second(instance.id)
    if instance.task_state == TaskState.RESIZE_REVERTING:
        cold.cast_move(instance)


def _left(instance: Instance) -> None:
    """Release the resources of a server on a host that it has left, and continue a build that waited for this."""
    kind = build_kind_of(instance)
    waiting = kind is not None and instance.task_state == kind.first
    if keeps_ports(instance):
        leave_host(instance)
        return_home(instance)
    else:
        if waiting and not hold_again(instance):
            return
        if not waiting:
            block_devices.release_all(instance.id, failed=instance.vm_state != VmState.DELETED)
        release_place(instance.id, keep_quota=waiting)
    if waiting:
        cast_schedule(instance)


_ALLOCATION = Prepared(lambda instance_id: Allocation.objects.filter(instance_id=instance_id), instance_id=UUIDField())


def _outcome(event: AgentEvent, command: HostCommand, *, well: bool) -> Outcome:
    return Outcome(
        well=well,
        begun_at=command.created_at,
        ended_at=timezone.now(),
        power=power_state_of(event.power_state),
        message="" if well else one_line(event.message, MAX_MESSAGE),
        code=one_line(event.error_code, 60),
        retryable=event.retryable,
        detail=event.detail,
        reported_end=_time(event.finished_at),
    )


# ----- validation of reports -----------------------------------------------------------------------------------------


def _is_awaited(instance: Instance, event: AgentEvent, command: HostCommand) -> bool:
    """Whether the instance waits for the command, and the name of the step is valid for it."""
    if command.kind == "build_request":
        return event.step in BUILD_STEPS and is_spawning(instance, event.generation)
    return (
        instance.attempt == event.generation and bool(_STEP.fullmatch(event.step)) and instance.task_state is not None
    )


def _awaits(instance: Instance, command: HostCommand) -> bool:
    """Whether the instance's task waits for the command."""
    if command.kind == "build_request":
        return is_spawning(instance, command.generation)
    return command.kind != "destroy_request" and awaiting(instance, decode_command_body(command.body)) is not None


def _action_of(instance: Instance, command: HostCommand) -> InstanceAction | None:
    if command.kind == "build_request":
        kind = build_kind_of(instance)
        return instance_actions.current(instance.id, kind.action) if kind else None
    action = awaiting(instance, decode_command_body(command.body))
    return instance_actions.current(instance.id, action.recorded_as(instance)) if action else None


def _row(action: InstanceAction, event: AgentEvent, host: str) -> InstanceActionEvent:
    started = _time(event.started_at)
    ended = event.kind == "step"
    step = instance_actions.Step(
        event.step,
        started,
        max(_time(event.finished_at), started) if ended else None,
        host=host,
        detail={
            one_line(key, 40): one_line(value, MAX_DETAIL) for key, value in list(event.detail.items())[:MAX_DETAILS]
        },
        message=one_line(event.message, MAX_MESSAGE),
    )
    return instance_actions.row_of(action, event.generation, step)


def _time(seconds: float) -> datetime:
    now = timezone.now()
    try:
        moment = datetime.fromtimestamp(seconds, UTC)
    except (ValueError, OverflowError, OSError):
        return now
    return moment if abs(moment - now) < MAX_SKEW else now
