"""Backups (Block Storage API v3 reference, "Backups")."""

from typing import Any

from rest_framework.response import Response

from portal.api.frame.lists import Column, identity, lower, number
from portal.api.frame.parts import Call, parts
from portal.api.frame.resource import Attribute, Checked, Operation, Values, body, inner
from portal.api.volume.dialect import kinds, schemas
from portal.api.volume.dialect.listing import Lists
from portal.api.volume.dialect.resource import LINKS, Action, Actions, Resource, ResourceView, VolumeView
from provisioning.volumes.models import Backup
from provisioning.volumes.records.requests import BackupRequest
from provisioning.volumes.selectors.copies import backup_for, visible_backups
from provisioning.volumes.services.backups import backup_records
from provisioning.volumes.services.backups.backup_restores import Restore, Restored, RestoreRequest
from provisioning.volumes.services.backups.backups import CreateBackup, DeleteBackup, update_backup
from provisioning.volumes.services.user_tasks import Deletion


def _create(view: VolumeView, values: Values) -> Backup:
    return CreateBackup.begin(view.context, values.pop("volume_id"), BackupRequest(**values))


def _update(view: VolumeView, identity: str, values: Values) -> Backup:
    return update_backup(view.context, identity, values)


def _delete(view: VolumeView, identity: str) -> None:
    DeleteBackup.begin(view.context, identity, Deletion())


def _reset(view: VolumeView, identity: str, body: Any) -> Response:
    backup_records.reset_status(view.context, identity, body["status"])
    return view.accepted()


def _force_delete(view: VolumeView, identity: str, body: Any) -> Response:
    DeleteBackup.begin(view.context, identity, Deletion(force=True))
    return view.accepted()


_ACTIONS = {
    "os-reset_status": Action(
        rule="volume_extension:backup_admin_actions:reset_status",
        act=_reset,
        schema=inner({"status": {"type": "string", "maxLength": 255}}, ("status",)),
    ),
    "os-force_delete": Action(rule="volume_extension:backup_admin_actions:force_delete", act=_force_delete),
}
_METADATA = Checked({"oneOf": [schemas.METADATA, {"type": "null"}]}, lambda items: items or {})
_SUMMARY = (Attribute("id", kinds.ID), Attribute("name", kinds.OPTIONAL, post=True, put=True), LINKS)
BACKUP = Resource(
    name="backup",
    list=Operation(visible_backups, "backup:get_all", "List ids, names and links."),
    show=Operation(backup_for, "backup:get", "Show a backup of a volume."),
    create=Operation(_create, CreateBackup.rule, "Create a backup of a volume or a snapshot.", shows=_SUMMARY),
    update=Operation(_update, "backup:update", "Update name, description and metadata.", shows=_SUMMARY, since=(3, 9)),
    delete=Operation(_delete, DeleteBackup.rule, "Delete a backup without incremental backups based on it."),
    short=_SUMMARY,
    attributes=(
        *_SUMMARY,
        Attribute("status", kinds.TEXT),
        Attribute("size", kinds.NUMBER, column="size_gb"),
        Attribute("object_count", kinds.NUMBER),
        Attribute("availability_zone", kinds.TEXT),
        Attribute("container", kinds.OPTIONAL, post=True),
        Attribute("created_at", kinds.TIME),
        Attribute("updated_at", kinds.TIME),
        Attribute("description", kinds.OPTIONAL, post=True, put=True),
        Attribute("fail_reason", kinds.OPTIONAL),
        Attribute("volume_id", kinds.ID, post=True, required=True),
        Attribute("snapshot_id", kinds.ID_OR_NULL, post=True),
        Attribute("is_incremental", kinds.BOOLEAN, show=lambda row: row.parent_id is not None),
        Attribute("has_dependent_backups", kinds.BOOLEAN, show=lambda row: bool(getattr(row, "has_dependents", False))),
        Attribute("data_timestamp", kinds.TIME, show=lambda row: row.data_at or row.created_at),
        Attribute(
            "os-backup-project-attr:project_id",
            kinds.PROJECT,
            column="project_id",
            rule="backup:backup_project_attribute",
            since=(3, 18),
        ),
        Attribute("metadata", _METADATA, post=True, put=True, since=(3, 43)),
        Attribute("user_id", kinds.PROJECT, since=(3, 56)),
        Attribute("incremental", kinds.BOOLEAN, post=True, shown=False),
        Attribute("force", kinds.BOOLEAN, post=True, shown=False),
        Attribute("availability_zone", kinds.NAME, post=True, shown=False, since=(3, 51)),
    ),
    lists=Lists(
        filters={
            "name": Column("name"),
            "status": Column("status", lower),
            "volume_id": Column("volume_id", identity),
            "id": Column("id", identity),
            "snapshot_id": Column("snapshot_id", identity),
            "project_id": Column("project_id", identity),
            "size": Column("size_gb", number),
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
    ),
    actions=Actions("backup:get", "Run the action in the body.", _ACTIONS),
)


def _restored(view: VolumeView, found: Restored) -> dict[str, str]:
    names = {"backup_id": str(found.backup.id), "volume_id": str(found.volume.id)}
    return names | {"volume_name": found.volume.name}


_RECORD = body(
    "backup-record",
    {"backup_service": schemas.ID, "backup_url": schemas.ID | {"maxLength": 65_536}},
    ("backup_service", "backup_url"),
)
PARTS = parts(
    VolumeView,
    "",
    {
        "POST restore": Call(
            lambda context, identity, body: Restore.begin(
                context, identity, RestoreRequest(body.get("volume_id") or "", schemas.text_of(body, "name"))
            ),
            Restore.rule,
            "Restore to an existing volume, or to a new one.",
            name="restore",
            shape=_restored,
            status=202,
            body=body("restore", {"volume_id": schemas.ID_OR_NULL, "name": schemas.NAME}),
        ),
        "GET export_record": Call(
            backup_records.export_record,
            "backup:export-import",
            "Return the record that another cloud can import.",
            name="backup-record",
            shape=lambda view, record: {"backup_service": record.backup_service, "backup_url": record.backup_url},
        ),
    },
)
IMPORT = parts(
    ResourceView,
    "backups/import_record",
    {
        "POST": Call(
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
    arguments=VolumeView.arguments,
)
