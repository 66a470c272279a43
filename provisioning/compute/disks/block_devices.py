"""Disks of existing servers: their description in commands to hosts, and the release of volumes."""

import logging
import uuid
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from django.conf import settings
from django.db.models import UUIDField

from compute_agent.contract.build import GuestDisk, LocalDisk
from compute_agent.contract.hardware import COLD_BUSES
from compute_agent.contract.power import PowerState
from provisioning.common.context import cloud_in_project
from provisioning.common.database.prepared import Prepared
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.common.values.ids import NOBODY
from provisioning.compute.errors import DifferentZoneError
from provisioning.compute.models import BlockDevice, Instance
from provisioning.volumes import selectors as volumes
from provisioning.volumes import services
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.services.connections import attachments
from provisioning.volumes.states import VolumeStatus

log = logging.getLogger(__name__)

_OF_SERVER = Prepared(
    lambda instance_id: BlockDevice.objects.filter(instance_id=instance_id).order_by("position", "created_at"),
    instance_id=UUIDField(),
)
_KINDS: dict[str, Literal["disk", "cdrom", "lun"]] = {"disk": "disk", "cdrom": "cdrom", "lun": "lun"}
_ON = (PowerState.RUNNING, PowerState.PAUSED)
BEING_MADE = (VolumeStatus.CREATING, VolumeStatus.DOWNLOADING)


def devices_of(instance_id: uuid.UUID) -> list[BlockDevice]:
    """Return a server's disks, in order of position."""
    return list(_OF_SERVER(instance_id=instance_id))


def volumes_of(instance_id: uuid.UUID) -> list[BlockDevice]:
    """Return the server's disks that are volumes."""
    return [device for device in devices_of(instance_id) if device.is_volume]


def volumes_of_all(instance_ids: Collection[uuid.UUID]) -> list[BlockDevice]:
    """Return the disks of several servers that are volumes, in no particular order."""
    rows = BlockDevice.objects.filter(instance_id__in=instance_ids) if instance_ids else ()
    return [device for device in rows if device.is_volume]


