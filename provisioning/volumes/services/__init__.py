"""All services that write volumes, snapshots and attachments."""

from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import messages
from provisioning.volumes.services.connections import attachments
from provisioning.volumes.services.lifecycle.create import Create
from provisioning.volumes.services.lifecycle.delete import Delete, VolumeDeletion, check_deletable
from provisioning.volumes.services.lifecycle.manage import Unmanage
from provisioning.volumes.services.lifecycle.manage_snapshots import UnmanageSnapshot
from provisioning.volumes.services.lifecycle.reimage import Reimage, ReimageRequest
from provisioning.volumes.services.lifecycle.snapshots import (
    CreateSnapshot,
    DeleteSnapshot,
    Revert,
    SnapshotRequest,
    delete_snapshot_metadata,
    reset_snapshot_status,
    set_snapshot_metadata,
    update_snapshot,
    update_snapshot_status,
)
from provisioning.volumes.services.lifecycle.upload import UploadRequest, UploadToImage
from provisioning.volumes.services.updates.changes import (
    delete_item,
    detach_from_dead_host,
    detach_from_host,
    edit_volume,
    force_detach,
    reset_status,
    set_bootable,
    set_items,
    set_read_only,
    update_volume,
)
from provisioning.volumes.services.updates.extend import Extend
from provisioning.volumes.services.updates.limits import follow_limits
from provisioning.volumes.services.updates.migrate import Migrate, extend_guest_deadline, swap_sent, swapped
from provisioning.volumes.services.updates.retype import Retype, RetypeRequest, modify_volume
from provisioning.volumes.services.user_tasks import Deletion

__all__ = [
    "Create",
    "CreateSnapshot",
    "Delete",
    "DeleteSnapshot",
    "Deletion",
    "Extend",
    "Migrate",
    "Reimage",
    "ReimageRequest",
    "Retype",
    "RetypeRequest",
    "Revert",
    "SnapshotRequest",
    "Unmanage",
    "UnmanageSnapshot",
    "UploadRequest",
    "UploadToImage",
    "VolumeDeletion",
    "VolumeRequest",
    "attachments",
    "check_deletable",
    "delete_item",
    "delete_snapshot_metadata",
    "detach_from_dead_host",
    "detach_from_host",
    "edit_volume",
    "extend_guest_deadline",
    "follow_limits",
    "force_detach",
    "messages",
    "modify_volume",
    "reset_snapshot_status",
    "reset_status",
    "set_bootable",
    "set_items",
    "set_read_only",
    "set_snapshot_metadata",
    "swap_sent",
    "swapped",
    "update_snapshot",
    "update_snapshot_status",
    "update_volume",
]
