"""The base of the actions that change the volumes of an existing server, and commands that several of them send.

As with interfaces, the server has no task state during these actions.
"""

import uuid
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, ClassVar, Generic

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from compute_agent.contract.build import GuestDisk, VolumeConnection
from compute_agent.contract.commands import AttachVolumeRequest, DetachVolumeRequest
from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, NotFoundError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.compute import selectors
from provisioning.compute.actions.base import B, R, check_lock
from provisioning.compute.actions.taskless import TasklessAction
from provisioning.compute.disks import block_devices
from provisioning.compute.host_link.guest_spec import guest_spec
from provisioning.compute.models import BlockDevice, Instance, InstanceAction
from provisioning.compute.notifications import Note, notify
from provisioning.compute.records import host_commands, instance_actions
from provisioning.compute.records.instance_actions import record_fault
from provisioning.compute.state_machine import state
from provisioning.compute.states import VmState
from provisioning.volumes.models import Attachment
from provisioning.volumes.states import AttachStatus


class VolumeAction(TasklessAction[R, B], Generic[R, B]):
    """Base class of actions that change the volumes of a server; they lock the server."""

    from_states: ClassVar[tuple[VmState, ...]] = (
        VmState.ACTIVE,
        VmState.PAUSED,
        VmState.STOPPED,
        VmState.RESIZED,
        VmState.SOFT_DELETED,
        VmState.SHELVED,
        VmState.SHELVED_OFFLOADED,
    )
    timeout = "POWER_TIMEOUT"
    takes_request = True

    def find(self, context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
        """Lock the server and return its current state. Raises NotFoundError."""
        return locked_instance(context, instance_id)

    def report_failure(self, instance: Instance, device: BlockDevice, message: str) -> None:
        """Report that a volume could not be connected, and close its action record."""
        record_fault(instance, message, details=f"{self.record}: not connected", host_name=instance.host_name)
        note = Note(fault=message, cause="not connected", more=self.device_notification_fields(device))
        notify(instance, f"{self.notification}.error", note)
        row = instance_actions.of_volume(instance.id, self.record, str(device.volume_id))
        if row is not None:
            self.close(row, message)
        state.announce_all(instance, [{}])

    def notification_fields(self, body: B) -> Mapping[str, Any]:
        disk: GuestDisk = body.disk  # type: ignore[union-attr] # SwapVolume overrides this method
        return {"volume_id": disk.id}

    def device_notification_fields(self, device: BlockDevice) -> Mapping[str, Any]:
        """Return the additional fields of a notification when no command was sent."""
        return {"volume_id": str(device.volume_id)}

    def row_of(self, instance: Instance, body: B) -> InstanceAction | None:
        """Return the action record of this volume."""
        disk: GuestDisk = getattr(body, "disk", None) or body.old  # type: ignore[union-attr] # swaps have no disk
        row = instance_actions.of_volume(instance.id, self.record, disk.id)
        if row is None:
            state.announce_all(instance, [{}])
        return row


@when_broken_off
def keep_or_delete(
    context: RequestContext, instance_id: uuid.UUID | str, volume_id: str, *, delete_on_termination: bool
) -> None:
    """Set whether a volume is deleted with its server. Raises NotFoundError, InstanceLockedError."""
    with transaction.atomic():
        instance = locked_instance(context, instance_id)
        check_lock(context, instance)
        device = find_device(instance, volume_id)
        BlockDevice.objects.filter(id=device.id).update(delete_on_termination=delete_on_termination)


# ----- inside the caller's transaction, with the server locked --------------------------------------------------------


def locked_instance(context: RequestContext, instance_id: uuid.UUID | str) -> Instance:
    """Lock a server and return its current state. Raises NotFoundError."""
    state.lock([selectors.instance_for(context, instance_id).id])
    return selectors.instance_for(context, instance_id)


def find_device(instance: Instance, volume_id: str) -> BlockDevice:
    """Return the server's disk that is this volume. Raises NotFoundError."""
    requested = read_id(volume_id)
    for device in block_devices.volumes_of(instance.id):
        if requested is not None and device.volume_id == requested:
            return device
    raise NotFoundError(f"Instance {instance.id} is not attached to volume {volume_id[:64]}")


def is_attached(device: BlockDevice) -> bool:
    """Whether the guest has the disk, and no change of it is in progress."""
    status = Attachment.objects.filter(id=attachment_of(device)).values_list("status", flat=True).first()
    return device.plugged and not device.leaving and status == AttachStatus.ATTACHED


def device_of(attachment_id: str | uuid.UUID) -> BlockDevice | None:
    """Return the disk of an attachment; None when it does not exist."""
    return BlockDevice.objects.filter(attachment_id=attachment_id or NOBODY).first()


def attachment_of(device: BlockDevice) -> uuid.UUID:
    """Return the id of a disk's attachment. Raises ConflictError if it has none."""
    if device.attachment_id is None:
        raise ConflictError("The volume is not attached.")
    return device.attachment_id


def send_detach(instance: Instance, device: BlockDevice, disk: GuestDisk) -> None:
    """Send the command to detach a disk, without a deadline. Later commands omit the disk."""
    BlockDevice.objects.filter(id=device.id).update(leaving=True)
    body = DetachVolumeRequest(instance=guest_spec(instance), disk=disk, force=True)
    if instance.host_id is not None:
        host_commands.send(instance.host_id, instance.id, instance.attempt, body, None, beside=True)


def send_removal(instance: Instance, volume_id: uuid.UUID, attachment_id: str = "") -> None:
    """Send the command, without a deadline, to unplug a volume that no longer belongs to the server."""
    nowhere = VolumeConnection(export="")
    disk = GuestDisk(id=str(volume_id), attachment_id=attachment_id, size_gb=0, connection=nowhere)
    body = DetachVolumeRequest(instance=guest_spec(instance), disk=disk, force=True)
    if instance.host_id is not None:
        host_commands.send(instance.host_id, instance.id, instance.attempt, body, None, beside=True)


def attach_request(instance: Instance, device: BlockDevice) -> AttachVolumeRequest:
    """Return the command to plug in a connected volume: the guest with the disk, and the disk."""
    spec = guest_spec(instance)
    disk = next(disk for disk in spec.volumes if disk.attachment_id == str(device.attachment_id))
    return AttachVolumeRequest(instance=spec, disk=disk)


def send_attach(instance: Instance, device: BlockDevice) -> None:
    """Send the command to plug in a disk that the guest may have lost."""
    body = attach_request(instance, device)
    deadline = timezone.now() + timedelta(seconds=settings.POWER_TIMEOUT)
    if instance.host_id is not None:
        host_commands.send(instance.host_id, instance.id, instance.attempt, body, deadline, beside=True)
