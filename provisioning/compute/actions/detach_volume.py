"""Detach a volume from an existing server: the server's host unplugs it from the guest, then it is released."""

import uuid
from datetime import datetime

from compute_agent.contract.commands import DetachVolumeRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.compute.actions.base import Prepared
from provisioning.compute.actions.volumes import VolumeAction, attachment_of, device_of, find_device, send_attach
from provisioning.compute.disks import block_devices
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.host_link.guest_spec import guest_spec
from provisioning.compute.host_link.outcome import Outcome
from provisioning.compute.models import BlockDevice, Instance
from provisioning.compute.records import host_commands
from provisioning.compute.state_machine import state
from provisioning.compute.states import VmState
from provisioning.volumes.models import Attachment
from provisioning.volumes.services.connections import attachments
from provisioning.volumes.states import AttachStatus


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
            self.host_of(instance, started)
            return self.carry_out(context, instance, _leave(instance, device), started)
        block_devices.remove(device)
        row = self.write_begin(context, instance, started, {"volume_id": str(device.volume_id)})
        self.close(row, None)
        state.announce_all(instance, [{}])
        return instance

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
                attachments.roll_detaching(attachment_of(device))
                BlockDevice.objects.filter(id=device.id).update(leaving=False)
                if outcome.silent or host_commands.is_busy_with(instance.id):
                    device.leaving = False
                    send_attach(instance, device)
        return super().end(instance, body, outcome)


def _leave(instance: Instance, device: BlockDevice) -> Prepared:
    """Mark the volume as being detached (``leaving``), so that later commands omit it. Raises InvalidInputError for
    a volume that the guest does not have, or on a bus from which a running guest cannot lose it.
    """
    attachment = Attachment.objects.select_related("volume").get(id=attachment_of(device))
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


def _is_closed(device: BlockDevice) -> bool:
    """Whether the volume's host has reported, after a loss of database records, that the guest no longer has the volume
    open.
    """
    waiting = Attachment.objects.filter(
        id=attachment_of(device), status=AttachStatus.RESERVED, host=None, connection={}
    )
    return device.plugged and waiting.exists()


def detach_volume(context: RequestContext, instance_id: uuid.UUID | str, volume_id: str) -> None:
    """Detach a volume from a server. Raises NotFoundError, InvalidInputError, and the errors of host actions."""
    DetachVolume.begin(context, instance_id, volume_id)
