"""A cold move, step by step: a server is stopped on its host, and started again on another one with its data.

1. The action claims the target, and the host stops the guest and exports its disks (``send``).
2. When it has reported, the record changes to the target: host, flavor, ports, and the allocations are exchanged. The
   volumes are disconnected from the old host, and connected to the new one (``sent``, ``go_on``).
3. The target copies the disks and starts the guest (``received``). The old host keeps its disks and its allocation
   until the resize is confirmed or reverted.

A failure at any step ends with the guest on its old host: the record changes back, the target removes its part, the
volumes are connected again, and then the old host starts the guest (``go_back``, ``returned``). Before that, the target
has confirmed the removal, or is down and cannot write to any volume of the server.
"""

import logging
import uuid
from collections.abc import Mapping
from typing import Any

import msgspec
from django.db import transaction
from django.utils import timezone

from compute_agent.contract.commands import ReceiveGuestRequest, ReturnGuestRequest, SendGuestRequest
from compute_agent.contract.moves import GuestOrigin
from compute_agent.contract.power import PowerState
from compute_agent.contract.steps import COPY_DISK
from provisioning.common.context import RequestContext
from provisioning.common.errors import NovellaError
from provisioning.compute.disks import block_devices
from provisioning.compute.flavors.sizes import quota_held
from provisioning.compute.host_link import firmware_states
from provisioning.compute.host_link.allocations import exchange, raise_attempt, release_second, second_of
from provisioning.compute.host_link.guest_agent import shutdown_seconds
from provisioning.compute.host_link.guest_spec import guest_spec
from provisioning.compute.host_link.outcome import Outcome
from provisioning.compute.host_link.release import is_cut_off, send_destroy
from provisioning.compute.launch.map_block_devices import map_block_devices
from provisioning.compute.models import (
    Instance,
    InstanceAction,
    InstanceActionEvent,
    Migration,
    MoveAllocation,
)
from provisioning.compute.moves import returning
from provisioning.compute.moves.origins import origin_of
from provisioning.compute.notifications import Note
from provisioning.compute.records import host_commands, instance_actions
from provisioning.compute.records.instance_actions import record_fault
from provisioning.compute.records.migration_records import MIGRATION, set_migration
from provisioning.compute.state_machine import state
from provisioning.compute.state_machine.state import deadline_of
from provisioning.compute.states import TaskState, VmState
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive
from provisioning.jobs.queue.cast import cast
from provisioning.jobs.registry import job
from provisioning.network import services as network
from provisioning.quotas.services.sizes import shrink

log = logging.getLogger(__name__)

TOPIC, JOB = "scheduler", "compute.move"
MOVING = (TaskState.RESIZE_MIGRATING, TaskState.RESIZE_MIGRATED, TaskState.RESIZE_FINISH)
SETTLED: Mapping[str, Any] = {"old_flavor": None, "resized_at": None, "previous_vm_state": ""}
COULD_NOT = "The server could not be moved."
VOLUMES_LATE = "The server's volumes could not be connected to its host in time."
NO_EXPORTS = "The server's host did not report how its disks can be copied."
HOST_LOST = "The move was ended, because one of its hosts is down."
NOT_RETURNED = "The server could not be moved, and its host could not start it again."


def record_of(instance: Instance) -> str:
    """Return Nova's name of the action that moves the server: ``migrate`` or ``resize``."""
    second = second_of(instance.id)
    kind = second.migration.migration_type if second is not None else _newest_kind(instance)
    return "migrate" if kind == MIGRATION else "resize"


def _newest_kind(instance: Instance) -> str:
    rows = Migration.objects.filter(instance=instance).order_by("-id")
    return rows.values_list("migration_type", flat=True).first() or ""


def is_returning(instance: Instance) -> bool:
    """Whether a server returns to its old host, which still has its disks: the guest is defined there again."""
    if instance.task_state != TaskState.RESIZE_REVERTING:
        return False
    second = second_of(instance.id)
    if second is not None and second.host_id != instance.host_id:
        return True
    failed = instance.vm_state != VmState.RESIZED
    return _changed_host(instance) and (failed or not host_commands.has_unfinished(instance.id))


def _changed_host(instance: Instance) -> bool:
    """Whether the newest migration of a server was between two hosts, unlike a resize on its own host."""
    rows = Migration.objects.filter(instance=instance).order_by("-id").values_list("source_compute", "dest_compute")
    newest = rows.first()
    return newest is not None and newest[0] != newest[1]


def is_moving(instance: Instance) -> bool:
    """Whether a cold move of the server, its return after a failure, or its revert is in progress."""
    return instance.task_state in (*MOVING, TaskState.RESIZE_REVERTING) and second_of(instance.id) is not None


