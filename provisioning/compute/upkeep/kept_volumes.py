"""Restores attachments that were lost with records, if the guests of the servers still have the volumes open."""

import logging
import uuid

from provisioning.compute.disks import block_devices, device_names
from provisioning.compute.models import BlockDevice, Instance, InstanceActionEvent
from provisioning.compute.state_machine import state
from provisioning.volumes.inbound import kept_open
from provisioning.volumes.models import Attachment, Volume

log = logging.getLogger(__name__)


def attach_reported(instance: Instance, volume: Volume, attachment: Attachment) -> None:
    """Attach the guest's volume to a locked server, in the caller's transaction.

    Ignored for a volume of another project, because a host's report alone does not justify it.
    """
    if volume.project_id != instance.project_id:
        log.warning("The guest of instance %s has the volume %s of another project.", instance.id, volume.id)
        return
    device = _device(instance, volume)
    if kept_open.assign(attachment, instance.id, device.device_name):
        device.attachment_id, device.plugged, device.leaving = attachment.id, True, False
        device.save()
        state.announce_all(instance, [{}])
        log.warning("Instance %s got the volume %s back, which its guest has.", instance.id, volume.id)


def was_given(instance: Instance, volume_id: uuid.UUID) -> bool:
    """Whether the server's history contains an attachment or detachment of the volume."""
    steps = InstanceActionEvent.objects.filter(action__instance_id=instance.id, detail__volume_id=str(volume_id))
    return steps.exists()


def _device(instance: Instance, volume: Volume) -> BlockDevice:
    """Return the disk of the volume, or a new one with the next free name, which may differ from the guest's."""
    devices = block_devices.devices_of(instance.id)
    for each in devices:
        if each.volume_id == volume.id:
            return each
    device = BlockDevice(
        instance=instance,
        position=max((each.position for each in devices), default=-1) + 1,
        source_type="volume",
        destination_type="volume",
        volume_id=volume.id,
        size=volume.size_gb,
    )
    hardware = device_names.hardware_of(instance.image_properties, instance.flavor)
    device_names.choose([device], device_names.taken(instance, devices), hardware)
    return device
