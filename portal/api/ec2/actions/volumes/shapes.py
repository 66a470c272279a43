"""Representations of volumes and snapshots."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from portal.api.ec2 import names, tags
from portal.api.ec2.actions.volumes import states
from provisioning.compute.models import BlockDevice
from provisioning.compute.selectors.block_devices import volumes_shown
from provisioning.ec2 import given
from provisioning.volumes.models import Attachment, Snapshot, Volume

NO_TYPE = "standard"
"""Type name shown for a volume without a volume type."""


@dataclass(frozen=True)
class Related:
    """Records that volumes refer to, fetched with a constant number of queries."""

    ids: names.Known
    devices: Mapping[uuid.UUID, BlockDevice] = field(default_factory=dict)
    """Attachment → the block device of its server."""
    tags: Mapping[uuid.UUID, Sequence[Mapping[str, str]]] = field(default_factory=dict)
    given: Mapping[uuid.UUID, Mapping[str, Any]] = field(default_factory=dict)
    """Volume or disk → values from client requests (``ec2.given``)."""


def related(volumes: Sequence[Volume]) -> Related:
    """Fetch the related records of these volumes."""
    keys = [volume.id for volume in volumes]
    origins = {key for volume in volumes for key in (volume.id, volume.source_volume_id) if key is not None}
    servers = {each.instance_id for volume in volumes for each in volume.attachments.all() if each.instance_id}
    shown = volumes_shown(servers) if servers else {}
    devices = {each.attachment_id: each for found in shown.values() for each in found if each.attachment_id}
    return Related(
        ids=names.known(
            {
                names.VOLUME: origins,
                names.SNAPSHOT: [volume.source_snapshot_id for volume in volumes],
                names.INSTANCE: servers,
            }
        ),
        devices=devices,
        tags=tags.shapes(names.VOLUME, keys),
        given=given.values_of([*keys, *(device.id for device in devices.values())]),
    )


def volume_shapes(volumes: Sequence[Volume]) -> list[dict[str, Any]]:
    """Return the representations of volumes."""
    known = related(volumes)
    return [volume_shape(volume, known) for volume in volumes]


def volume_shape(volume: Volume, related: Related) -> dict[str, Any]:
    """Return the representation of a volume in DescribeVolumes and CreateVolume."""
    return {
        "VolumeId": related.ids[names.VOLUME][volume.id],
        "OwnerId": volume.project_id.hex,
        "Size": volume.size_gb,
        "SnapshotId": related.ids[names.SNAPSHOT][volume.source_snapshot_id] if volume.source_snapshot_id else "",
        "SourceVolumeId": related.ids[names.VOLUME][volume.source_volume_id] if volume.source_volume_id else None,
        "AvailabilityZone": volume.availability_zone,
        "AvailabilityZoneId": volume.availability_zone,
        "State": states.of_volume(volume),
        "CreateTime": volume.created_at,
        "Attachments": [attachment_shape(each, related) for each in volume.attachments.all()],
        "Encrypted": bool(volume.encryption_key),
        **_type(volume, related),
        "MultiAttachEnabled": volume.multiattach,
        "Tags": related.tags[volume.id],
    }


def _asked_name(device: BlockDevice | None, related: Related) -> str | None:
    return related.given.get(device.id, {}).get(given.DEVICE) if device is not None else None


def _type(volume: Volume, related: Related) -> dict[str, Any]:
    """Return the AWS type in the request if this cloud has no type of that name, otherwise the volume's own type."""
    own = {"VolumeType": volume.volume_type.name if volume.volume_type else NO_TYPE}
    asked: dict[str, Any] = related.given.get(volume.id, {}).get(given.VOLUME_TYPE, {})
    return own | asked


def attachment_shape(attachment: Attachment, related: Related) -> dict[str, Any]:
    """Return the representation of an attachment; an attachment outside the cloud has no instance."""
    device = related.devices.get(attachment.id)
    return {
        "VolumeId": related.ids[names.VOLUME][attachment.volume_id],
        "InstanceId": related.ids[names.INSTANCE][attachment.instance_id] if attachment.instance_id else None,
        "Device": _asked_name(device, related) or attachment.mountpoint,
        "State": states.of_attachment(attachment),
        "AttachTime": attachment.attached_at or attachment.created_at,
        "DeleteOnTermination": device is not None and device.delete_on_termination,
    }


def snapshot_shapes(snapshots: Sequence[Snapshot]) -> list[dict[str, Any]]:
    """Return the representations of snapshots."""
    keys = [snapshot.id for snapshot in snapshots]
    known = names.known({names.SNAPSHOT: keys, names.VOLUME: [snapshot.volume_id for snapshot in snapshots]})
    tagged = tags.shapes(names.SNAPSHOT, keys)
    return [
        {
            "SnapshotId": known[names.SNAPSHOT][snapshot.id],
            "VolumeId": known[names.VOLUME][snapshot.volume_id],
            "OwnerId": snapshot.project_id.hex,
            "State": states.of_snapshot(snapshot),
            "StateMessage": "The snapshot is being deleted" if snapshot.status == "deleting" else None,
            "StartTime": snapshot.created_at,
            "Progress": states.progress_of(snapshot),
            "VolumeSize": snapshot.size_gb,
            "Description": snapshot.description,
            "Encrypted": bool(snapshot.volume.encryption_key),
            "StorageTier": "standard",
            "Tags": tagged[snapshot.id],
        }
        for snapshot in snapshots
    ]
