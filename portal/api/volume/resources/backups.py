"""Backups (Block Storage API v3 reference, "Backups")."""

from typing import Any

from portal.api import frame
from portal.api.volume import dialect
from portal.api.volume.dialect import kinds, listing, schemas
from provisioning.volumes.models import Backup
from provisioning.volumes.records.requests import BackupRequest
from provisioning.volumes.selectors.copies import backup_for, visible_backups
from provisioning.volumes.services.backups import backup_records
from provisioning.volumes.services.backups.backup_restores import Restore, Restored, RestoreRequest
from provisioning.volumes.services.backups.backups import CreateBackup, DeleteBackup, update_backup
from provisioning.volumes.services.user_tasks import Deletion


def _create(view: dialect.VolumeView, values: frame.Values) -> Backup:
    return CreateBackup.begin(view.context, values.pop("volume_id"), BackupRequest(**values))


def _update(view: dialect.VolumeView, identity: str, values: frame.Values) -> Backup:
    return update_backup(view.context, identity, values)


def _delete(view: dialect.VolumeView, identity: str) -> None:
    DeleteBackup.begin(view.context, identity, Deletion())


def _reset(view: dialect.VolumeView, identity: str, body: Any) -> None:
    backup_records.reset_status(view.context, identity, body["status"])


def _force_delete(view: dialect.VolumeView, identity: str, body: Any) -> None:
    DeleteBackup.begin(view.context, identity, Deletion(force=True))


_ACTIONS = {
    "os-reset_status": dialect.Action(
        rule="volume_extension:backup_admin_actions:reset_status",
        act=_reset,
        schema=frame.inner({"status": {"type": "string", "maxLength": 255}}, ("status",)),
    ),
    "os-force_delete": dialect.Action(rule="volume_extension:backup_admin_actions:force_delete", act=_force_delete),
}
_METADATA = frame.Checked({"oneOf": [schemas.METADATA, {"type": "null"}]}, lambda items: items or {})
_SUMMARY = (
    frame.Attribute("id", kinds.ID),
    frame.Attribute("name", kinds.OPTIONAL, post=True, put=True),
    dialect.LINKS,
)
BACKUP = dialect.Resource(
    name="backup",
    list=frame.Operation(visible_backups, "backup:get_all", "List ids, names and links."),
    show=frame.Operation(backup_for, "backup:get", "Show a backup of a volume."),
    create=frame.Operation(_create, CreateBackup.rule, "Create a backup of a volume or a snapshot.", shows=_SUMMARY),
    update=frame.Operation(
        _update, "backup:update", "Update name, description and metadata.", shows=_SUMMARY, since=(3, 9)
    ),
    delete=frame.Operation(_delete, DeleteBackup.rule, "Delete a backup without incremental backups based on it."),
    short=_SUMMARY,
    attributes=(
        *_SUMMARY,
        frame.Attribute("status", kinds.TEXT),
        frame.Attribute("size", kinds.NUMBER, column="size_gb"),
        frame.Attribute("object_count", kinds.NUMBER),
        frame.Attribute("availability_zone", kinds.TEXT),
        frame.Attribute("container", kinds.OPTIONAL, post=True),
        frame.Attribute("created_at", kinds.TIME),
        frame.Attribute("updated_at", kinds.TIME),
        frame.Attribute("description", kinds.OPTIONAL, post=True, put=True),
        frame.Attribute("fail_reason", kinds.OPTIONAL),
        frame.Attribute("volume_id", kinds.ID, post=True, required=True),
        frame.Attribute("snapshot_id", kinds.ID_OR_NULL, post=True),
        frame.Attribute("is_incremental", kinds.BOOLEAN, show=lambda row: row.parent_id is not None),
        frame.Attribute(
            "has_dependent_backups", kinds.BOOLEAN, show=lambda row: bool(getattr(row, "has_dependents", False))
        ),
        frame.Attribute("data_timestamp", kinds.TIME, show=lambda row: row.data_at or row.created_at),
        frame.Attribute(
            "os-backup-project-attr:project_id",
            kinds.PROJECT,
            column="project_id",
            rule="backup:backup_project_attribute",
            since=(3, 18),
        ),
        frame.Attribute("metadata", _METADATA, post=True, put=True, since=(3, 43)),
        frame.Attribute("user_id", kinds.PROJECT, since=(3, 56)),
        frame.Attribute("incremental", kinds.BOOLEAN, post=True, shown=False),
        frame.Attribute("force", kinds.BOOLEAN, post=True, shown=False),
        frame.Attribute("availability_zone", kinds.NAME, post=True, shown=False, since=(3, 51)),
    ),
    lists=listing.Lists(
        filters=(
            frame.Filter("name"),
            frame.Filter("status", read=frame.lower),
            frame.Filter("volume_id", read=frame.identity),
            frame.Filter("id", read=frame.identity),
            frame.Filter("snapshot_id", read=frame.identity),
            frame.Filter("project_id", read=frame.identity),
            frame.Filter("size", "size_gb", frame.number),
        ),
        like=("name", "status"),
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
    ),
    actions=dialect.Actions("backup:get", "Run the action in the body.", _ACTIONS),
)


def _restored(view: dialect.VolumeView, found: Restored) -> dict[str, str]:
    names = {"backup_id": str(found.backup.id), "volume_id": str(found.volume.id)}
    return names | {"volume_name": found.volume.name}


_RECORD = frame.body(
    "backup-record",
    {"backup_service": schemas.ID, "backup_url": schemas.ID | {"maxLength": 65_536}},
    ("backup_service", "backup_url"),
)
PARTS = frame.parts(
    dialect.VolumeView,
    "",
    {
        "POST restore": frame.Call(
            lambda context, identity, body: Restore.begin(
                context, identity, RestoreRequest(body.get("volume_id") or "", schemas.text_of(body, "name"))
            ),
            Restore.rule,
            "Restore to an existing volume, or to a new one.",
            name="restore",
            shape=_restored,
            status=202,
            body=frame.body("restore", {"volume_id": schemas.ID_OR_NULL, "name": schemas.NAME}),
        ),
        "GET export_record": frame.Call(
            backup_records.export_record,
            "backup:export-import",
            "Return the record that another cloud can import.",
            name="backup-record",
            shape=lambda view, record: {"backup_service": record.backup_service, "backup_url": record.backup_url},
        ),
    },
)
IMPORT = frame.parts(
    dialect.ResourceView,
    "backups/import_record",
    {
        "POST": frame.Call(
            lambda context, body: backup_records.import_record(context, backup_records.BackupRecord(**body)),
            "backup:backup-import",
            "Create the record of a backup that exists in the store.",
            name="backup",
            shape=lambda view, made: view.shapes([made], _SUMMARY)[0],
            status=201,
            body=_RECORD,
        )
    },
    resource=BACKUP,
    arguments=dialect.VolumeView.arguments,
)
