"""Volumes as disks of guests."""

import uuid
from typing import Literal

import msgspec

from compute_agent.contract.build import GuestDisk, VolumeConnection
from provisioning.volumes.models import Attachment, Volume, VolumeType
from provisioning.volumes.records import disk_limits


def attachments_of(instance_id: uuid.UUID) -> list[Attachment]:
    """Return the attachments of a server, oldest first, each with its volume."""
    rows = Attachment.objects.filter(instance_id=instance_id)
    return list(rows.select_related("volume__volume_type__qos_spec", "host").order_by("created_at", "id"))


def connection_of(attachment: Attachment) -> VolumeConnection | None:
    """Return the connection of a guest to the volume; None until its storage daemon is ready."""
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
    """Return the disk of an attached volume, for its guest's host. Without a connection the export is empty."""
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
    """Return the limits that the hypervisor applies to a volume, by libvirt's names; empty: none."""
    return limits_of(volume.volume_type, volume.size_gb)


def limits_of(volume_type: VolumeType | None, size_gb: int) -> dict[str, int]:
    """Return the limits of a volume of this type and size, by libvirt's names."""
    spec = volume_type.qos_spec if volume_type else None
    if spec is None or spec.consumer == "back-end":
        return {}
    return disk_limits.kept(disk_limits.limits_in(spec.specs, size_gb))
