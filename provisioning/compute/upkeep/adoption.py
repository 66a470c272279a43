"""Updates records that are older than their guests: attempt, host and state of the record follow the guest."""

import logging
import uuid
from copy import copy
from typing import Any

from django.db import transaction
from django.utils import timezone

from compute_agent.contract.messages import GuestState
from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, NovellaError
from provisioning.compute.actions.snapshot import drop_unfinished
from provisioning.compute.disks import block_devices
from provisioning.compute.disks.snapshot_images import remove_image
from provisioning.compute.flavors.sizes import quota_held
from provisioning.compute.host_link import newer_guests
from provisioning.compute.host_link.allocations import occupy, raise_attempt
from provisioning.compute.host_link.newer_guests import FOLLOWED, OPEN, REMOVED
from provisioning.compute.host_link.release import send_destroy
from provisioning.compute.inbound.reports import power_state_of, sync_power
from provisioning.compute.launch.finished import OFF_THE_SHELF
from provisioning.compute.models import Instance, NewerGuest
from provisioning.compute.records import host_commands, instance_actions
from provisioning.compute.records.migration_records import close_migration
from provisioning.compute.state_machine import state
from provisioning.compute.states import AT_REST, TaskState, VmState
from provisioning.compute.states import FOLLOWED as FOLLOW
from provisioning.hosts.models import Host
from provisioning.identity import policy
from provisioning.network import services as network
from provisioning.quotas.services.ledger import commit
from provisioning.quotas.services.sizes import grow
from provisioning.volumes.models import Attachment
from provisioning.volumes.services.connections import attachments

log = logging.getLogger(__name__)

RULE = "os_compute_api:os-admin-actions:reset_state"
SAID = (
    "The cloud's records of this server were older than the server itself and have been updated from it. Image, size"
    " and interfaces may have been changed since: compare them with the server."
)
CANNOT = "The record cannot follow this guest: the server is deleted, was never built, or has a task."
_AFTER: dict[str, Any] = {
    **OFF_THE_SHELF,
    "old_flavor": None,
    "resized_at": None,
    "soft_deleted_at": None,
    "rescue_image_id": None,
    "previous_vm_state": "",
}
_STATE_OF = {PowerState.RUNNING: VmState.ACTIVE, PowerState.PAUSED: VmState.PAUSED}


def handle_newer(host_id: uuid.UUID, instance: Instance, guest: GuestState) -> None:
    """Handle a guest whose attempt is higher than its record's, in the caller's transaction.

    If the guest's host is the record's, the record is updated from the guest. Otherwise the guest is left unchanged and
    recorded, and unfinished commands to this host from the outdated record are withdrawn. The record is then updated
    automatically only if an operator has restored the database recently and no other host can have a guest of the
    server.
    """
    power = power_state_of(guest.power_state) or PowerState.NOSTATE
    if guest.attempt > newer_guests.MOST:
        log.warning("Host %s reports an impossible attempt of instance %s.", host_id, instance.id)
        return
    here = instance.host_id == host_id and instance.vm_state != VmState.DELETED
    if here and (guest.attempt == instance.guest_attempt or _is_ordered(instance, guest.attempt)):
        return
    if here and instance.task_state == TaskState.DELETING:
        _insist(host_id, instance, guest.attempt)
        return
    if here:
        newer_guests.note(host_id, instance, guest.attempt, power, FOLLOWED)
        _follow(instance, guest.attempt, power)
        return
    newer_guests.hold_back(host_id, instance)
    newer_guests.note(host_id, instance, guest.attempt, power, OPEN)
    log.warning(
        "Host %s has a guest of instance %s that is newer than its record; it stays unchanged.", host_id, instance.id
    )
    if newer_guests.was_lost(instance, host_id, guest.attempt):
        settle(instance)


def settle(instance: Instance) -> None:
    """Let the record follow a guest on another host if nothing prevents it.

    The record does not follow if another host has a guest of the server, or if the server has volumes or a shelved
    image: a host's report alone must neither open a volume nor delete an image.
    """
    rows = newer_guests.open_of(instance.id)
    alone = instance.host_id is None or instance.power_state == PowerState.NOSTATE
    if len(rows) != 1 or not alone or not newer_guests.may_be_followed(instance):
        return
    if not newer_guests.is_as_copied(instance) or _has_data(instance):
        return
    (row,) = rows
    if newer_guests.was_lost(instance, row.host_id, row.attempt):
        _move_to(instance, row)


def _has_data(instance: Instance) -> bool:
    """Whether a server has volumes or a shelved image. A malicious host could otherwise gain access to the data, or the
    image could be deleted although it may be the only copy of the disk.
    """
    volumes = block_devices.volumes_of(instance.id)
    return instance.snapshot_image_id is not None or any(device.attachment_id for device in volumes)


@when_broken_off
def adopt(context: RequestContext, row: NewerGuest) -> None:
    """Let the record follow this guest, by decision of an operator. The guest on the previous host is destroyed.

    Raises ForbiddenError, and ConflictError for a server that is deleted, was never built, or has a task.
    """
    policy.enforce(context, RULE)
    with transaction.atomic():
        instance = _locked(row)
        if not newer_guests.may_be_followed(instance):
            raise ConflictError(CANNOT)
        former = instance.host_id
        _move_to(instance, row)
        if former is not None and former != row.host_id:
            send_destroy(instance.id, former, instance.attempt)


