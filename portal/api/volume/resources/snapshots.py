"""Snapshots, their metadata, and unmanaged snapshots (reference, "Volume snapshots (snapshots)")."""

from functools import partial
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api import frame
from portal.api.volume import dialect
from portal.api.volume.dialect import kinds, listing, schemas
from portal.api.volume.volumes.parts import REF, ManageableView, Unmanaged, reference_of
from provisioning.common.errors import InvalidInputError
from provisioning.volumes import services
from provisioning.volumes.models import Snapshot, StoragePool
from provisioning.volumes.selectors.access import snapshot_for, visible_snapshots
from provisioning.volumes.services.lifecycle.manage_snapshots import (
    ManagedSnapshot,
    ManageSnapshot,
    UnmanageSnapshot,
    manageable_snapshots,
)

NEWEST_OF_THE_SDK = (3, 65)
"""The newest version with which openstacksdk creates snapshots; ``openstack`` omits its ``--force`` there."""
FORCE_IS_USUAL = (3, 66)
"""From this version on volumes in use can be snapshotted without ``force``."""
EXTENDED = "volume_extension:extended_snapshot_attributes"


def _create(view: dialect.ResourceView, values: frame.Values) -> Snapshot:
    name, force = values.pop("display_name"), values.pop("force")
    volume_id = values.pop("volume_id")
    if view.microversion >= FORCE_IS_USUAL:
        if force is not None and not schemas.boolean(force):
            msg = f"Since microversion 3.66 the 'force' option is invalid, and must not be {force!r}."
            raise InvalidInputError(msg, field="force")
        force = True
    elif view.microversion >= NEWEST_OF_THE_SDK and force is None:
        force = True
    values["name"] = values["name"] or name
    request = services.SnapshotRequest(**values, force=schemas.boolean(force or False))
    made = services.CreateSnapshot.begin(view.context, volume_id, request)
    return snapshot_for(view.context, made.id)


def _update(view: dialect.ResourceView, identity: str, values: frame.Values) -> Snapshot:
    changes = schemas.texts_of(values)
    if set(changes.values()) == {None}:
        raise InvalidInputError("Specify the name or the description of the snapshot.")
    services.update_snapshot(view.context, identity, **changes)
    return snapshot_for(view.context, identity)


def _delete(view: dialect.ResourceView, identity: str) -> None:
    services.DeleteSnapshot.begin(view.context, identity, services.Deletion())


def _reset_status(view: dialect.ActionsView, snapshot_id: str, body: Any) -> None:
    services.reset_snapshot_status(view.context, snapshot_id, body["status"])


def _update_status(view: dialect.ActionsView, snapshot_id: str, body: Any) -> None:
    services.update_snapshot_status(view.context, snapshot_id, body["status"], body.get("progress"))


def _force_delete(view: dialect.ActionsView, snapshot_id: str, body: Any) -> None:
    services.DeleteSnapshot.begin(view.context, snapshot_id, services.Deletion(force=True))


def _unmanage(view: dialect.ActionsView, snapshot_id: str, body: Any) -> None:
    UnmanageSnapshot.begin(view.context, snapshot_id, None)


_STATUS: frame.Schema = {"type": "string", "minLength": 1, "maxLength": 64}
_ACTIONS = {
    "os-reset_status": dialect.Action(
        rule="volume_extension:snapshot_admin_actions:reset_status",
        act=_reset_status,
        schema=frame.inner({"status": _STATUS}, ("status",)),
    ),
    "os-update_snapshot_status": dialect.Action(
        rule="snapshot_extension:snapshot_actions:update_snapshot_status",
        act=_update_status,
        schema=frame.inner(
            {"status": _STATUS, "progress": {"type": "string", "pattern": r"^[0-9]{1,3}%?\Z"}}, ("status",)
        ),
    ),
    "os-force_delete": dialect.Action(rule="volume_extension:snapshot_admin_actions:force_delete", act=_force_delete),
    "os-unmanage": dialect.Action(rule=UnmanageSnapshot.rule, act=_unmanage),
}
_CHANGES = frame.body(
    "snapshot", dict.fromkeys(("name", "display_name", "description", "display_description"), schemas.NAME)
)


def _progress(row: Snapshot) -> str:
    return f"{100 if row.status == 'available' else row.progress}%"


