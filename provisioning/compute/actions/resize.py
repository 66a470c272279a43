"""Another size for a server, on the host where it is: resize, then confirm or revert.

From the request until the confirmation or the revert the server holds the larger of both sizes, of its project's quota
and of its host: nothing is missing when it goes back.  ``Instance.old_flavor`` is the wanted size until the host has
done it, and the one before from then on.
"""

from __future__ import annotations

import uuid
from datetime import datetime
from typing import Any

import msgspec
from django.db import transaction
from django.utils import timezone

from compute_agent.contract.commands import ConfirmResizeRequest, ResizeRequest, RevertResizeRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, UnavailableError
from provisioning.common.retry import when_broken_off
from provisioning.compute import host_commands, instance_actions, selectors, state
from provisioning.compute.actions.base import HOST_AWAY, Deed, check_lock
from provisioning.compute.actions.base import order as give_order
from provisioning.compute.actions.resize_checks import look_here, wanted_size
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.faults import record_fault
from provisioning.compute.guest_spec import flavor_ref, guest_spec
from provisioning.compute.launch.decisions import record_decision
from provisioning.compute.migration_records import close_migration, open_migration, set_migration
from provisioning.compute.models import Instance
from provisioning.compute.notifications import Note
from provisioning.compute.resize_allocations import lower_room, raise_room
from provisioning.compute.sizes import larger_room, quota_held, room_of
from provisioning.compute.states import VmState
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive
from provisioning.quotas.services.sizes import grow, shrink
from provisioning.scheduler import explain

CAN_RESIZE = {VmState.ACTIVE, VmState.STOPPED}
NO_VALID_HOST = "No valid host was found. "
STAYS = "A server is resized on its own host, where its disks are, and that host"
NEVER = "Instance has not been resized."


@when_broken_off
def resize(
    context: RequestContext, instance_id: uuid.UUID | str, flavor_id: str, *, disk_config: str | None = None
) -> Instance:
    """Order another size, in one transaction: checks, quota, room on the host, records, the order.

    Where the host has not got the room the request is accepted, as in Nova, and has failed when this returns: the
    server is as it was, and its action and its fault say why.  ``disk_config``: ``AUTO`` or ``MANUAL``, kept.

    Raises NotFoundError, InstanceLockedError, InstanceBusyError, InvalidInputError (``flavorRef``), OverQuotaError,
    UnavailableError when the host is down.
    """
    started = timezone.now()
    with transaction.atomic():
        instance = selectors.instance_for(context, instance_id)
        check_lock(context, instance)
        if instance.vm_state not in CAN_RESIZE or instance.task_state is not None:
            raise InstanceBusyError("resize", instance.id, instance.vm_state, instance.task_state)
        wanted = wanted_size(context, instance, flavor_id)
        host = instance.host
        if host is None or not is_alive(host, started):
            raise UnavailableError(HOST_AWAY)
        _settle(instance, host)
        changes: dict[str, Any] = {"old_flavor": wanted, "previous_vm_state": instance.vm_state}
        if disk_config is not None:
            changes["disk_config"] = disk_config
        was = instance.vm_state, instance.task_state
        moved = state.advance(instance, "resize", attempt=instance.attempt, changes=changes, note=Note(context))
        if moved is None:
            raise InstanceBusyError("resize", instance.id, *was)
        grow(moved.project_id, moved.id, quota_held(moved.flavor, wanted))
        open_migration(context, moved, "resize", wanted)
        action = instance_actions.begin(context, moved.id, "resize", started)
        instance_actions.write(
            [instance_actions.step(action, "api_resize", instance_actions.since(started), attempt=moved.attempt)]
        )
        refusal = _claim(moved, host)
        if refusal:
            return _refuse(moved, refusal)
        return _send(moved, host)


