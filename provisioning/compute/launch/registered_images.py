"""Images that consist of references to volume snapshots: their registration and queries."""

import json
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db import transaction

from provisioning.common.context import RequestContext
from provisioning.common.database.retry import when_broken_off
from provisioning.common.errors import ForbiddenError, InvalidInputError
from provisioning.common.values.ids import read_id
from provisioning.compute.disks.volume_images import PROPERTY, SECTOR
from provisioning.compute.launch.image_disks import disks_of
from provisioning.compute.launch.request import DiskRequest
from provisioning.images import services as images
from provisioning.images.models import Image
from provisioning.volumes.models import Snapshot
from provisioning.volumes.selectors.access import snapshot_for, visible_snapshots
from provisioning.volumes.services import set_bootable
from provisioning.volumes.states import SnapshotStatus


@dataclass(frozen=True, slots=True)
class ImageDisk:
    """A volume that each server of the image gets; sizes in GiB."""

    device_name: str
    snapshot_id: uuid.UUID | None
    """None: an empty volume."""
    size_gb: int | None = None
    """None: the snapshot's size."""
    volume_type: str = ""
    delete_on_termination: bool = True
    is_root: bool = False


@dataclass(frozen=True, slots=True)
class NewImage:
    """An image to register."""

    name: str
    disks: Sequence[ImageDisk]
    properties: Mapping[str, str] = field(default_factory=dict)


def register_image(context: RequestContext, requested: NewImage) -> Image:
    """Create an image whose servers boot from a volume created from a snapshot. Do not call it in a transaction.

    The volume of the root disk's snapshot is marked as bootable. Raises InvalidInputError without a root disk or for a
    size that is too small, SnapshotNotFoundError, ForbiddenError, OverQuotaError.
    """
    if context.project_id is None:
        raise ForbiddenError("An image needs a project to belong to.")
    image = _record(context, requested)
    try:
        return images.upload(context, image.id, [bytes(SECTOR)])  # an active image needs some data
    except BaseException:
        images.delete(context, image.id)
        raise


@when_broken_off
@transaction.atomic
def _record(context: RequestContext, requested: NewImage) -> Image:
    if sum(disk.is_root and disk.snapshot_id is not None for disk in requested.disks) != 1:
        raise InvalidInputError("An image needs exactly one root disk, created from a snapshot.", field=PROPERTY)
    mapping = [_entry(context, disk) for disk in requested.disks]
    root = next(disk for disk in requested.disks if disk.is_root)
    own = {PROPERTY: json.dumps(mapping), "bdm_v2": "True", "root_device_name": root.device_name}
    return images.create(
        context,
        name=requested.name,
        visibility=Image.Visibility.PRIVATE.value,
        disk_format="raw",
        container_format="bare",
        properties={**requested.properties, **own},
    )


def _entry(context: RequestContext, disk: ImageDisk) -> dict[str, Any]:
    snapshot = None if disk.snapshot_id is None else _snapshot(context, disk.snapshot_id)
    if snapshot is not None and disk.is_root and not snapshot.volume.bootable:
        set_bootable(context, snapshot.volume_id, bootable=True)
    if snapshot is not None and disk.size_gb is not None and disk.size_gb < snapshot.size_gb:
        msg = f"A volume of this snapshot needs at least {snapshot.size_gb} GiB; {disk.size_gb} GiB were requested."
        raise InvalidInputError(msg, field="volume_size")
    return {
        "source_type": "blank" if snapshot is None else "snapshot",
        "destination_type": "volume",
        **({} if snapshot is None else {"snapshot_id": str(snapshot.id)}),
        "boot_index": 0 if disk.is_root else None,
        "volume_size": disk.size_gb or (snapshot.size_gb if snapshot else 1),
        "volume_type": disk.volume_type,
        "delete_on_termination": disk.delete_on_termination,
        "device_name": disk.device_name,
    }


def _snapshot(context: RequestContext, snapshot_id: uuid.UUID) -> Snapshot:
    snapshot = snapshot_for(context, snapshot_id)
    if snapshot.status not in (SnapshotStatus.AVAILABLE, SnapshotStatus.CREATING):
        raise InvalidInputError(f"Snapshot {snapshot.id} is {snapshot.status}.", field="snapshot_id")
    return snapshot


def disks_named_by(image: Image) -> tuple[DiskRequest, ...]:
    """Return the disks in an image's block device mapping; empty for other images and for an invalid mapping."""
    try:
        return disks_of(image.properties)
    except InvalidInputError:
        return ()


def snapshots_named_by(images_seen: Iterable[Image]) -> set[uuid.UUID]:
    """Return the ids of the snapshots that images refer to, existing or not."""
    disks = (disk for image in images_seen for disk in disks_named_by(image) if disk.source_type == "snapshot")
    return {key for disk in disks if (key := read_id(disk.source_id)) is not None}


def snapshots_of(context: RequestContext, images_seen: Iterable[Image]) -> dict[uuid.UUID, Snapshot]:
    """Return the snapshots of the caller's project that images refer to, by id."""
    named = snapshots_named_by(images_seen)
    return visible_snapshots(context).in_bulk(named) if named else {}


def images_naming(project_id: uuid.UUID, snapshot_id: uuid.UUID) -> list[Image]:
    """Return the images of a project that refer to a snapshot, oldest first."""
    rows = Image.objects.filter(project_id=project_id, property_rows__name=PROPERTY)
    rows = rows.exclude(status=Image.Status.DELETED).order_by("created_at", "id")
    return [image for image in rows if snapshot_id in snapshots_named_by([image])]
