"""Backups: list, show, create, update, restore, and records."""

from typing import Any

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import NEWEST
from portal.api.volume.backups import schemas
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect import listing
from portal.api.volume.dialect.actions import Action, actions_schema
from portal.api.volume.dialect.listing import Lists
from portal.api.volume.dialect.schemas import boolean, text_of
from portal.api.volume.dialect.times import timestamp
from portal.api.volume.dialect.views import ActionsView, ListingView
from provisioning.identity import policy
from provisioning.volumes.backup_requests import BackupRequest
from provisioning.volumes.models import Backup
from provisioning.volumes.selectors.copies import backup_for, visible_backups
from provisioning.volumes.services.backup_records import BackupRecord, export_record, import_record, reset_status
from provisioning.volumes.services.backup_restores import restore_backup
from provisioning.volumes.services.backups import create_backup, delete_backup, update_backup

CHANGED_SINCE, PROJECT_SINCE, USER_SINCE = (3, 9), (3, 18), (3, 56)


class BackupBase(VolumeView):
    """Base of the backup views."""

    def summary(self, backup: Backup) -> dict[str, Any]:
        return {"id": str(backup.id), "name": backup.name or None, "links": self.links(f"backups/{backup.id}")}

    def shape(self, backup: Backup) -> dict[str, Any]:
        """One backup in Cinder's format."""
        version = self.microversion
        found: dict[str, Any] = {
            **self.summary(backup),
            "status": backup.status,
            "size": backup.size_gb,
            "object_count": backup.object_count,
            "availability_zone": backup.availability_zone,
            "container": backup.container or None,
            "created_at": timestamp(backup.created_at),
            "updated_at": timestamp(backup.updated_at),
            "description": backup.description or None,
            "fail_reason": backup.fail_reason or None,
            "volume_id": str(backup.volume_id),
            "snapshot_id": str(backup.snapshot_id) if backup.snapshot_id else None,
            "is_incremental": backup.parent_id is not None,
            "has_dependent_backups": bool(getattr(backup, "has_dependents", False)),
            "data_timestamp": timestamp(backup.data_at or backup.created_at),
        }
        if version >= PROJECT_SINCE and policy.allows(self.context, "backup:backup_project_attribute"):
            found["os-backup-project-attr:project_id"] = backup.project_id.hex
        if version >= schemas.METADATA_SINCE:
            found["metadata"] = backup.metadata
        if version >= USER_SINCE:
            found["user_id"] = backup.user_id.hex if backup.user_id else None
        return found


class BackupsView(BackupBase, ListingView):
    """``GET`` and ``POST /backups``."""

    rules = {"GET": "backup:get_all", "POST": "backup:create"}
    schemas = {"POST": schemas.create}
    path = "backups"
    lists = Lists(
        plural="backups",
        filters={
            "name": listing.text("name"),
            "status": lambda value: listing.text("status")(value.lower()),
            "volume_id": listing.identity("volume_id"),
            "id": listing.identity("id"),
            "snapshot_id": listing.identity("snapshot_id"),
            "project_id": listing.identity("project_id"),
            "size": listing.number("size_gb"),
        },
        like={"name": "name", "status": "status"},
        sort={
            "id": "id",
            "name": "name",
            "status": "status",
            "size": "size_gb",
            "volume_id": "volume_id",
            "created_at": "created_at",
            "updated_at": "updated_at",
            "container": "container",
            "availability_zone": "availability_zone",
        },
    )
    queries = {"GET": lists.schema}

    def get(self, request: Request) -> Response:
        """List ids, names and links."""
        return self.listed(request)

    def rows(self, *, all_projects: bool) -> QuerySet[Backup]:
        return visible_backups(self.context, all_projects=all_projects)

    def shapes(self, rows: list[Backup]) -> list[dict[str, Any]]:
        return [self.summary(row) for row in rows]

    def post(self, request: Request) -> Response:
        """Create a backup of a volume or a snapshot."""
        asked = self.checked_body()["backup"]
        backup = create_backup(
            self.context,
            BackupRequest(
                volume_id=asked["volume_id"],
                name=text_of(asked, "name"),
                description=text_of(asked, "description"),
                container=text_of(asked, "container"),
                snapshot_id=asked.get("snapshot_id") or "",
                incremental=boolean(asked.get("incremental", False)),
                force=boolean(asked.get("force", False)),
                metadata=asked.get("metadata") or {},
                availability_zone=text_of(asked, "availability_zone"),
            ),
        )
        return Response({"backup": self.summary(backup)}, status=202)