def waits_for_volumes(instance: Instance) -> bool:
    """Whether the server waits for its volumes on the host that it moves or returns to."""
    waiting = instance.task_state in (TaskState.RESIZE_MIGRATED, TaskState.RESIZE_REVERTING)
    return (waiting or returning.is_in_progress(instance)) and not host_commands.is_busy_with(instance.id)


def cast_move(instance: Instance) -> None:
    """Cast the job that continues the move or the return of a server."""
    cast(TOPIC, JOB, instance_id=str(instance.id), attempt=instance.attempt)


# ----- to the target --------------------------------------------------------------------------------------------------


def send(instance: Instance, source: Host, target_id: uuid.UUID) -> None:
    """Command the server's host to stop the guest, and to export its disks to the target."""
    firmware = firmware_states.has_state(instance)
    if firmware:
        firmware_states.discard(instance)
    body = SendGuestRequest(target=str(target_id), timeout=shutdown_seconds(instance), firmware_state=firmware)
    host_commands.send(source.id, instance.id, instance.attempt, body, instance.task_deadline)


def sent(instance: Instance, body: SendGuestRequest, outcome: Outcome) -> Instance | None:
    """Process the end of ``SendGuestRequest``: the record changes to the target. After a failure, the guest is restored
    on its host.
    """
    second, source = second_of(instance.id), instance.host
    if second is None or source is None:
        return None
    origin = origin_of(outcome, source, second.host) if outcome.well else None
    if origin is None or (body.firmware_state and not firmware_states.is_stored(instance)):
        return go_back(instance, outcome.message or NO_EXPORTS, outcome.code)
    _write_step(instance, "compute_send", outcome)
    moved = _change_host(instance, second, "disk_migrated", {"power_state": int(PowerState.SHUTDOWN)})
    if moved is None:
        return None
    MoveAllocation.objects.filter(instance=moved).update(origin=msgspec.to_builtins(origin))
    block_devices.disconnect(moved.id)
    set_migration(moved.id, "post-migrating")
    cast_move(moved)
    return moved


def received(instance: Instance, outcome: Outcome) -> Instance | None:
    """Process the end of ``ReceiveGuestRequest``: the server runs on the target, and waits for the confirmation."""
    if not outcome.well:
        return go_back(instance, outcome.message, outcome.code)
    _write_step(instance, "compute_receive", outcome)
    power = outcome.power or (PowerState.RUNNING if instance.vm_state == VmState.ACTIVE else PowerState.SHUTDOWN)
    columns = {"resized_at": timezone.now(), "power_state": int(power), "guest_attempt": None}
    record = record_of(instance)
    moved = state.advance(instance, "moved", attempt=instance.attempt, changes=columns)
    if moved is None:
        return None
    is_there(moved)
    set_migration(moved.id, "finished")
    instance_actions.finish(moved.id, record)
    firmware_states.discard(moved)
    return moved


def _change_host(
    instance: Instance, second: MoveAllocation, transition: str, more: Mapping[str, Any], note: Note | None = None
) -> Instance | None:
    """Exchange the hosts, the flavors and the allocations in the records, with a new attempt, and bind the ports to the
    other host. Reports about earlier attempts are then ignored.
    """
    changes = {
        "attempt": instance.attempt + 1,
        "host": second.host,
        "flavor": instance.old_flavor or instance.flavor,
        "old_flavor": instance.flavor,
        **more,
    }
    guest = instance.guest_attempt
    moved = state.advance(instance, transition, attempt=instance.attempt, changes=changes, note=note)
    if moved is None:
        return None
    exchange(moved, guest)
    host_commands.withdraw(moved.id, moved.attempt)
    network.bind_ports(moved.id, second.host.name)
    network.set_ports_status(moved.id, "DOWN")
    return moved


# ----- volumes, then the command to the host --------------------------------------------------------------------------


@job(JOB, topic=TOPIC)
def go_on(instance_id: str, attempt: int) -> None:
    """Connect the volumes to the server's host, then send it the command. No effect for other attempts or tasks.

    Each change of a volume casts this job again; so does the other host when it has removed the guest.
    """
    with transaction.atomic():
        state.lock([uuid.UUID(instance_id)])
        rows = Instance.objects.select_related("host").filter(id=instance_id, attempt=attempt)
        instance = rows.first()
        if instance is None or not waits_for_volumes(instance) or instance.host is None:
            return
        if instance.task_state == TaskState.RESIZE_REVERTING and not _is_other_host_clear(instance):
            return
        try:
            with transaction.atomic():
                _hand_over(instance, instance.host)
        except NovellaError as error:
            log.warning("Server %s cannot be started on host %s: %s", instance.id, instance.host.name, error.message)
            volume_refused(instance, error.message)


