"""Attach, detach and refresh volumes of an existing server.

As with interfaces, the server has no task state during these actions. The request reserves the volume for the server
and asks a storage host to connect it to the server's host, which takes some time. When it is connected, ``volume_user``
continues, and the server's host plugs it into the guest.
"""

import logging
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, ClassVar, Generic

from django.conf import settings
from django.db import transaction
from django.utils import timezone

from compute_agent.contract.build import GuestDisk, VolumeConnection
from compute_agent.contract.commands import (
    AttachVolumeRequest,
    DetachVolumeRequest,
    RefreshVolumeRequest,
)
from provisioning.common.context import RequestContext, cloud_in_project
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.compute import selectors
from provisioning.compute.actions.base import COULD_NOT, B, Prepared, R, check_lock
from provisioning.compute.actions.taskless import TasklessAction
from provisioning.compute.disks import block_devices, device_names
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.host_link.guest_spec import guest_spec
from provisioning.compute.host_link.outcome import Outcome
from provisioning.compute.launch.block_devices import OLD_MULTIATTACH
from provisioning.compute.models import BlockDevice, Instance, InstanceAction
from provisioning.compute.notifications import Note, notify
from provisioning.compute.records import host_commands, instance_actions
from provisioning.compute.records.faults import record_fault
from provisioning.compute.state_machine import state
from provisioning.compute.states import VmState
from provisioning.hosts.models import Host
from provisioning.volumes import selectors as volumes
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.services.connections import attachments
from provisioning.volumes.states import AttachStatus

log = logging.getLogger(__name__)

NOT_TAKEN_BACK = "not_taken_back"
"""Code of a host's report: the attach failed, and the disk may still be in the guest."""


@dataclass(frozen=True, slots=True)
class VolumeToAttach:
    """A volume to attach to a server."""

    volume_id: str
    device: str = ""
    """Requested device name; replaced when it is not available."""
    tag: str = ""
    delete_on_termination: bool = False
    shared: bool = True
    """Whether a multiattach volume is accepted (from microversion 2.60 on)."""


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


class AttachVolume(VolumeAction[VolumeToAttach, AttachVolumeRequest]):
    """Attach a volume to a server; an offloaded server gets it when it is unshelved.

    Also raises InvalidInputError for a volume that cannot be attached, NotFoundError and ForbiddenError.
    """

    key = record = "attach_volume"
    done = "Volume attached"
    notification = "volume_attach"
    body = AttachVolumeRequest

    def start(
        self, context: RequestContext, instance: Instance, request: VolumeToAttach, started: datetime
    ) -> Instance:
        """Reserve the volume and connect it; the command is sent when it is connected."""
        volume = volumes.volume_for(context.in_project(instance.project_id), request.volume_id)
        if not self.offered(instance):
            raise InstanceBusyError(self.record, instance.id, instance.vm_state, instance.task_state)
        host = None if instance.vm_state == VmState.SHELVED_OFFLOADED else self.host_of(instance, started)
        device = self._add(context, instance, request, volume, host)
        detail = {"volume_id": str(device.volume_id), "device": device.device_name}
        row = self.write_begin(context, instance, started, detail)
        if self.notification:
            more = {"volume_id": str(device.volume_id)}
            notify(instance, f"{self.notification}.start", Note(context, more=more))
        if host is None:
            attachments.complete(_key(device), device.device_name)  # as Nova: it is in use until its next host opens it
            self.close(row, None)
        state.announce_all(instance, [{}])
        return instance

    @staticmethod
    def _add(
        context: RequestContext, instance: Instance, request: VolumeToAttach, volume: Volume, host: Host | None
    ) -> BlockDevice:
        """Reserve the volume for the server and connect it to the host, inside the caller's transaction."""
        device_names.check_path(request.device)
        devices = block_devices.devices_of(instance.id)
        if any(device.volume_id == volume.id for device in devices):
            raise InvalidInputError(f"Invalid volume: volume {volume.id} already attached", field="volumeId")
        if volume.multiattach and not request.shared:
            raise InvalidInputError(OLD_MULTIATTACH, field="volumeId")
        block_devices.check_zone(instance, volume)
        device = BlockDevice(
            instance=instance,
            position=max((each.position for each in devices), default=-1) + 1,
            source_type="volume",
            destination_type="volume",
            volume_id=volume.id,
            size=volume.size_gb,
            delete_on_termination=request.delete_on_termination,
            device_name=request.device,
            tag=request.tag,
        )
        hardware = device_names.hardware_of(instance.image_properties, instance.flavor)
        device_names.choose([device], device_names.taken(instance, devices), hardware)
        block_devices.check_bus(instance, device.disk_bus)
        device.attachment_id = _reserve(context, instance, volume, device.device_name, host).id
        device.save(force_insert=True)
        return device

    def command(self, instance: Instance, prepared: Prepared) -> AttachVolumeRequest:
        """Describe the guest with the disk."""
        spec = guest_spec(instance)
        disk = next(disk for disk in spec.volumes if disk.attachment_id == str(prepared.value))
        return AttachVolumeRequest(instance=spec, disk=disk)

    def go_on(self, instance: Instance, device: BlockDevice) -> None:
        """Send the command once the volume is connected to the host."""
        if instance.host is not None and not device.plugged and not device.leaving:
            self.send(instance.host, instance, self.command(instance, Prepared(value=device.attachment_id)))

    def give_up(self, instance: Instance, device: BlockDevice, message: str) -> None:
        """Abort the attachment of a volume that could not be connected, and release the volume."""
        block_devices.remove(device)
        self.report_failure(instance, device, message)

    def end(self, instance: Instance, body: AttachVolumeRequest, outcome: Outcome) -> Instance | None:
        """Record the attachment, or release the volume after a failure.

        If the guest may have the disk in spite of the failure, or a queued command would plug it in, a detach command
        without deadline is sent first. The volume is released only after that command.
        """
        device = device_of(body.disk.attachment_id)
        if device is None or device.instance_id != instance.id:
            return None
        if outcome.well:
            attachments.complete(_key(device), device.device_name)
            BlockDevice.objects.filter(id=device.id).update(plugged=True)
        elif not (outcome.silent or outcome.code == NOT_TAKEN_BACK or host_commands.is_busy_with(instance.id)):
            block_devices.remove(device)
        elif not device.leaving:
            send_detach(instance, device, body.disk)
        return super().end(instance, body, outcome)