_SUMMARY = (
    frame.Attribute("id", kinds.ID),
    frame.Attribute("created_at", kinds.TIME),
    frame.Attribute("updated_at", kinds.TIME),
    frame.Attribute("name", kinds.NAME, post=True, default=""),
    frame.Attribute("description", kinds.OPTIONAL, post=True, default=""),
    frame.Attribute("volume_id", kinds.ID_OR_NULL, post=True, required=True),
    frame.Attribute("status", kinds.TEXT),
    frame.Attribute("size", kinds.NUMBER, column="size_gb"),
    frame.Attribute("metadata", kinds.METADATA, post=True),
)
_PLAIN = (
    *_SUMMARY,
    frame.Attribute("group_snapshot_id", kinds.ID, since=(3, 14)),
    frame.Attribute("user_id", kinds.PROJECT, since=(3, 41)),
    frame.Attribute("consumes_quota", kinds.BOOLEAN, since=(3, 65)),
)
SNAPSHOT = dialect.Resource(
    name="snapshot",
    list=frame.Operation(visible_snapshots, "volume:get_all_snapshots", "List snapshots of the project."),
    show=frame.Operation(snapshot_for, "volume:get_snapshot", "Show a snapshot of a volume."),
    create=frame.Operation(
        _create,
        services.CreateSnapshot.rule,
        "Create a snapshot of a volume. For a volume in use, ``force`` must be true before 3.65, and must not be false"
        " in 3.65.",
        shows=_PLAIN,
    ),
    update=frame.Operation(
        _update, "volume:update_snapshot", "Update name and description.", shows=_PLAIN, body=_CHANGES
    ),
    delete=frame.Operation(_delete, services.DeleteSnapshot.rule, "Delete a snapshot of a volume."),
    short=_SUMMARY,
    attributes=(
        *_PLAIN,
        frame.Attribute("display_name", kinds.NAME, post=True, default="", shown=False),
        frame.Attribute("force", frame.Checked(schemas.BOOLEAN), post=True, default=None, shown=False),
        frame.Attribute(
            "os-extended-snapshot-attributes:project_id", kinds.PROJECT, column="project_id", rule=EXTENDED
        ),
        frame.Attribute("os-extended-snapshot-attributes:progress", kinds.TEXT, show=_progress, rule=EXTENDED),
    ),
    lists=listing.Lists(
        filters=(
            frame.Filter("id", read=frame.identity),
            frame.Filter("name"),
            frame.Filter("display_name", "name"),
            frame.Filter("status"),
            frame.Filter("volume_id", read=frame.identity),
            listing.pairs("metadata", since=(3, 22)),
            frame.Filter("availability_zone", "volume__availability_zone"),
            frame.Filter("project_id", read=frame.identity),
            frame.Filter("user_id", read=frame.identity),
            listing.boolean("consumes_quota", since=(3, 65)),
        ),
        like=("name", "status", "availability_zone"),
        sort={
            "id": "id",
            "name": "name",
            "display_name": "name",
            "status": "status",
            "volume_size": "size_gb",
            "size": "size_gb",
            "volume_id": "volume_id",
            "created_at": "created_at",
            "updated_at": "updated_at",
        },
        sort_since={"name": (3, 30)},
    ),
    actions=dialect.Actions("volume:get_snapshot", "Run the action in the body.", _ACTIONS),
)


_METADATA = frame.Entries(
    name="metadata",
    item="meta",
    find=snapshot_for,
    values=lambda view, snapshot: snapshot.metadata,
    schema=schemas.METADATA,
    merge=services.set_snapshot_metadata,
    replace=partial(services.set_snapshot_metadata, replace=True),
    remove=services.delete_snapshot_metadata,
    missing="Snapshot {found.id} has no metadata with key {key}.",
)
PARTS = frame.parts(
    dialect.VolumeView,
    "metadata",
    {
        "GET": _METADATA.all("volume:get_snapshot_metadata", "Show the metadata of a snapshot."),
        "POST": _METADATA.merging("volume:update_snapshot_metadata", "Add or update items."),
        "PUT": _METADATA.replacing("volume:update_snapshot_metadata", "Replace the metadata."),
        "GET /{key}": _METADATA.one("volume:get_snapshot_metadata", "Show an item of the metadata."),
        "PUT /{key}": _METADATA.setting("volume:update_snapshot_metadata", "Set an item of the metadata."),
        "DELETE /{key}": _METADATA.removing(
            "volume:delete_snapshot_metadata", "Delete an item of the metadata.", status=200
        ),
    },
)


class ManageableSnapshotsView(ManageableView):
    """``GET`` and ``POST /manageable_snapshots`` and similar paths."""

    resource = SNAPSHOT
    listed = "manageable-snapshots"
    rules = {"GET": "snapshot_extension:list_manageable", "POST": ManageSnapshot.rule}
    schemas = {
        "POST": frame.body(
            "snapshot",
            {
                "volume_id": schemas.UUID,
                "ref": REF,
                "name": schemas.NAME,
                "description": schemas.NAME,
                "metadata": schemas.METADATA | {"type": ["object", "null"]},
            },
            ("volume_id", "ref"),
        )
    }
    sentences = {"GET": "List the unmanaged snapshots in a pool, of volumes that have records."}

    def unmanaged(self, pool: StoragePool) -> list[Unmanaged]:
        found = manageable_snapshots(pool)
        return [Unmanaged(each.name, each.size_gb, volume=f"volume-{each.volume.id}") for each in found]

    def post(self, request: Request) -> Response:
        """Manage a snapshot in the pool of its volume."""
        body = self.checked_body()["snapshot"]
        specified = ManagedSnapshot(
            name_in_pool=reference_of(body),
            name=schemas.text_of(body, "name"),
            description=schemas.text_of(body, "description"),
            metadata=body.get("metadata") or {},
        )
        made = ManageSnapshot.begin(self.context, body["volume_id"], specified)
        [shape] = self.shapes([snapshot_for(self.context, made.id)], _PLAIN)
        return Response({"snapshot": shape}, status=202)


class ManageableSnapshotsDetailView(ManageableSnapshotsView):
    """``GET /manageable_snapshots/detail`` and similar paths."""

    rules = {"GET": "snapshot_extension:list_manageable"}
    http_method_names = ["get", "head"]
    detailed = True