def volume_refused(instance: Instance, message: str) -> None:
    """Process that a volume cannot be connected to the host, inside the caller's transaction."""
    if instance.task_state == TaskState.RESIZE_MIGRATED:
        go_back(instance, message, "volumes")
    elif instance.task_state == TaskState.POWERING_ON:
        returning.not_returned(instance, message)
    else:
        _broke(instance, message)


def _hand_over(instance: Instance, host: Host) -> None:
    """Connect the volumes as far as possible now; if all are connected, send the command. Raises NovellaError."""
    action = current_action(instance)
    if action is None:
        return
    _leave_other_host(instance)
    devices = block_devices.volumes_of(instance.id)
    if not map_block_devices(instance, devices, host, action):
        return
    if instance.task_state != TaskState.RESIZE_MIGRATED:
        before = instance.previous_vm_state or instance.vm_state
        start = before != VmState.STOPPED or instance.task_state == TaskState.POWERING_ON
        _command(host, instance, ReturnGuestRequest(instance=guest_spec(instance), start=start))
        return
    second = second_of(instance.id)
    origin = msgspec.convert(second.origin if second is not None else {}, GuestOrigin)
    moved = state.advance(instance, "finish_resize", attempt=instance.attempt)
    if moved is not None:
        request = ReceiveGuestRequest(
            instance=guest_spec(moved),
            origin=origin,
            firmware_state=firmware_states.digest_of(moved),
            start=moved.vm_state != VmState.STOPPED,
        )
        _command(host, moved, request)


def _command(host: Host, instance: Instance, body: ReceiveGuestRequest | ReturnGuestRequest) -> None:
    until = deadline_of(instance.task_state, timezone.now())
    state.extend_deadline(instance, until)
    host_commands.send(host.id, instance.id, instance.attempt, body, until)


def current_action(instance: Instance) -> InstanceAction | None:
    """Return the action record of the move, of its revert, or of the start that returns the server."""
    if instance.task_state == TaskState.POWERING_ON:
        return instance_actions.current(instance.id, returning.RECORD)
    record = "revertResize" if instance.vm_state == VmState.RESIZED else record_of(instance)
    return instance_actions.current(instance.id, record)


def _leave_other_host(instance: Instance) -> None:
    """Disconnect the volumes from another host, which no longer has a guest of the server."""
    if block_devices.are_connected_elsewhere(instance):
        block_devices.disconnect(instance.id)


def _is_other_host_clear(instance: Instance) -> bool:
    """Whether the host from which the server returns has no data of the server, or cannot write to its data."""
    second = second_of(instance.id)
    return second is None or second.host_id == instance.host_id or is_cut_off(instance, second.host)


# ----- back to the old host -------------------------------------------------------------------------------------------


def go_back(instance: Instance, message: str, code: str = "") -> Instance | None:
    """Return a server whose move has failed to its old host, inside the caller's transaction.

    ``message`` is for the owner. Until the record has changed, the target has got no command.
    """
    fault, second = message or COULD_NOT, second_of(instance.id)
    if second is None:
        return _broke(instance, fault)
    record_fault(instance, fault, details=f"{record_of(instance)}: {code}", host_name=instance.host_name)
    note = Note(fault=fault, cause=code)
    if instance.task_state == TaskState.RESIZE_MIGRATING:
        before = instance.attempt
        changes = {"attempt": before + 1, "guest_attempt": instance.guest_attempt or before}
        back = state.advance(instance, "move_back", attempt=before, changes=changes, note=note)
        if back is None:
            return None
        host_commands.withdraw(back.id, back.attempt)
        raise_attempt(back.id, before, back.attempt)
        set_migration(back.id, "error")
        release_second(back.id)
    else:
        left = instance.host
        back = _change_host(instance, second, "move_back", _guest(second), note)
        if back is None or left is None:
            return None
        block_devices.disconnect(back.id)
        set_migration(back.id, "error")
        send_destroy(back.id, left.id, back.attempt)
    cast_move(back)
    return back


def return_record(
    context: RequestContext, instance: Instance, second: MoveAllocation, transition: str
) -> Instance | None:
    """Return the record of a moved server to its old host, to revert the move; the caller commands the other host to
    remove its guest. Returns None if the server has changed.
    """
    return _change_host(instance, second, transition, _guest(second), Note(context))


def _guest(second: MoveAllocation) -> dict[str, int]:
    """Return the columns that record the guest on the second host as the server's guest."""
    return {"guest_attempt": second.guest_attempt or second.attempt}


def returned(instance: Instance, outcome: Outcome) -> Instance | None:
    """Process the end of ``ReturnGuestRequest`` after a failed move: the server is as it was before."""
    if not outcome.well:
        return _broke(instance, outcome.message or NOT_RETURNED)
    power = {} if outcome.power is None else {"power_state": int(outcome.power)}
    record, why = record_of(instance), last_fault(instance)
    back = state.advance(instance, "move_failed", attempt=instance.attempt, changes={**SETTLED, **power})
    if back is None:
        return None
    is_there(back)
    firmware_states.discard(back)
    shrink(back.id, quota_held(back.flavor))
    instance_actions.finish(back.id, record, message=why)
    return back


