"""Batches of volumes, snapshots and backups."""

from provisioning.batches.kinds.base import (
    copy_name,
    deletion,
    ending_argument,
    kind_of_project,
    outside_status,
    owners_of,
    read_ids,
)
from provisioning.batches.kinds.declaration import BatchAction, Kind, Task
from provisioning.volumes import selectors as volumes
from provisioning.volumes import services as volume_services
from provisioning.volumes.records.requests import BackupRequest
from provisioning.volumes.selectors import copies
from provisioning.volumes.services.backups import backups


def _delete_volume(task: Task) -> None:
    volume_services.Delete.begin(task.context, task.id, volume_services.VolumeDeletion(cascade=True))


def _snapshot_volume(task: Task) -> None:
    volume_services.CreateSnapshot.begin(
        task.context, task.id, volume_services.SnapshotRequest(copy_name(task), force=True)
    )


def _back_up_volume(task: Task) -> None:
    backups.CreateBackup.begin(task.context, task.id, BackupRequest(copy_name(task), force=True))


def _delete_snapshot(task: Task) -> None:
    volume_services.DeleteSnapshot.begin(task.context, task.id, volume_services.Deletion())


def _delete_backup(task: Task) -> None:
    backups.DeleteBackup.begin(task.context, task.id, volume_services.Deletion())


VOLUMES = kind_of_project(
    "volumes",
    "volume",
    "volumes",
    volumes.visible_volumes,
    BatchAction(
        "snapshot",
        "Take snapshot",
        "camera",
        volume_services.CreateSnapshot.rule,
        "Data that an instance has not yet written to its disk is not part of the snapshot.",
        _snapshot_volume,
        argument=ending_argument,
        refusals=outside_status(volume_services.CreateSnapshot.legal_from),
    ),
    BatchAction(
        "backup",
        "Back up",
        "archive",
        backups.CreateBackup.rule,
        "A copy outside the volume's pool, kept when the volume is deleted.",
        _back_up_volume,
        argument=ending_argument,
        refusals=outside_status(backups.CreateBackup.legal_from),
    ),
    deletion(
        "volume:delete",
        "Their data and their snapshots are lost. Backups are kept. This cannot be undone.",
        _delete_volume,
        refusals=outside_status(volume_services.Delete.legal_from),
    ),
)
SNAPSHOTS = kind_of_project(
    "volume_snapshots",
    "snapshot",
    "snapshots",
    volumes.visible_snapshots,
    deletion(
        volume_services.DeleteSnapshot.rule,
        "Their volumes, and volumes created from them, do not change. This cannot be undone.",
        _delete_snapshot,
        refusals=outside_status(volume_services.DeleteSnapshot.legal_from),
    ),
)
BACKUPS = Kind(
    "volume_backups",
    "backup",
    "backups",
    lambda context, ids: copies.visible_backups(context).filter(pk__in=read_ids(ids)),
    (
        deletion(
            backups.DeleteBackup.rule,
            "This cannot be undone.",
            _delete_backup,
            refusals=outside_status(backups.DeleteBackup.legal_from),
        ),
    ),
    owners=owners_of,
)