def roots_among(attachment_ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Return the attachments of boot volumes, which cannot be detached."""
    rows = BlockDevice.objects.filter(attachment_id__in=attachment_ids, boot_index=0)
    return {key for key in rows.values_list("attachment_id", flat=True) if key} if attachment_ids else set()


def boots_from_volume(instance: Instance) -> bool:
    """Whether the root disk is a volume. Such a server has no image, and its root disk needs no space on the host."""
    return instance.image_id is None


def check_zone(instance: Instance, volume: Volume) -> None:
    """Raise DifferentZoneError for a volume in another availability zone, unless CROSS_AZ_ATTACH allows it."""
    if settings.CROSS_AZ_ATTACH:
        return
    zone = instance.host.availability_zone if instance.host else instance.availability_zone
    if zone and zone != volume.availability_zone:
        raise DifferentZoneError(
            f"Invalid volume: Instance {instance.id} and volume {volume.id} are not in the same availability_zone."
            f" Instance is in {zone}. Volume is in {volume.availability_zone}",
            field="volumeId",
        )


def check_bus(instance: Instance, bus: str) -> None:
    """Raise InvalidInputError for a bus on which disks are attached and detached only while the server is stopped."""
    if bus in COLD_BUSES and instance.host_id is not None and instance.power_state in _ON:
        raise InvalidInputError(
            f"Invalid volume: instance {instance.id} is running, and a disk on the bus {bus} cannot be attached or"
            " detached while it is. Stop the instance first.",
            field="volumeId",
        )


# ----- descriptions for hosts ----------------------------------------------------------------------------------------


def guest_disks(instance: Instance, devices: Sequence[BlockDevice], *, second: bool = False) -> list[GuestDisk]:
    """Describe the volumes that are connected to the server's host and not being detached.

    ``second``: with the connections of the host that the server is being migrated to.
    """
    needed = {device.attachment_id: device for device in devices if device.attachment_id and not device.leaving}
    if not needed:
        return []
    rows = Attachment.objects.select_related("volume").filter(id__in=needed).in_bulk()
    if second:
        for row in rows.values():
            row.connection = row.second_connection
    return [
        guest_disk(device, rows[key])
        for key, device in needed.items()
        if key in rows and is_connected(rows[key], instance)
    ]


def guest_disk(device: BlockDevice, attachment: Attachment) -> GuestDisk:
    """Describe a volume as a disk of its server."""
    return volumes.guest_disk(
        attachment,
        device=device.device_name.removeprefix("/dev/"),
        boot_index=device.boot_index,
        bus=device.disk_bus or "virtio",
        kind=_KINDS.get(device.device_type, "disk"),
        tag=device.tag,
    )


def is_connected(attachment: Attachment, instance: Instance) -> bool:
    """Whether the volume is connected to the server's host."""
    return bool(attachment.connection) and attachment.host_id is not None and attachment.host_id == instance.host_id


def are_connected_elsewhere(instance: Instance) -> bool:
    """Whether a volume of the server is connected to another host than its own."""
    rows = Attachment.objects.filter(instance_id=instance.id, host__isnull=False)
    return rows.exclude(host_id=instance.host_id or NOBODY).exists()


def are_connecting(instance: Instance) -> bool:
    """Whether a volume of the server is still being connected to its host."""
    rows = Attachment.objects.filter(instance_id=instance.id, host_id=instance.host_id or NOBODY)
    return rows.filter(connection={}).exists()


def local_disks(instance: Instance, devices: Iterable[BlockDevice]) -> list[LocalDisk] | None:
    """Describe the ephemeral and swap disks, if the launch specified any; None: the flavor describes them."""
    local = [device for device in devices if not device.is_volume]
    if not local:
        return None
    flavor, disks = instance.flavor, list[LocalDisk]()
    swaps = [device for device in local if device.guest_format == "swap"]
    empty = [device for device in local if device.guest_format != "swap"]
    for device in empty:
        size_mb = (device.size or flavor["ephemeral_gb"]) * 1024
        disks.append(LocalDisk(size_mb=size_mb, format=device.guest_format, device=_short(device)))
    if not empty and flavor["ephemeral_gb"]:
        disks.append(LocalDisk(size_mb=flavor["ephemeral_gb"] * 1024))
    disks += [LocalDisk(size_mb=device.size or flavor["swap_mb"], swap=True, device=_short(device)) for device in swaps]
    if not swaps and flavor["swap_mb"]:
        disks.append(LocalDisk(size_mb=flavor["swap_mb"], swap=True))
    return disks


def _short(device: BlockDevice) -> str:
    return device.device_name.removeprefix("/dev/")


# ----- changes, inside the caller's transaction, with the server locked -----------------------------------------------


def plugged(devices: Iterable[BlockDevice]) -> None:
    """Record, after a build, that the guest has all volumes of its server."""
    for device in devices:
        if device.attachment_id is not None and not device.plugged and not device.leaving:
            attachments.complete(device.attachment_id, device.device_name)
            BlockDevice.objects.filter(id=device.id).update(plugged=True)


def disconnect(instance_id: uuid.UUID) -> None:
    """Disconnect a server's volumes from the host that it leaves; they stay attached to the server and wait for its
    next host.
    """
    for device in volumes_of(instance_id):
        if device.attachment_id is None:
            continue
        if device.leaving:
            remove(device)
            continue
        attachments.disconnect(device.attachment_id)
        if device.swap_attachment_id is not None:
            attachments.release(device.swap_attachment_id)
    BlockDevice.objects.filter(instance_id=instance_id).update(
        plugged=False, swap_attachment_id=None, swap_volume_id=None
    )


def remove(device: BlockDevice) -> None:
    """Remove a volume from its server; the volume becomes available."""
    BlockDevice.objects.filter(id=device.id).delete()
    if device.attachment_id is not None:
        attachments.release(device.attachment_id)


def release_all(instance_id: uuid.UUID, devices: Sequence[BlockDevice] | None = None, *, failed: bool = False) -> None:
    """Detach a server's volumes after its removal from all hosts, and delete those with ``delete_on_termination``.

    ``devices`` are the server's disks if the caller has read them since it locked the server. A volume that was being
    detached is never deleted. ``failed``: the launch has failed; only volumes that the launch
    created are deleted, even if they are still being created.
    """
    if devices is None:
        devices = devices_of(instance_id)
    if not devices:
        return
    attachments.release_all_of(instance_id)
    BlockDevice.objects.filter(instance_id=instance_id).delete()
    going = [
        device.volume_id for device in devices if device.volume_id and _is_deleted_with_server(device, failed=failed)
    ]
    for volume in Volume.objects.filter(id__in=going).order_by("id"):
        delete_volume(volume)


def _is_deleted_with_server(device: BlockDevice, *, failed: bool) -> bool:
    return device.delete_on_termination and not device.leaving and (device.made or not failed)


def delete_volume(volume: Volume) -> None:
    """Delete a volume on behalf of the cloud, even if it is still being created; a volume with snapshots is kept."""
    try:
        request = services.VolumeDeletion(force=volume.status in BEING_MADE)
        services.Delete.begin(cloud_in_project(volume.project_id), volume.id, request)
    except (ConflictError, InvalidInputError, NotFoundError) as error:
        log.warning("Volume %s could not be deleted with its server: %s", volume.id, error.message)