@when_broken_off
def discard(context: RequestContext, row: NewerGuest) -> None:
    """Destroy this guest and its disk, by decision of an operator. Raises ForbiddenError, ConflictError."""
    policy.enforce(context, RULE)
    with transaction.atomic():
        newer_guests.remove(row, _locked(row))


def acknowledge(context: RequestContext, row: NewerGuest) -> None:
    """Hide this newer guest from operators. Raises ForbiddenError, and ConflictError while the guest is undecided
    (``OPEN``).
    """
    policy.enforce(context, RULE)
    closed = NewerGuest.objects.filter(pk=row.pk).exclude(outcome=OPEN)
    if not closed.update(acknowledged_at=timezone.now()):
        raise ConflictError("Decide first: adopt the guest, or remove it.")


def _locked(row: NewerGuest) -> Instance:
    """Lock the server and return it. Raises ConflictError when the guest was already adopted, discarded or removed."""
    state.lock([row.instance_id])
    if not NewerGuest.objects.filter(pk=row.pk, outcome=OPEN).exists():
        raise ConflictError("This guest is already decided.")
    return Instance.objects.select_related("host").get(id=row.instance_id)


def _is_ordered(instance: Instance, attempt: int) -> bool:
    """Whether the server has a task, begun after the records were restored, whose command will reach the guest: the
    command's attempt is higher than the guest's.
    """
    return attempt < instance.attempt and instance.task_state not in (None, TaskState.SPAWNING)


def _insist(host_id: uuid.UUID, instance: Instance, attempt: int) -> None:
    """Send a destroy command with an attempt that the host accepts, because a delete cannot be undone."""
    number = max(attempt, instance.attempt) + 1
    if state.update(instance, {"attempt": number}):
        newer_guests.note(host_id, instance, attempt, PowerState.NOSTATE, REMOVED)
        send_destroy(instance.id, host_id, number)


def _follow(instance: Instance, attempt: int, power: PowerState) -> None:
    """Set the record's attempt to the attempt of its guest on the same host, and its state to the guest's state if the
    recorded state is impossible.
    """
    changes = _numbers(instance, attempt, instance.host_id)
    if instance.task_state is None and instance.vm_state in AT_REST:
        before = instance.attempt
        if state.update(instance, changes):
            raise_attempt(instance.id, before, instance.attempt)
            host_commands.withdraw(instance.id, instance.attempt)
            sync_power(instance, power)
        return
    if _end_task(instance, changes, power) and instance.host_id is not None:
        newer_guests.hold_back(instance.host_id, instance)


def _move_to(instance: Instance, row: NewerGuest) -> None:
    """Set the record to a guest on another host."""
    host, power = row.host, power_state_of(row.power_state) or PowerState.NOSTATE
    if not _end_task(instance, {**_numbers(instance, row.attempt, host.id), "host_id": host.id}, power):
        return
    instance.host = host
    occupy(instance, host.id)
    network.bind_ports(instance.id, host.name)
    network.set_ports_status(instance.id, "ACTIVE")
    _connect_volumes(instance, host)
    NewerGuest.objects.filter(pk=row.pk).update(outcome=FOLLOWED, last_seen_at=timezone.now())
    log.warning("The record of instance %s follows its guest on host %s.", instance.id, host.name)


def _numbers(instance: Instance, attempt: int, host_id: uuid.UUID | None) -> dict[str, Any]:
    """Return the columns of a record for a guest with this attempt on the host; the record's own attempt never
    decreases.

    The attempt is known from then on, so the guest no longer counts as newer: it is compared with the record like any
    other, and is removed when the server has left the host.
    """
    number = max(instance.attempt, attempt)
    lost = [
        [attempt, below, str(host_id)] if above <= attempt < below else [above, below, holder]
        for above, below, holder in instance.lost_attempts
    ]
    return {"attempt": number, "guest_attempt": attempt if attempt != number else None, "lost_attempts": lost}


def _end_task(instance: Instance, changes: dict[str, Any], power: PowerState) -> bool:
    """Set a record to the state of its guest, and end the task that the record contains. Returns False if the record
    has changed concurrently.
    """
    target, image_id, before = _STATE_OF.get(power, VmState.STOPPED), instance.snapshot_image_id, instance.attempt
    was, columns = copy(instance), {**_AFTER, **changes, "power_state": int(power)}
    if instance.launched_at is None:
        columns["launched_at"] = timezone.now()
    moved = state.advance(instance, FOLLOW.format(target.value), attempt=before, changes=columns)
    if moved is None:
        return False
    raise_attempt(moved.id, before, moved.attempt)
    drop_unfinished(was)
    host_commands.withdraw(moved.id, moved.attempt + 1)
    close_migration(moved.id)
    grow(moved.project_id, moved.id, quota_held(moved.flavor), refuse=False)
    commit(moved.id)
    network.set_ports_status(moved.id, "ACTIVE")
    instance_actions.finish_all(moved.id, message=SAID)
    if image_id is not None:
        remove_image(image_id)
    return True


def _connect_volumes(instance: Instance, host: Host) -> None:
    """Connect the server's recorded volumes to the guest's host."""
    keys = [device.attachment_id for device in block_devices.volumes_of(instance.id) if device.attachment_id]
    for attachment in Attachment.objects.filter(id__in=keys).exclude(host_id=host.id).order_by("id"):
        try:
            with transaction.atomic():
                attachments.connect(attachment, host)
        except NovellaError as error:
            log.warning("Volume %s of instance %s: %s", attachment.volume_id, instance.id, error.message)
