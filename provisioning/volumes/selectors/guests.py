"""Volumes as guests have them."""

import uuid
from typing import Literal

import msgspec

from compute_agent.contract.build import GuestDisk, VolumeConnection
from provisioning.volumes import disk_limits
from provisioning.volumes.models import Attachment, Volume, VolumeType


def attachments_of(instance_id: uuid.UUID) -> list[Attachment]:
    """Return the attachments of a server, oldest first, each with its volume."""
    rows = Attachment.objects.filter(instance_id=instance_id)
    return list(rows.select_related("volume__volume_type__qos_spec", "host").order_by("created_at", "id"))


def connection_of(attachment: Attachment) -> VolumeConnection | None:
    """Return how the guest reaches the volume; None while its storage daemon is not ready."""
    return msgspec.convert(attachment.connection, VolumeConnection) if attachment.connection else None


def guest_disk(
    attachment: Attachment,
    *,
    device: str = "",
    boot_index: int | None = None,
    bus: str = "virtio",
    kind: Literal["disk", "cdrom", "lun"] = "disk",
    tag: str = "",
) -> GuestDisk:
    """Write an attached volume as its guest's host is told of it; one that is not connected has an empty export."""
    volume = attachment.volume
    return GuestDisk(
        id=str(volume.id),
        attachment_id=str(attachment.id),
        size_gb=volume.size_gb,
        connection=connection_of(attachment) or VolumeConnection(export=""),
        device=device or attachment.mountpoint.removeprefix("/dev/"),
        boot_index=boot_index,
        read_only=attachment.mode == "ro",
        shareable=volume.multiattach,
        bus=bus,
        kind=kind,
        tag=tag,
        iotune=iotune_of(volume),
        serial=str(volume.id),
    )


def iotune_of(volume: Volume) -> dict[str, int]:
    """Return the limits that the hypervisor keeps for a volume, by libvirt's names; empty: none."""
    return limits_of(volume.volume_type, volume.size_gb)


def limits_of(volume_type: VolumeType | None, size_gb: int) -> dict[str, int]:
    """Return the limits of a volume of this type and size."""
    spec = volume_type.qos_spec if volume_type else None
    if spec is None or spec.consumer == "back-end":
        return {}
    return disk_limits.kept(disk_limits.asked(spec.specs, size_gb))
