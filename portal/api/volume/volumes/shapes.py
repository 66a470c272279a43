"""Volumes in Cinder's format."""

from collections.abc import Mapping
from typing import Any

from portal.api.volume.base import VolumeView
from portal.api.volume.dialect.times import timestamp
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.selectors.pools import host_of
from provisioning.volumes.states import AttachStatus


def summary(view: VolumeView, volume: Volume) -> dict[str, Any]:
    """Return a volume as shown in short lists."""
    return {"id": str(volume.id), "name": volume.name, "links": view.links(f"volumes/{volume.id}")}


def shape(view: VolumeView, volume: Volume) -> dict[str, Any]:
    """Return a volume in full, as in show and detailed lists, with the fields that the caller may see."""
    return accepted(view, volume) | _guarded(view, volume)


def accepted(view: VolumeView, volume: Volume) -> dict[str, Any]:
    """Return a volume as in responses to create and update, with the fields of the microversion."""
    return legacy(view, volume) | _later(view, volume)


def legacy(view: VolumeView, volume: Volume) -> dict[str, Any]:
    """Return a volume as in the response to managing a disk, without the fields of any microversion."""
    attached = [each for each in volume.attachments.all() if each.status == AttachStatus.ATTACHED]
    found: dict[str, Any] = {
        "id": str(volume.id),
        "status": volume.status,
        "size": volume.size_gb,
        "availability_zone": volume.availability_zone,
        "created_at": timestamp(volume.created_at),
        "updated_at": timestamp(volume.updated_at),
        "name": volume.name,
        "description": volume.description or None,
        "volume_type": volume.volume_type.name if volume.volume_type else None,
        "snapshot_id": _id(volume.source_snapshot_id),
        "source_volid": _id(volume.source_volume_id),
        "metadata": metadata_of(volume),
        "links": view.links(f"volumes/{volume.id}"),
        "user_id": volume.user_id.hex if volume.user_id else None,
        "bootable": str(volume.bootable).lower(),
        "encrypted": bool(volume.encryption_key),
        "replication_status": None,
        "consistencygroup_id": None,
        "multiattach": volume.multiattach,
        "attachments": [_attachment(view, each) for each in attached],
    }
    if view.allows("volume_extension:volume_mig_status_attribute"):
        found["migration_status"] = volume.migration_status or None
    return found


def metadata_of(volume: Volume) -> dict[str, str]:
    """Return the metadata, with ``readonly`` once it has been set, as in Cinder."""
    read_only = "True" if volume.read_only else str(volume.admin_metadata.get("readonly") or "")
    return {**volume.metadata, **({"readonly": read_only} if read_only else {})}


def _id(value: object) -> str | None:
    return None if value is None else str(value)


def _later(view: VolumeView, volume: Volume) -> dict[str, Any]:
    version = view.microversion
    operator = view.allows("volume_extension:volume_host_attribute")
    found: dict[str, Any] = {}
    if version >= (3, 13):
        found["group_id"] = _id(volume.group_id)
    if version >= (3, 21) and operator:
        found["provider_id"] = None
    if version >= (3, 48):
        found |= {"shared_targets": False, "service_uuid": _id(volume.pool_id)}
    if version >= (3, 61) and operator:
        found["cluster_name"] = None
    if version >= (3, 63):
        found["volume_type_id"] = _id(volume.volume_type_id)
    if version >= (3, 64) and volume.encryption_key:
        found["encryption_key_id"] = str(volume.id)
    if version >= (3, 65):
        found["consumes_quota"] = volume.migration_of is None
    return found


def _guarded(view: VolumeView, volume: Volume) -> dict[str, Any]:
    found: dict[str, Any] = {}
    if view.allows("volume_extension:volume_tenant_attribute"):
        found["os-vol-tenant-attr:tenant_id"] = volume.project_id.hex
    if view.allows("volume_extension:volume_host_attribute"):
        found["os-vol-host-attr:host"] = host_of(volume.pool) if volume.pool else None
    if view.allows("volume_extension:volume_mig_status_attribute"):
        found["os-vol-mig-status-attr:migstat"] = volume.migration_status or None
        found["os-vol-mig-status-attr:name_id"] = None
    if volume.image_metadata and view.allows("volume_extension:volume_image_metadata:show"):
        found["volume_image_metadata"] = volume.image_metadata
    return found


def _attachment(view: VolumeView, attachment: Attachment) -> Mapping[str, Any]:
    operator = view.allows("volume_extension:volume_host_attribute")
    return {
        "id": str(attachment.volume_id),
        "attachment_id": str(attachment.id),
        "volume_id": str(attachment.volume_id),
        "server_id": _id(attachment.instance_id),
        "host_name": attachment.host.name if operator and attachment.host else None,
        "device": attachment.mountpoint or None,
        "attached_at": timestamp(attachment.attached_at),
    }