class BackupDetailsView(BackupsView):
    """``GET /backups/detail``."""

    http_method_names = ["get", "head"]
    rules = {"GET": "backup:get_all"}
    schemas = {}
    path = "backups/detail"

    def shapes(self, rows: list[Backup]) -> list[dict[str, Any]]:
        return [self.shape(row) for row in rows]


class BackupView(BackupBase):
    """``GET``, ``PUT`` and ``DELETE /backups/{id}``."""

    rules = {"GET": "backup:get", "PUT": "backup:update", "DELETE": "backup:delete"}
    schemas = {"PUT": schemas.update}
    versions = {"PUT": (CHANGED_SINCE, NEWEST)}

    def get(self, request: Request, backup_id: str) -> Response:
        """Show a backup of a volume."""
        return Response({"backup": self.shape(backup_for(self.context, backup_id))})

    def put(self, request: Request, backup_id: str) -> Response:
        """Update name, description and metadata."""
        asked = self.checked_body()["backup"]
        changes: dict[str, Any] = {name: text_of(asked, name) for name in ("name", "description") if name in asked}
        if "metadata" in asked:
            changes["metadata"] = asked["metadata"] or {}
        return Response({"backup": self.summary(update_backup(self.context, backup_id, changes))})

    def delete(self, request: Request, backup_id: str) -> Response:
        """Delete a backup without incremental backups based on it."""
        delete_backup(self.context, backup_id)
        return self.accepted()


class RestoreView(VolumeView):
    """``POST /backups/{id}/restore``."""

    rules = {"POST": "backup:restore"}
    schemas = {"POST": schemas.RESTORE}

    def post(self, request: Request, backup_id: str) -> Response:
        """Restore to an existing volume, or to a new one."""
        asked = self.checked_body()["restore"]
        found = restore_backup(self.context, backup_id, asked.get("volume_id") or "", text_of(asked, "name"))
        said = {
            "backup_id": str(found.backup.id),
            "volume_id": str(found.volume.id),
            "volume_name": found.volume.name,
        }
        return Response({"restore": said}, status=202)


class ExportRecordView(VolumeView):
    """``GET /backups/{id}/export_record``."""

    rules = {"GET": "backup:export-import"}

    def get(self, request: Request, backup_id: str) -> Response:
        """Return the record that another cloud can import."""
        record = export_record(self.context, backup_id)
        said = {"backup_service": record.backup_service, "backup_url": record.backup_url}
        return Response({"backup-record": said})


class ImportRecordView(BackupBase):
    """``POST /backups/import_record``."""

    rules = {"POST": "backup:backup-import"}
    schemas = {"POST": schemas.RECORD}

    def post(self, request: Request) -> Response:
        """Create the record of a backup that exists in the store."""
        asked = self.checked_body()["backup-record"]
        backup = import_record(self.context, BackupRecord(asked["backup_service"], asked["backup_url"]))
        return Response({"backup": self.summary(backup)}, status=201)


def _reset(view: VolumeView, backup_id: str, asked: Any) -> Response:
    reset_status(view.context, backup_id, asked["status"])
    return view.accepted()


def _force_delete(view: VolumeView, backup_id: str, asked: Any) -> Response:
    delete_backup(view.context, backup_id, force=True)
    return view.accepted()


ACTIONS = {
    "os-reset_status": Action(
        rule="volume_extension:backup_admin_actions:reset_status", act=_reset, schema=schemas.STATUS
    ),
    "os-force_delete": Action(rule="volume_extension:backup_admin_actions:force_delete", act=_force_delete),
}


class BackupActionView(ActionsView):
    """``POST /backups/{id}/action``."""

    rules = {"POST": "backup:get"}
    actions = ACTIONS
    action_rules = {name: action.rule for name, action in ACTIONS.items()}
    schemas = {"POST": actions_schema(ACTIONS)}

    def post(self, request: Request, backup_id: str) -> Response:
        """Run the action in the body."""
        return self.act(request, backup_id)
