"""Groups of volumes that are snapshotted together."""

from django.db import models

from provisioning.hosts.models import DEFAULT_ZONE
from provisioning.volumes.models.base import Owned
from provisioning.volumes.models.types import GroupType, VolumeType
from provisioning.volumes.states import GroupStatus, SnapshotStatus


class Group(Owned):
    """A group of volumes of certain types."""

    group_type = models.ForeignKey(GroupType, on_delete=models.PROTECT, related_name="groups")
    volume_types = models.ManyToManyField(VolumeType, related_name="groups")
    status = models.CharField(max_length=24, choices=GroupStatus, default=GroupStatus.CREATING)
    availability_zone = models.CharField(max_length=255, default=DEFAULT_ZONE)
    source_group_id = models.UUIDField(null=True)
    source_group_snapshot_id = models.UUIDField(null=True)


class GroupSnapshot(Owned):
    """Snapshots of all volumes of a group, taken together."""

    group = models.ForeignKey(Group, on_delete=models.PROTECT, related_name="group_snapshots")
    group_type = models.ForeignKey(GroupType, on_delete=models.PROTECT, related_name="group_snapshots")
    status = models.CharField(max_length=24, choices=SnapshotStatus, default=SnapshotStatus.CREATING)
