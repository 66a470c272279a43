"""The disks of servers that are there: what hosts are told of them, and how volumes are given back."""

import logging
import uuid
from collections.abc import Collection, Iterable, Sequence
from typing import Literal

from django.conf import settings
from django.db.models import UUIDField

from compute_agent.contract.build import GuestDisk, LocalDisk
from provisioning.common.context import RequestContext, new_request_id
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.common.prepared import Prepared
from provisioning.compute.errors import DifferentZoneError
from provisioning.compute.models import BlockDevice, Instance
from provisioning.volumes import selectors as volumes
from provisioning.volumes import services
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.services import attachments
from provisioning.volumes.states import VolumeStatus

log = logging.getLogger(__name__)

_OF_SERVER = Prepared(
    lambda instance_id: BlockDevice.objects.filter(instance_id=instance_id).order_by("position", "created_at"),
    instance_id=UUIDField(),
)
_KINDS: dict[str, Literal["disk", "cdrom", "lun"]] = {"disk": "disk", "cdrom": "cdrom", "lun": "lun"}
BEING_MADE = (VolumeStatus.CREATING, VolumeStatus.DOWNLOADING)


def devices_of(instance_id: uuid.UUID) -> list[BlockDevice]:
    """Return a server's disks in their order."""
    return list(_OF_SERVER(instance_id=instance_id))


def volumes_of(instance_id: uuid.UUID) -> list[BlockDevice]:
    """Return those that are volumes."""
    return [device for device in devices_of(instance_id) if device.is_volume]


def roots_among(attachment_ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Return those of the attachments from which their servers boot: they cannot be detached."""
    rows = BlockDevice.objects.filter(attachment_id__in=attachment_ids, boot_index=0)
    return {key for key in rows.values_list("attachment_id", flat=True) if key} if attachment_ids else set()


def boots_from_volume(instance: Instance) -> bool:
    """Whether its root disk is a volume: then it has no image, and takes no room of its host for it."""
    return instance.image_id is None


def check_zone(instance: Instance, volume: Volume) -> None:
    """Raise DifferentZoneError for a volume of another zone where that is not allowed (CROSS_AZ_ATTACH)."""
    if settings.CROSS_AZ_ATTACH:
        return
    zone = instance.host.availability_zone if instance.host else instance.availability_zone
    if zone and zone != volume.availability_zone:
        raise DifferentZoneError(
            f"Invalid volume: Instance {instance.id} and volume {volume.id} are not in the same availability_zone."
            f" Instance is in {zone}. Volume is in {volume.availability_zone}",
            field="volumeId",
        )


# ----- as hosts are told ----------------------------------------------------------------------------------------------


def guest_disks(instance: Instance, devices: Sequence[BlockDevice]) -> list[GuestDisk]:
    """Write the volumes that are connected to the server's host and not on their way out."""
    wanted = {device.attachment_id: device for device in devices if device.attachment_id and not device.leaving}
    if not wanted:
        return []
    rows = Attachment.objects.select_related("volume").filter(id__in=wanted).in_bulk()
    return [
        guest_disk(device, rows[key])
        for key, device in wanted.items()
        if key in rows and is_connected(rows[key], instance)
    ]


def guest_disk(device: BlockDevice, attachment: Attachment) -> GuestDisk:
    """Write a volume as the server has it."""
    return volumes.guest_disk(
        attachment,
        device=device.device_name.removeprefix("/dev/"),
        boot_index=device.boot_index,
        bus=device.disk_bus or "virtio",
        kind=_KINDS.get(device.device_type, "disk"),
        tag=device.tag,
    )


def is_connected(attachment: Attachment, instance: Instance) -> bool:
    """Whether the server's host may open the volume now."""
    return bool(attachment.connection) and attachment.host_id is not None and attachment.host_id == instance.host_id


def local_disks(instance: Instance, devices: Iterable[BlockDevice]) -> list[LocalDisk] | None:
    """Write the empty disks on the host when the launch said what they are to be; None: as the flavor says."""
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
    """Hear that the server of these volumes was built: its guest has every one that its host was told of."""
    for device in devices:
        if device.attachment_id is not None and not device.plugged and not device.leaving:
            attachments.complete(device.attachment_id, device.device_name)
            BlockDevice.objects.filter(id=device.id).update(plugged=True)


def disconnect(instance_id: uuid.UUID) -> None:
    """Take a server's volumes from the host that it leaves; they stay the server's, and wait for its next host."""
    for device in volumes_of(instance_id):
        if device.attachment_id is None:
            continue
        if device.leaving:
            take(device)
            continue
        attachments.disconnect(device.attachment_id)
        if device.swap_attachment_id is not None:
            attachments.release(device.swap_attachment_id)
    BlockDevice.objects.filter(instance_id=instance_id).update(
        plugged=False, swap_attachment_id=None, swap_volume_id=None
    )


def take(device: BlockDevice) -> None:
    """Take a volume from its server: it can be attached again."""
    BlockDevice.objects.filter(id=device.id).delete()
    if device.attachment_id is not None:
        attachments.release(device.attachment_id)


def give_back(instance_id: uuid.UUID, *, failed: bool = False) -> None:
    """Give a server's volumes back once no host has anything of it; those that go with it are deleted, but
    for one that is being taken out.

    ``failed``: its launch has failed, and only those that the launch has made go, whether or not they are there yet.
    """
    devices = devices_of(instance_id)
    if not devices:
        return
    attachments.release_all_of(instance_id)
    BlockDevice.objects.filter(instance_id=instance_id).delete()
    going = [device.volume_id for device in devices if device.volume_id and _goes(device, failed=failed)]
    for volume in Volume.objects.filter(id__in=going).order_by("id"):
        delete_volume(volume)


def _goes(device: BlockDevice, *, failed: bool) -> bool:
    return device.delete_on_termination and not device.leaving and (device.made or not failed)


def delete_volume(volume: Volume) -> None:
    """Delete a volume in the name of the cloud, also one that is still being made; one that has snapshots stays."""
    try:
        services.delete_volume(in_project(volume.project_id), volume.id, force=volume.status in BEING_MADE)
    except (ConflictError, InvalidInputError, NotFoundError) as error:
        log.warning("Volume %s was to go with its server, and stays: %s", volume.id, error.message)


def in_project(project_id: uuid.UUID, user_id: uuid.UUID | None = None, request_id: str = "") -> RequestContext:
    """Return the cloud itself as it acts in a project for one of its servers."""
    return RequestContext(
        user_id=user_id, user_name="novella", project_id=project_id, request_id=request_id or new_request_id()
    )