class DetachVolume(VolumeAction[str, DetachVolumeRequest]):
    """Detach a volume from a server; the request is the volume's id. A volume that is already being detached stays
    unchanged.
    """

    key = record = "detach_volume"
    done = "Volume detached"
    notification = "volume_detach"
    from_states = (*VolumeAction.from_states, VmState.SUSPENDED)
    body = DetachVolumeRequest

    def start(self, context: RequestContext, instance: Instance, request: str, started: datetime) -> Instance:
        """Begin. If the server is offloaded, or its guest has already closed the volume, detach the volume without a
        command.
        """
        device = find_device(instance, request)
        if not self.offered(instance):
            raise InstanceBusyError(self.record, instance.id, instance.vm_state, instance.task_state)
        if device.leaving:
            return instance
        if device.is_root:
            raise InvalidInputError("Cannot detach a root device volume", field="volumeId")
        if instance.vm_state != VmState.SHELVED_OFFLOADED and not _is_closed(device):
            return super().start(context, instance, request, started)
        block_devices.remove(device)
        row = self.write_begin(context, instance, started, {"volume_id": str(device.volume_id)})
        self.close(row, None)
        state.announce_all(instance, [{}])
        return instance

    def prepare(self, context: RequestContext, instance: Instance, request: str) -> Prepared:
        """Mark the volume as being detached (``leaving``), so that later commands omit it."""
        device = find_device(instance, request)
        attachment = Attachment.objects.select_related("volume").get(id=_key(device))
        if not device.plugged or attachment.status != AttachStatus.ATTACHED or device.swap_attachment_id is not None:
            raise InvalidInputError(
                f"Invalid volume: Unable to detach volume. Volume status must be 'in-use' and attach_status must be"
                f" 'attached' to detach. Currently: status: '{attachment.volume.status}', attach_status:"
                f" '{attachment.status}.'",
                field="volumeId",
            )
        block_devices.check_bus(instance, device.disk_bus)
        attachments.begin_detaching(attachment.id)
        BlockDevice.objects.filter(id=device.id).update(leaving=True)
        disk = block_devices.guest_disk(device, attachment)
        return Prepared(value=disk, detail={"volume_id": str(device.volume_id), "device": device.device_name})

    def command(self, instance: Instance, prepared: Prepared) -> DetachVolumeRequest:
        """Describe the guest without the disk."""
        return DetachVolumeRequest(instance=guest_spec(instance), disk=prepared.value)

    def end(self, instance: Instance, body: DetachVolumeRequest, outcome: Outcome) -> Instance | None:
        """Release the volume, or keep it attached after a failure.

        If the host may have unplugged the disk in spite of the failure, or a queued command would do so, an attach
        command is sent.
        """
        device = device_of(body.disk.attachment_id)
        if device is not None and device.instance_id == instance.id:
            if outcome.well:
                block_devices.remove(device)
            else:
                attachments.roll_detaching(_key(device))
                BlockDevice.objects.filter(id=device.id).update(leaving=False)
                if outcome.silent or host_commands.is_busy_with(instance.id):
                    device.leaving = False
                    send_attach(instance, device)
        return super().end(instance, body, outcome)