def last_fault(instance: Instance) -> str:
    """Return the newest fault of a server."""
    return instance.faults.order_by("-id").values_list("message", flat=True).first() or COULD_NOT


def _broke(instance: Instance, message: str) -> Instance | None:
    """Set a server to ERROR on its host, whose guest could not be started again."""
    record = record_of(instance)
    note = Note(fault=message, cause="move")
    broken = state.advance(instance, "action_broke", attempt=instance.attempt, changes=dict(SETTLED), note=note)
    if broken is None:
        return None
    record_fault(broken, message, details=NOT_RETURNED, host_name=broken.host_name)
    set_migration(broken.id, "error")
    shrink(broken.id, quota_held(broken.flavor))
    instance_actions.finish_all(broken.id, record, "revertResize", message=message)
    host_commands.withdraw_of_tasks(broken.id)
    return broken


def is_there(instance: Instance) -> None:
    """Set the ports to ACTIVE and the volumes to attached, because the guest is on the server's host."""
    network.set_ports_status(instance.id, "ACTIVE")
    block_devices.plugged(block_devices.volumes_of(instance.id))


# ----- timeouts -------------------------------------------------------------------------------------------------------


def overdue(instance: Instance, silent: Outcome) -> None:
    """Process a timeout of a step of the move, or of a return."""
    if instance.task_state == TaskState.RESIZE_REVERTING:
        if _is_commanded(instance):
            _broke(instance, silent.message)
        elif block_devices.are_connecting(instance):
            _broke(instance, VOLUMES_LATE)
        elif _waits_for_own_host(instance):
            _broke(instance, silent.message)
        else:
            ask_again(instance)
    elif instance.task_state == TaskState.RESIZE_MIGRATED:
        go_back(instance, VOLUMES_LATE, silent.code)
    else:
        go_back(instance, silent.message, silent.code)


def forced_down(instance: Instance) -> None:
    """End a step of the move, or of a return, that waits for a host which is forced down. Idempotent.

    A return waits until the other host has confirmed the removal, unless that one is forced down as well.
    """
    second = second_of(instance.id)
    home_lost = instance.host is not None and instance.host.forced_down
    other_lost = second is not None and second.host.forced_down
    if instance.task_state == TaskState.RESIZE_REVERTING:
        if home_lost and (_is_commanded(instance) or _is_other_host_clear(instance)):
            _broke(instance, HOST_LOST)
        elif other_lost and waits_for_volumes(instance) and not block_devices.are_connecting(instance):
            cast_move(instance)
    elif home_lost or (other_lost and _needs_second(instance, second)):
        back = go_back(instance, HOST_LOST, "forced_down")
        if back is not None and back.host is not None and back.host.forced_down:
            forced_down(back)


def _needs_second(instance: Instance, second: MoveAllocation | None) -> bool:
    """Whether the move cannot go on without the second host: the target at first; then the old host, until all disks
    are copied from it.
    """
    if instance.task_state == TaskState.RESIZE_MIGRATING:
        return True
    if second is None or not second.origin.get("disks"):
        return False
    row = instance_actions.current(instance.id, record_of(instance))
    copied = InstanceActionEvent.objects.filter(action=row, name=COPY_DISK, attempt=instance.attempt)
    return not copied.exists()


def _is_commanded(instance: Instance) -> bool:
    """Whether the server's host has the command to start the guest again."""
    return host_commands.of_kind(instance, ReturnGuestRequest).exists()


def _waits_for_own_host(instance: Instance) -> bool:
    """Whether the other host has no data of the server any longer, and the server's host is down."""
    second = second_of(instance.id)
    if second is not None and second.host_id != instance.host_id:
        return False
    return instance.host is None or not is_alive(instance.host, timezone.now())


def ask_again(instance: Instance) -> None:
    """Keep waiting for the other host: send it the command to remove the guest again, or continue if it is down."""
    second = second_of(instance.id)
    state.extend_deadline(instance)
    if second is not None and second.host_id != instance.host_id:
        awaited = host_commands.destroys_awaited().filter(host_id=second.host_id, subject_id=instance.id)
        if not awaited.exists():
            send_destroy(instance.id, second.host_id, instance.attempt)
    cast_move(instance)


def _write_step(instance: Instance, name: str, outcome: Outcome) -> None:
    action = current_action(instance)
    if action is None:
        return
    step = instance_actions.Step(
        name, max(outcome.begun_at, action.started_at), outcome.ended_at, host=instance.host_name
    )
    state.announce_steps(instance, instance_actions.record(action, instance.attempt, step))
