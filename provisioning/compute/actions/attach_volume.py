"""Attach a volume to an existing server.

The request reserves the volume for the server and asks a storage host to connect it to the server's host, which takes
some time. When it is connected, ``volume_user`` calls ``go_on``, and the server's host plugs it into the guest.
"""

import uuid
from dataclasses import dataclass
from datetime import datetime

from django.db import transaction

from compute_agent.contract.commands import AttachVolumeRequest
from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ConflictError, InvalidInputError
from provisioning.compute.actions.base import Prepared
from provisioning.compute.actions.volumes import (
    VolumeAction,
    attach_request,
    attachment_of,
    device_of,
    find_device,
    send_detach,
)
from provisioning.compute.disks import block_devices, device_names
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.host_link.outcome import Outcome
from provisioning.compute.launch.block_devices import OLD_MULTIATTACH
from provisioning.compute.models import BlockDevice, Instance
from provisioning.compute.notifications import Note, notify
from provisioning.compute.records import host_commands
from provisioning.compute.state_machine import state
from provisioning.compute.states import VmState
from provisioning.hosts.models import Host
from provisioning.volumes import selectors as volumes
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.services.connections import attachments

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
            # as Nova: it is in use until its next host opens it
            attachments.complete(attachment_of(device), device.device_name)
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
        return attach_request(instance, prepared.value)

    def go_on(self, instance: Instance, device: BlockDevice) -> None:
        """Send the command once the volume is connected to the host."""
        if instance.host is not None and not device.plugged and not device.leaving:
            self.send(instance.host, instance, attach_request(instance, device))

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
            attachments.complete(attachment_of(device), device.device_name)
            BlockDevice.objects.filter(id=device.id).update(plugged=True)
        elif not (outcome.silent or outcome.code == NOT_TAKEN_BACK or host_commands.is_busy_with(instance.id)):
            block_devices.remove(device)
        elif not device.leaving:
            send_detach(instance, device, body.disk)
        return super().end(instance, body, outcome)


@when_broken_off
def attach_volume(context: RequestContext, instance_id: uuid.UUID | str, requested: VolumeToAttach) -> BlockDevice:
    """Attach a volume to a server; returns its disk. Raises the errors of ``AttachVolume``."""
    with transaction.atomic():
        instance = AttachVolume.begin(context, instance_id, requested)
        return find_device(instance, requested.volume_id)


def _reserve(context: RequestContext, instance: Instance, volume: Volume, name: str, host: Host | None) -> Attachment:
    owner = context.in_project(instance.project_id)
    try:
        return attachments.reserve(owner, volume.id, instance.id, mountpoint=name, host=host)
    except (ConflictError, InvalidInputError) as error:
        raise InvalidInputError(f"Invalid volume: {error.message}", field="volumeId") from error