def _is_closed(device: BlockDevice) -> bool:
    """Whether the volume's host has reported, after a loss of database records, that the guest no longer has the volume
    open.
    """
    waiting = Attachment.objects.filter(id=_key(device), status=AttachStatus.RESERVED, host=None, connection={})
    return device.plugged and waiting.exists()


class RefreshVolume(TasklessAction[None, RefreshVolumeRequest]):
    """Update a volume's disk on the server's host; started by the system. Only an extend has an action record."""

    key, record = "refresh_volume", "extend_volume"
    done, doing = "Volume extended", "Extending a volume"
    timeout = "POWER_TIMEOUT"
    body = RefreshVolumeRequest

    def command(self, instance: Instance, prepared: Prepared) -> RefreshVolumeRequest:
        spec = guest_spec(instance)
        disk = next(disk for disk in spec.volumes if disk.attachment_id == str(prepared.value))
        return RefreshVolumeRequest(instance=spec, disk=disk)

    def end(self, instance: Instance, body: RefreshVolumeRequest, outcome: Outcome) -> Instance | None:
        """Report to the volume that the guest uses its new state; a failure is recorded as a fault of the server."""
        if outcome.well:
            attachment = Attachment.objects.filter(id=body.disk.attachment_id).select_related("volume").first()
            if attachment is not None:
                attachments.refreshed(attachment)
        else:
            log.warning("Volume %s of instance %s was not updated: %s", body.disk.id, instance.id, outcome.message)
            message = outcome.message or COULD_NOT
            record_fault(instance, message, details=f"{self.key}: {outcome.code}", host_name=instance.host_name)
        self.write_end(instance, instance_actions.current(instance.id, self.record), outcome)
        return instance


@when_broken_off
def attach_volume(context: RequestContext, instance_id: uuid.UUID | str, requested: VolumeToAttach) -> BlockDevice:
    """Attach a volume to a server; returns its disk. Raises the errors of ``AttachVolume``."""
    with transaction.atomic():
        instance = AttachVolume.begin(context, instance_id, requested)
        return find_device(instance, requested.volume_id)


def detach_volume(context: RequestContext, instance_id: uuid.UUID | str, volume_id: str) -> None:
    """Detach a volume from a server. Raises NotFoundError, InvalidInputError, and the errors of host actions."""
    DetachVolume.begin(context, instance_id, volume_id)


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
    status = Attachment.objects.filter(id=_key(device)).values_list("status", flat=True).first()
    return device.plugged and not device.leaving and status == AttachStatus.ATTACHED


def device_of(attachment_id: str | uuid.UUID) -> BlockDevice | None:
    """Return the disk of an attachment; None when it does not exist."""
    return BlockDevice.objects.filter(attachment_id=attachment_id or NOBODY).first()


def send_refresh(instance: Instance, device: BlockDevice, *, extended: bool = False) -> None:
    """Update a disk on the server's host after its volume changed. ``extended``: the server gets an action record."""
    if instance.host is not None and extended:
        owner = cloud_in_project(instance.project_id, instance.user_id)
        RefreshVolume().write_begin(owner, instance, timezone.now(), {"volume": str(device.volume_id)})
    if instance.host is not None:
        RefreshVolume().send(
            instance.host, instance, RefreshVolume().command(instance, Prepared(value=device.attachment_id))
        )


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


def send_attach(instance: Instance, device: BlockDevice) -> None:
    """Send the command to plug in a disk that the guest may have lost."""
    body = AttachVolume().command(instance, Prepared(value=device.attachment_id))
    deadline = timezone.now() + timedelta(seconds=settings.POWER_TIMEOUT)
    if instance.host_id is not None:
        host_commands.send(instance.host_id, instance.id, instance.attempt, body, deadline, beside=True)


def _reserve(context: RequestContext, instance: Instance, volume: Volume, name: str, host: Host | None) -> Attachment:
    owner = context.in_project(instance.project_id)
    try:
        return attachments.reserve(owner, volume.id, instance.id, mountpoint=name, host=host)
    except (ConflictError, InvalidInputError) as error:
        raise InvalidInputError(f"Invalid volume: {error.message}", field="volumeId") from error


def _key(device: BlockDevice) -> uuid.UUID:
    if device.attachment_id is None:
        raise ConflictError("The volume is not attached.")
    return device.attachment_id
