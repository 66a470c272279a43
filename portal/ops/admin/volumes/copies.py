"""Snapshots and backups of all projects, read-only, with actions for stuck snapshots and backups."""

from django.contrib import admin

from portal.common import statuses
from portal.ops.admin.base import row_action
from portal.ops.admin.columns import StatusFilter, ValuesFilter, by_id, column
from portal.ops.admin.volumes.parts import OfVolumes, progress_of
from provisioning.common.context import RequestContext
from provisioning.volumes.models import Backup, Snapshot, Volume
from provisioning.volumes.services import DeleteSnapshot, Deletion, reset_snapshot_status
from provisioning.volumes.services.backups import backup_records
from provisioning.volumes.services.backups.backups import DeleteBackup


def _statuses() -> list[tuple[str, str]]:
    return [(each, statuses.named("volumes.Backup", each).word) for each in ("available", "error")]


@admin.register(Snapshot)
class SnapshotAdmin(OfVolumes):
    rules = OfVolumes.rules | {
        "reset": "volume_extension:snapshot_admin_actions:reset_status",
        "force_delete": "volume_extension:snapshot_admin_actions:force_delete",
    }
    list_display = ("__str__", "state", "size", "of_volume", "project", "created_at")
    list_filter = (("status", StatusFilter), "created_at")
    list_select_related = ("volume",)
    search_fields = ("name", "id__startswith", "volume__id__startswith", "volume__name", "project_id__startswith")
    search_help_text = "Name or id of a snapshot or its volume, or project"
    actions = ("reset", "force_delete")
    fields = (
        "name", "id", "state", "project", "of_volume", "size", "progress", "deadline", "group_snapshot", "metadata",
        "description", "created_at", "updated_at",
    )  # fmt: skip
    readonly_fields = (*OfVolumes.readonly_fields, "size", "of_volume")

    size = column("size", lambda snapshot: f"{snapshot.size_gb} GiB", ordering="size_gb")
    of_volume = column("volume", "volume", ordering="volume__name", link=True)

    @row_action(
        "Reset status",
        "Snapshots given that status",
        question="Which status do these snapshots have?",
        choices=_statuses,
    )
    def reset(self, context: RequestContext, snapshot: Snapshot, status: str) -> None:
        reset_snapshot_status(context, snapshot.id, status)

    @row_action(
        "Force delete, with any status",
        "Snapshots being deleted",
        question="Delete these snapshots permanently?",
    )
    def force_delete(self, context: RequestContext, snapshot: Snapshot) -> None:
        DeleteSnapshot.begin(context, snapshot.id, Deletion(force=True))


@admin.register(Backup)
class BackupAdmin(OfVolumes):
    rules = {
        "view": "backup:backup_project_attribute",
        "reset": "volume_extension:backup_admin_actions:reset_status",
        "force_delete": "volume_extension:backup_admin_actions:force_delete",
    }
    list_display = ("__str__", "state", "size", "stored", "kind", "of_volume", "project", "service", "created_at")
    list_filter = (("status", StatusFilter), ("service", ValuesFilter), "created_at")
    list_select_related = ("parent",)
    search_fields = ("name", "id__startswith", "volume_id__startswith", "project_id__startswith", "fail_reason")
    search_help_text = "Name or id of a backup, id of its volume, a part of the error, or project"
    actions = ("reset", "force_delete")
    fields = (
        "name", "id", "state", "fail_reason", "progress", "project", "of_volume", "size", "stored", "kind", "parent",
        "service", "container", "object_count", "data_at", "deadline", "availability_zone", "metadata", "description",
        "created_at", "updated_at",
    )  # fmt: skip
    readonly_fields = (*OfVolumes.readonly_fields, "progress", "of_volume", "size", "stored", "kind")

    of_volume = column(
        "volume", read=by_id(Volume.objects.in_bulk, "volume_id", "{} (deleted)"), ordering="volume_id", link=True
    )
    size = column("size", lambda backup: f"{backup.size_gb} GiB", ordering="size_gb")
    stored = column("stored", lambda backup: f"{backup.stored_bytes / (1 << 20):.1f} MiB", ordering="stored_bytes")

    kind = column("kind", lambda backup: "incremental" if backup.parent_id else "full", ordering="parent")

    progress = column("progress", progress_of)

    @row_action(
        "Reset status: running operations are stopped",
        "Backups given that status",
        question="Which status do these backups have?",
        choices=_statuses,
    )
    def reset(self, context: RequestContext, backup: Backup, status: str) -> None:
        backup_records.reset_status(context, str(backup.id), status)

    @row_action(
        "Force delete, with any status",
        "Backups being deleted",
        question="Delete these backups permanently?",
    )
    def force_delete(self, context: RequestContext, backup: Backup) -> None:
        DeleteBackup.begin(context, backup.id, Deletion(force=True))
