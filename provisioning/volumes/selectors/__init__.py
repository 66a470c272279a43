"""Volumes and related resources that are visible to a caller, and the volumes of guests."""

from provisioning.volumes.selectors.access import (
    attachment_for,
    snapshot_for,
    users_of_volumes,
    visible_attachments,
    visible_snapshots,
    visible_volumes,
    volume_for,
    volumes_have_several_users,
)
from provisioning.volumes.selectors.guests import attachments_of, connection_of, guest_disk, iotune_of
from provisioning.volumes.selectors.types import default_type, type_for, visible_types

__all__ = [
    "attachment_for",
    "attachments_of",
    "connection_of",
    "default_type",
    "guest_disk",
    "iotune_of",
    "snapshot_for",
    "type_for",
    "users_of_volumes",
    "visible_attachments",
    "visible_snapshots",
    "visible_types",
    "visible_volumes",
    "volume_for",
    "volumes_have_several_users",
]
