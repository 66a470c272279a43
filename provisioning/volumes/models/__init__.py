"""Volumes and related resources, with the fields of Cinder."""

from provisioning.volumes.models.copies import Backup, Transfer
from provisioning.volumes.models.groups import Group, GroupSnapshot
from provisioning.volumes.models.messages import Message
from provisioning.volumes.models.pools import DeletedData, PoolClaim, PoolHost, StoragePool
from provisioning.volumes.models.types import (
    DefaultType,
    GroupType,
    QosSpec,
    TypeEncryption,
    VolumeType,
    VolumeTypeAccess,
)
from provisioning.volumes.models.volumes import Attachment, Snapshot, Volume, VolumeModification

__all__ = [
    "Attachment",
    "Backup",
    "DefaultType",
    "DeletedData",
    "Group",
    "GroupSnapshot",
    "GroupType",
    "Message",
    "PoolClaim",
    "PoolHost",
    "QosSpec",
    "Snapshot",
    "StoragePool",
    "Transfer",
    "TypeEncryption",
    "Volume",
    "VolumeModification",
    "VolumeType",
    "VolumeTypeAccess",
]
