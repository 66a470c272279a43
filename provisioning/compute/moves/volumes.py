"""Volumes of a server that is migrated live: they are connected to both hosts until the guest runs on one of them."""

import uuid
from collections.abc import Collection

from provisioning.compute.disks import block_devices
from provisioning.compute.models import BlockDevice, Instance
from provisioning.hosts.models import Host
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.services.connections import second_hosts
from provisioning.volumes.state_machine.state import keep_still

CHANGING = "Volume {volume} is being attached, detached or replaced."


def obstacles(instance_ids: Collection[uuid.UUID]) -> dict[uuid.UUID, str]:
    """Return server → why its volumes cannot be connected to a second host now; servers without an obstacle are
    omitted.
    """
    devices, result = block_devices.volumes_of_all(instance_ids), dict[uuid.UUID, str]()
    by_attachment = {device.attachment_id: device.instance_id for device in devices if device.attachment_id}
    for key, text in second_hosts.obstacles(by_attachment).items():
        result.setdefault(by_attachment[key], text)
    for device in devices:
        if device.attachment_id is None or device.leaving or not device.plugged or device.swap_attachment_id:
            result[device.instance_id] = CHANGING.format(volume=device.volume_id)
    return result


def lock(instance_id: uuid.UUID) -> None:
    """Lock the volumes of a locked server, before hosts are claimed."""
    keep_still(Volume.objects.filter(attachments__id__in=_attachments(instance_id)))


def connect(instance: Instance, target: Host) -> bool:
    """Connect the volumes to the target. Returns False if there are none.

    Raises InvalidVolumeError and UnavailableError.
    """
    keys = _attachments(instance.id)
    for key in keys:
        second_hosts.connect(key, target)
    return bool(keys)


def are_connected(instance: Instance) -> bool:
    """Whether all volumes are connected to the second host."""
    rows = Attachment.objects.filter(id__in=_attachments(instance.id))
    return not rows.filter(second_connection={}).exists()


def switch(instance: Instance) -> None:
    """Disconnect the volumes from the host that the guest has left."""
    second_hosts.switch(_attachments(instance.id))


def drop(instance: Instance) -> None:
    """Disconnect the volumes from the second host, where the guest does not run."""
    second_hosts.drop(_attachments(instance.id))


def _attachments(instance_id: uuid.UUID) -> list[uuid.UUID]:
    """Return the attachments in the order of their volumes, in which volumes are locked."""
    devices = BlockDevice.objects.filter(instance_id=instance_id, attachment_id__isnull=False)
    return [key for key in devices.order_by("volume_id").values_list("attachment_id", flat=True) if key]
