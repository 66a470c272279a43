"""URLs of the volume pages."""

from django.urls import path

from portal.dashboard.volumes import attachments, backups, changes, failures, snapshots, transfers, views

urlpatterns = [
    path("volumes/", views.VolumeList.as_view(), name="volumes"),
    path("volumes/create/", views.VolumeCreate.as_view(), name="volume_create"),
    path("volumes/accept/", transfers.TransferAccept.as_view(), name="transfer_accept"),
    path("volumes/<uuid:identity>/", views.VolumeDetail.as_view(), name="volume"),
    path("volumes/<uuid:identity>/edit/", changes.VolumeEdit.as_view(), name="volume_edit"),
    path("volumes/<uuid:identity>/delete/", changes.VolumeDelete.as_view(), name="volume_delete"),
    path("volumes/<uuid:identity>/unmanage/", changes.VolumeUnmanage.as_view(), name="volume_unmanage"),
    path("volumes/<uuid:identity>/extend/", changes.VolumeExtend.as_view(), name="volume_extend"),
    path("volumes/<uuid:identity>/retype/", changes.VolumeRetype.as_view(), name="volume_retype"),
    path("volumes/<uuid:identity>/upload/", changes.VolumeUpload.as_view(), name="volume_upload"),
    path("volumes/<uuid:identity>/attach/", attachments.VolumeAttach.as_view(), name="volume_attach"),
    path("volumes/<uuid:identity>/detach/<uuid:instance>/", attachments.VolumeDetach.as_view(), name="volume_detach"),
    path("volumes/<uuid:identity>/snapshot/", snapshots.SnapshotCreate.as_view(), name="snapshot_create"),
    path("volumes/<uuid:identity>/back-up/", backups.BackupCreate.as_view(), name="backup_create"),
    path("volumes/<uuid:identity>/hand-over/", transfers.TransferCreate.as_view(), name="transfer_create"),
    path("volumes/<uuid:identity>/withdraw/", transfers.TransferWithdraw.as_view(), name="transfer_withdraw"),
    path("instances/<uuid:instance>/volumes/attach/", attachments.ServerAttach.as_view(), name="server_attach"),
    path("volume-snapshots/", snapshots.SnapshotList.as_view(), name="volume_snapshots"),
    path("volume-snapshots/<uuid:identity>/edit/", snapshots.SnapshotEdit.as_view(), name="snapshot_edit"),
    path("volume-snapshots/<uuid:identity>/delete/", snapshots.SnapshotDelete.as_view(), name="snapshot_delete"),
    path("volume-snapshots/<uuid:identity>/unmanage/", snapshots.SnapshotUnmanage.as_view(), name="snapshot_unmanage"),
    path("volume-snapshots/<uuid:identity>/revert/", snapshots.SnapshotRevert.as_view(), name="snapshot_revert"),
    path("volume-failures/", failures.FailureList.as_view(), name="volume_failures"),
    path("volume-backups/", backups.BackupList.as_view(), name="volume_backups"),
    path("volume-backups/<uuid:identity>/restore/", backups.BackupRestore.as_view(), name="backup_restore"),
    path("volume-backups/<uuid:identity>/delete/", backups.BackupDelete.as_view(), name="backup_delete"),
]
