"""The sources of new volumes: found for the caller, validated, and converted to specs for hosts."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from uuid import UUID

from compute_agent.contract.volume import VolumeSource
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.numbers import GIB
from provisioning.images.models import Image
from provisioning.images.records.properties import FOUND, text_of
from provisioning.images.records.references import image_ref
from provisioning.images.selectors import image_for
from provisioning.images.selectors.access import usable
from provisioning.volumes.errors import InvalidSnapshotError, InvalidVolumeError
from provisioning.volumes.host_link.host_commands import data_id_of
from provisioning.volumes.models import Backup, Volume, VolumeType
from provisioning.volumes.records import keys
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.selectors import snapshot_for, volume_for
from provisioning.volumes.selectors.copies import backup_for
from provisioning.volumes.states import BackupStatus, SnapshotStatus, VolumeStatus

FORMATS = frozenset({"raw", "qcow2", "vmdk", "vdi", "vhd", "vhdx"})
VOLUME_TYPE = "cinder_img_volume_type"
"""The image property with the type of volumes that are created from the image."""
COPYABLE = (VolumeStatus.AVAILABLE, VolumeStatus.IN_USE)


@dataclass(frozen=True, slots=True)
class Source:
    """The source of a new volume: its spec for hosts, and the columns that the new volume inherits."""

    body: VolumeSource = field(default_factory=VolumeSource)
    columns: Mapping[str, object] = field(default_factory=dict)
    least_gb: int = 0
    default_gb: int | None = None
    pool_id: UUID | None = None
    volume_type: VolumeType | None = None
    wanted_type: str = ""
    """The type that the image specifies, used if the request specifies none."""
    inherits: Volume | None = None
    """The volume whose data and key the new volume gets."""


def source_of(context: RequestContext, request: VolumeRequest) -> Source:
    """Return the source of a request.  Raises NotFoundError, InvalidInputError for several or unsuitable sources."""
    named = [request.image_id, request.snapshot_id, request.source_volume_id, request.backup_id]
    if len([each for each in named if each]) > 1:
        raise InvalidInputError("A volume is created from an image, a snapshot, a volume or a backup: specify one.")
    if request.image_id:
        return _of_image(context, request.image_id)
    if request.snapshot_id:
        return _of_snapshot(context, request.snapshot_id)
    if request.source_volume_id:
        return _of_volume(context, request.source_volume_id)
    if request.backup_id:
        return _of_backup(context, request.backup_id)
    return Source()


def image_metadata(image: Image) -> dict[str, str]:
    """Return the image metadata of a volume, with the names of Cinder."""
    own = {
        "image_id": str(image.id),
        "image_name": image.name,
        "checksum": image.checksum or "",
        "container_format": image.container_format or "",
        "disk_format": image.disk_format or "",
        "min_disk": str(image.min_disk),
        "min_ram": str(image.min_ram),
        "size": str(image.size or 0),
    }
    if image.found_firmware == "uefi":
        own[FOUND] = image.found_firmware
    return text_of(image.properties) | own


def _of_image(context: RequestContext, image_id: str) -> Source:
    seen = image_for(context, image_id)
    image = Image.objects.filter(usable(context.project_id or seen.project_id), pk=seen.pk).first() or seen
    if image.status != Image.Status.ACTIVE:
        raise InvalidInputError(f"Image {image.id} is not active.", field="imageRef")
    if image.disk_format not in FORMATS:
        msg = f"Image {image.id} is unacceptable: {image.disk_format} cannot be written to a volume."
        raise InvalidInputError(msg, field="imageRef")
    least = max(-(-(image.virtual_size or image.size or 0) // GIB), image.min_disk)
    columns = {"source_image_id": image.id, "bootable": True, "image_metadata": image_metadata(image)}
    requested = str(image.properties.get(VOLUME_TYPE) or "")
    return Source(VolumeSource(image=image_ref(image)), columns, least_gb=least, wanted_type=requested)


def _of_snapshot(context: RequestContext, snapshot_id: str) -> Source:
    snapshot = snapshot_for(context, snapshot_id)
    if snapshot.status != SnapshotStatus.AVAILABLE:
        raise InvalidSnapshotError(f"Snapshot {snapshot.id} is {snapshot.status}; it must be available.")
    volume = snapshot.volume
    return Source(
        VolumeSource(volume_id=data_id_of(volume), snapshot_id=str(snapshot.id)),
        {"source_snapshot_id": snapshot.id, **_inherited(volume)},
        least_gb=snapshot.size_gb,
        default_gb=snapshot.size_gb,
        pool_id=volume.pool_id,
        volume_type=volume.volume_type,
        inherits=volume,
    )


def _of_volume(context: RequestContext, volume_id: str) -> Source:
    volume = volume_for(context, volume_id)
    if volume.status not in COPYABLE:
        msg = f"Volume {volume.id} is {volume.status}; a source volume must be available or in-use."
        raise InvalidVolumeError(msg)
    return Source(
        VolumeSource(volume_id=data_id_of(volume)),
        {"source_volume_id": volume.id, **_inherited(volume)},
        least_gb=volume.size_gb,
        default_gb=volume.size_gb,
        pool_id=volume.pool_id,
        volume_type=volume.volume_type,
        inherits=volume,
    )


def _of_backup(context: RequestContext, backup_id: str) -> Source:
    backup: Backup = backup_for(context, backup_id)
    if backup.status != BackupStatus.AVAILABLE:
        raise InvalidInputError(f"Backup {backup.id} is {backup.status}; it must be available.", field="backup_id")
    return Source(columns={"source_backup_id": backup.id}, least_gb=backup.size_gb, default_gb=backup.size_gb)


def _inherited(volume: Volume) -> dict[str, object]:
    return {"bootable": volume.bootable, "image_metadata": volume.image_metadata, **keys.columns_of(volume)}
