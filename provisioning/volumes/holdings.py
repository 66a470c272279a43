"""What projects hold of Block Storage, counted anew for the quotas, and what is not limited, with the reasons."""

import uuid
from collections.abc import Iterator

from provisioning.common.ids import NOBODY
from provisioning.quotas import registry
from provisioning.quotas.registry import Holding
from provisioning.volumes.models import Backup, DeletedData, Group, Snapshot, Volume
from provisioning.volumes.quota import of_deleted, of_type


def register() -> None:
    """Declare every record of Block Storage that belongs to somebody."""
    registry.count(
        "volumes",
        holdings,
        {
            "volumes.Volume": ("volumes", "gigabytes"),
            "volumes.Snapshot": ("snapshots", "gigabytes"),
            "volumes.Backup": ("backups", "backup_gigabytes"),
            "volumes.Group": ("groups",),
            "volumes.DeletedData": ("gigabytes",),
        },
    )
    registry.leave_free(
        {
            "volumes.Attachment": "One for each use of a volume, which is limited.",
            "volumes.Group_volume_types": "Which types a group is for; groups are limited.",
            "volumes.DefaultType": "Written by operators, one of a project.",
            "volumes.GroupSnapshot": "Its snapshots are limited themselves.",
            "volumes.Message": "Written by the cloud, and removed after its time.",
            "volumes.Transfer": "At most one of a volume, which is limited.",
            "volumes.VolumeModification": "At most one of a volume, which is limited.",
            "volumes.VolumeTypeAccess": "Written by operators.",
        }
    )


def holdings(scope_id: uuid.UUID | None) -> Iterator[Holding]:
    """Yield each volume, snapshot, backup, group and what deleted volumes have left, with its GiB.

    A volume that is made to take over the data of another one is not its owner's second volume.
    """
    volumes = Volume.objects.filter(migration_of=None)
    moving = Volume.objects.filter(migration_of__isnull=False, volume_type__isnull=False)
    moving = moving.exclude(status__in=("deleting", "error_deleting"))
    for each in (moving if scope_id is None else moving.filter(project_id=scope_id)).select_related("volume_type"):
        volume = volumes.filter(id=each.migration_of or NOBODY).exclude(volume_type=each.volume_type).first()
        if volume is not None and each.volume_type is not None:
            for resource, amount in of_type(each.volume_type, each.size_gb).items():
                yield Holding(volume.project_id, volume.id, resource, amount)
    snapshots = Snapshot.objects.filter(consumes_quota=True)
    chosen = volumes if scope_id is None else volumes.filter(project_id=scope_id)
    names = ("project_id", "pk", "size_gb", "wanted_gb", "volume_type__name")
    for project, owner, gigabytes, wanted, kind in chosen.values_list(*names).iterator():
        yield from _of(project, owner, "volumes", max(gigabytes, wanted or 0), kind)
    taken = snapshots if scope_id is None else snapshots.filter(project_id=scope_id)
    columns = ("project_id", "pk", "size_gb", "volume__volume_type__name")
    for project, owner, gigabytes, kind in taken.values_list(*columns).iterator():
        yield from _of(project, owner, "snapshots", gigabytes, kind)
    backups = Backup.objects.all() if scope_id is None else Backup.objects.filter(project_id=scope_id)
    for project, owner, gigabytes in backups.values_list("project_id", "pk", "size_gb").iterator():
        yield Holding(project, owner, "backups")
        yield Holding(project, owner, "backup_gigabytes", gigabytes)
    left = DeletedData.objects.filter(size_gb__gt=0, project_id__isnull=False)
    left = left if scope_id is None else left.filter(project_id=scope_id)
    for row in left.select_related("volume_type").iterator():
        for resource, amount in of_deleted(row.volume_type, row.size_gb).items():
            yield Holding(row.project_id or NOBODY, row.pk, resource, amount)
    groups = Group.objects.all() if scope_id is None else Group.objects.filter(project_id=scope_id)
    for project, owner in groups.values_list("project_id", "pk").iterator():
        yield Holding(project, owner, "groups")


def _of(project: uuid.UUID, owner: uuid.UUID, resource: str, gigabytes: int, kind: str | None) -> Iterator[Holding]:
    """Yield what a volume or a snapshot holds, in sum and of its type."""
    for end in ("", f"_{kind}") if kind else ("",):
        yield Holding(project, owner, f"{resource}{end}")
        yield Holding(project, owner, f"gigabytes{end}", gigabytes)