def _settle(instance: Instance, host: Host) -> None:
    """Forget an earlier resize that an operator has ended by resetting the state: what the guest is now stays so."""
    if instance.old_flavor is None:
        return
    host_commands.send(host.id, instance.id, instance.attempt, ConfirmResizeRequest(), None)
    shrink(instance.id, quota_held(instance.flavor))
    lower_room(instance.id, room_of(instance.flavor))
    close_migration(instance.id)


def _claim(instance: Instance, host: Host) -> str:
    """Raise what the server holds on its host; return why it cannot be, empty when it is done."""
    wanted = instance.old_flavor or instance.flavor
    found = look_here(instance, host, wanted)
    why = explain(found.decision)
    suits = not why or found.decision.filters[-1].asked is not None  # what room there is, the claim says
    room = larger_room(instance.flavor, wanted)
    claimed = suits and raise_room(instance.id, room)
    record_decision(instance, "resize", found, found.hosts[0] if claimed else None, flavor=wanted)
    if claimed:
        return ""
    if not suits:
        return f"{STAYS} does not suit the flavor. {why}"
    cores = "vCPU" if room.vcpus == 1 else "vCPUs"
    return f"{STAYS} has not got {room.vcpus} {cores}, {room.memory_mb} MiB of memory and {room.disk_gb} GiB of disk."


def _refuse(instance: Instance, why: str) -> Instance:
    """End a resize for which there is no room: the server is as it was."""
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
    record_fault(back, message, details="resize", host_name=back.host.name if back.host else "")
    instance_actions.finish(back.id, "resize", message=message)
    return back


def undo_resize(instance: Instance) -> None:
    """Give back what an instance holds beyond the size that it has, inside the caller's transaction."""
    shrink(instance.id, quota_held(instance.flavor))
    lower_room(instance.id, room_of(instance.flavor))


def _send(instance: Instance, host: Host) -> Instance:
    moved = state.advance(instance, "migrate_disk", attempt=instance.attempt)
    if moved is None:
        raise InstanceBusyError("resize", instance.id, instance.vm_state, instance.task_state)
    set_migration(moved.id, "migrating")
    spec = guest_spec(moved)
    body = ResizeRequest(
        instance=msgspec.structs.replace(spec, flavor=flavor_ref(moved.old_flavor or moved.flavor)),
        old_flavor=spec.flavor,
        start=moved.vm_state == VmState.ACTIVE,
    )
    host_commands.send(host.id, moved.id, moved.attempt, body, moved.task_deadline)
    return moved


def confirm_resize(context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
    """Order what was kept of the size before to be thrown away.

    Raises NotFoundError, InstanceLockedError, InstanceBusyError, InvalidInputError when it was never resized,
    UnavailableError when its host is down.
    """

    def ask(instance: Instance) -> ConfirmResizeRequest:
        _size_before(instance)
        return ConfirmResizeRequest()

    return _end(context, instance_id, Deed("confirmResize", "confirm_resize", ask), "confirming")


def revert_resize(context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
    """Order the size and the disk of before; a server that was stopped then stays so.  Raises as ``confirm_resize``."""

    def ask(instance: Instance) -> RevertResizeRequest:
        flavor = flavor_ref(_size_before(instance))
        spec = msgspec.structs.replace(guest_spec(instance), flavor=flavor)
        return RevertResizeRequest(instance=spec, start=instance.previous_vm_state != VmState.STOPPED)

    return _end(context, instance_id, Deed("revertResize", "revert_resize", ask), "reverting")


@when_broken_off
def _end(context: RequestContext, instance_id: uuid.UUID | str, deed: Deed, status: str) -> Instance:
    started: datetime = timezone.now()
    with transaction.atomic():
        instance = selectors.instance_for(context, instance_id)
        check_lock(context, instance)
        moved = give_order(context, instance, deed, started)
        set_migration(moved.id, status)
        return moved


def _size_before(instance: Instance) -> dict[str, Any]:
    if instance.old_flavor is None:
        raise InvalidInputError(NEVER)
    before: dict[str, Any] = instance.old_flavor
    return before
