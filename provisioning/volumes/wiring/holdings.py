"""The Block Storage resources of projects, their quota usage, counted from the records, and models without a quota."""

import uuid
from collections.abc import Iterator

from provisioning.common.values.ids import NOBODY
from provisioning.ec2.kinds import Kind
from provisioning.identity.records.project_resources import Owned
from provisioning.quotas.registry import Counted, Holding, InLedger
from provisioning.volumes.models import Backup, DeletedData, Group, Snapshot, Volume
from provisioning.volumes.pools import deleted_data
from provisioning.volumes.records.quota import of_deleted, of_type

OF_PROJECTS = (
    Owned("volumes", count=lambda ids: Volume.objects.filter(project_id__in=ids).count()),
    Owned("volume snapshots", count=lambda ids: Snapshot.objects.filter(project_id__in=ids).count()),
    Owned("backups", count=lambda ids: Backup.objects.filter(project_id__in=ids).count()),
    Owned("volume groups", count=lambda ids: Group.objects.filter(project_id__in=ids).count()),
    Owned("data of deleted volumes", remove=deleted_data.disown),
)
EC2_KINDS = (Kind("vol", "volume", Volume), Kind("snap", "snapshot", Snapshot))
WITH_EC2_VALUES = (Volume,)
UNPURGED = {
    **dict.fromkeys(
        ("volumes.Volume", "volumes.Snapshot", "volumes.Backup", "volumes.Group"),
        "Limited by its quota; kept until it is deleted.",
    ),
    "volumes.Attachment": "One for each use of a volume; deleted with it.",
    "volumes.DefaultType": "One for each project; written by operators.",
    "volumes.Group_volume_types": "The types of a group; deleted with the group.",
    "volumes.DeletedData": "One for each deleted volume; deleted an hour after its pool no longer has the data.",
    "volumes.GroupSnapshot": "Kept until its owner deletes it; its snapshots are limited.",
    "volumes.GroupType": "Written by operators; kept until they delete it.",
    "volumes.Message": "Deleted by a job when it expires.",
    "volumes.PoolClaim": "One for each host and each pool that it claims; deleted when the host gives up the claim.",
    "volumes.PoolHost": "One for each host and each pool that it is admitted to.",
    "volumes.QosSpec": "Written by operators; kept until they delete it.",
    "volumes.StoragePool": "One for each pool that hosts serve.",
    "volumes.Transfer": "One for each volume; deleted when it is accepted or canceled.",
    "volumes.TypeEncryption": "One for each volume type.",
    "volumes.VolumeModification": "The newest of each volume; deleted with it.",
    "volumes.VolumeType": "Written by operators; kept until they delete it.",
    "volumes.VolumeTypeAccess": "One for each project that may use a type; deleted with either.",
}


def holdings(scope_id: uuid.UUID | None) -> Iterator[Holding]:
    """Yield the quota usage of volumes, snapshots, backups, groups, and data of deleted volumes.

    ``scope_id``: a project; None: all projects. The hidden volume of a migration only counts in the quotas of its type,
    and only if the volume has another type.
    """
    for each in _MOVING(scope_id):
        volume = (
            Volume.objects.filter(migration_of=None)
            .filter(id=each.migration_of or NOBODY)
            .exclude(volume_type=each.volume_type)
            .first()
        )
        if volume is not None and each.volume_type is not None:
            for resource, amount in of_type(each.volume_type, each.size_gb).items():
                yield Holding(volume.project_id, volume.id, resource, amount)
    for project, owner, gigabytes, requested, kind in _VOLUMES(scope_id):
        yield from _of(project, owner, "volumes", max(gigabytes, requested or 0), kind)
    for project, owner, gigabytes, kind in _SNAPSHOTS(scope_id):
        yield from _of(project, owner, "snapshots", gigabytes, kind)
    for project, owner, gigabytes in _BACKUPS(scope_id):
        yield Holding(project, owner, "backups")
        yield Holding(project, owner, "backup_gigabytes", gigabytes)
    for row in _LEFT(scope_id):
        for resource, amount in of_deleted(row.volume_type, row.size_gb).items():
            yield Holding(row.project_id or NOBODY, row.pk, resource, amount)
    for project, owner in _GROUPS(scope_id):
        yield Holding(project, owner, "groups")


_MOVING = Counted(
    lambda: (
        Volume.objects.filter(migration_of__isnull=False, volume_type__isnull=False)
        .exclude(status__in=("deleting", "error_deleting"))
        .select_related("volume_type")
    )
)
_VOLUMES = Counted(
    lambda: Volume.objects.filter(migration_of=None).values_list(
        "project_id", "pk", "size_gb", "wanted_gb", "volume_type__name"
    )
)
_SNAPSHOTS = Counted(
    lambda: Snapshot.objects.filter(consumes_quota=True).values_list(
        "project_id", "pk", "size_gb", "volume__volume_type__name"
    )
)
_BACKUPS = Counted(lambda: Backup.objects.values_list("project_id", "pk", "size_gb"))
_LEFT = Counted(
    lambda: DeletedData.objects.filter(size_gb__gt=0, project_id__isnull=False).select_related("volume_type")
)
_GROUPS = Counted(lambda: Group.objects.values_list("project_id", "pk"))


def _of(project: uuid.UUID, owner: uuid.UUID, resource: str, gigabytes: int, kind: str | None) -> Iterator[Holding]:
    """Yield the usage of a volume or snapshot in total and for its type."""
    for end in ("", f"_{kind}") if kind else ("",):
        yield Holding(project, owner, f"{resource}{end}")
        yield Holding(project, owner, f"gigabytes{end}", gigabytes)


LIMITED = InLedger(
    holdings,
    {
        "volumes.Volume": ("volumes", "gigabytes"),
        "volumes.Snapshot": ("snapshots", "gigabytes"),
        "volumes.Backup": ("backups", "backup_gigabytes"),
        "volumes.Group": ("groups",),
        "volumes.DeletedData": ("gigabytes",),
    },
)
UNLIMITED = {
    "volumes.Attachment": "One for each use of a volume; volumes are limited.",
    "volumes.Group_volume_types": "The types of a group; groups are limited.",
    "volumes.DefaultType": "Written by operators, one for each project.",
    "volumes.GroupSnapshot": "Its snapshots are limited.",
    "volumes.Message": "Written by the cloud, and deleted when it expires.",
    "volumes.Transfer": "At most one for each volume; volumes are limited.",
    "volumes.VolumeModification": "At most one for each volume; volumes are limited.",
    "volumes.VolumeTypeAccess": "Written by operators.",
}
