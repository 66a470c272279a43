"""Snapshots (Block Storage API v3 reference, "Volume snapshots (snapshots)")."""

from typing import Any

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import Version
from portal.api.common.validation import Schema
from portal.api.frame.schemas import body, inner
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect import listing
from portal.api.volume.dialect.actions import Action, actions_schema
from portal.api.volume.dialect.listing import Lists
from portal.api.volume.dialect.schemas import (
    BOOLEAN,
    ID_OR_NULL,
    METADATA,
    NAME,
    boolean,
    of_metadata,
    text_of,
    texts_of,
)
from portal.api.volume.dialect.times import timestamp
from portal.api.volume.dialect.views import ActionsView, ListingView
from portal.api.volume.volumes.manage import ManageableBase
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.volumes import services
from provisioning.volumes.models import Snapshot
from provisioning.volumes.selectors.access import snapshot_for, visible_snapshots

NEWEST_OF_THE_SDK = (3, 65)
"""The newest version with which openstacksdk creates snapshots; ``openstack`` omits its ``--force`` there."""
FORCE_IS_USUAL = (3, 66)
"""From this version on volumes in use can be snapshotted without ``force``."""
SNAPSHOTS = Lists(
    plural="snapshots",
    filters={
        "id": listing.identity("id"),
        "name": listing.text("name"),
        "display_name": listing.text("name"),
        "status": listing.text("status"),
        "volume_id": listing.identity("volume_id"),
        "metadata": listing.pairs("metadata"),
        "availability_zone": listing.text("volume__availability_zone"),
        "project_id": listing.identity("project_id"),
        "user_id": listing.identity("user_id"),
        "consumes_quota": listing.boolean("consumes_quota"),
    },
    since={"metadata": (3, 22), "consumes_quota": (3, 65)},
    like={"name": "name", "status": "status", "availability_zone": "volume__availability_zone"},
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
)


def summary(found: Snapshot) -> dict[str, Any]:
    """Return a snapshot as shown in lists."""
    return {
        "id": str(found.id),
        "created_at": timestamp(found.created_at),
        "updated_at": timestamp(found.updated_at),
        "name": found.name,
        "description": found.description or None,
        "volume_id": str(found.volume_id),
        "status": found.status,
        "size": found.size_gb,
        "metadata": found.metadata,
    }


def shape(view: VolumeView, found: Snapshot, *, extended: bool = True) -> dict[str, Any]:
    """Return a snapshot in Cinder's format; without ``extended`` as in responses to POST and PUT."""
    shown = summary(found)
    if view.microversion >= (3, 14):
        shown["group_snapshot_id"] = str(found.group_snapshot_id) if found.group_snapshot_id else None
    if view.microversion >= (3, 41):
        shown["user_id"] = found.user_id.hex if found.user_id else None
    if view.microversion >= (3, 65):
        shown["consumes_quota"] = found.consumes_quota
    if extended and view.allows("volume_extension:extended_snapshot_attributes"):
        shown["os-extended-snapshot-attributes:project_id"] = found.project_id.hex
        shown["os-extended-snapshot-attributes:progress"] = f"{100 if found.status == 'available' else found.progress}%"
    return shown


def _create(version: Version) -> Schema:
    properties: dict[str, Schema] = {
        "volume_id": ID_OR_NULL,
        "name": NAME,
        "display_name": NAME,
        "description": NAME,
        "metadata": METADATA | {"type": ["object", "null"]},
        "force": BOOLEAN,
    }
    return body("snapshot", properties, ("volume_id",))


class SnapshotBase(VolumeView):
    """Base of the snapshot views."""

    def found(self, snapshot_id: str) -> Snapshot:
        return snapshot_for(self.context, snapshot_id)


class SnapshotsView(SnapshotBase, ListingView):
    """``GET`` and ``POST /snapshots``."""

    rules = {"GET": "volume:get_all_snapshots", "POST": "volume:create_snapshot"}
    schemas = {"POST": _create}
    path = "snapshots"
    lists = SNAPSHOTS
    queries = {"GET": lists.schema}

    def get(self, request: Request) -> Response:
        """List snapshots of the project."""
        return self.listed(request)

    def rows(self, *, all_projects: bool) -> QuerySet[Snapshot]:
        return visible_snapshots(self.context, all_projects=all_projects)

    def shapes(self, rows: list[Snapshot]) -> list[dict[str, Any]]:
        return [summary(row) for row in rows]

    def post(self, request: Request) -> Response:
        """Create a snapshot of a volume.

        For a volume in use, ``force`` must be true before 3.65, and must not be false in 3.65.
        """
        asked = self.checked_body()["snapshot"]
        force = asked.get("force")
        if self.microversion >= FORCE_IS_USUAL:
            if force is not None and not boolean(force):
                msg = f"Since microversion 3.66 the 'force' option is invalid, and must not be {force!r}."
                raise InvalidInputError(msg, field="force")
            force = True
        elif self.microversion >= NEWEST_OF_THE_SDK and force is None:
            force = True
        made = services.create_snapshot(
            self.context,
            asked["volume_id"] or "",
            name=text_of(asked, "name") or text_of(asked, "display_name"),
            description=text_of(asked, "description"),
            force=boolean(force or False),
            metadata=asked.get("metadata") or {},
        )
        return Response({"snapshot": shape(self, self.found(str(made.id)), extended=False)}, status=202)


class SnapshotsDetailView(SnapshotsView):
    """``GET /snapshots/detail``."""

    rules = {"GET": "volume:get_all_snapshots"}
    path = "snapshots/detail"
    http_method_names = ["get", "head"]

    def get(self, request: Request) -> Response:
        """List snapshots with all their attributes."""
        return self.listed(request)

    def shapes(self, rows: list[Snapshot]) -> list[dict[str, Any]]:
        return [shape(self, row) for row in rows]


class SnapshotView(SnapshotBase):
    """``GET``, ``PUT`` and ``DELETE /snapshots/{id}``."""

    rules = {
        "GET": "volume:get_snapshot",
        "PUT": "volume:update_snapshot",
        "DELETE": "volume:delete_snapshot",
    }
    schemas = {
        "PUT": body("snapshot", {"name": NAME, "display_name": NAME, "description": NAME, "display_description": NAME})
    }

    def get(self, request: Request, snapshot_id: str) -> Response:
        """Show a snapshot of a volume."""
        return Response({"snapshot": shape(self, self.found(snapshot_id))})

    def put(self, request: Request, snapshot_id: str) -> Response:
        """Update name and description."""
        asked = self.checked_body()["snapshot"]
        changes = texts_of(asked)
        if set(changes.values()) == {None}:
            raise InvalidInputError("Specify the name or the description of the snapshot.")
        services.update_snapshot(self.context, snapshot_id, **changes)
        return Response({"snapshot": shape(self, self.found(snapshot_id), extended=False)})

    def delete(self, request: Request, snapshot_id: str) -> Response:
        """Delete a snapshot of a volume."""
        services.delete_snapshot(self.context, snapshot_id)
        return self.accepted()


class SnapshotMetadataView(SnapshotBase):
    """``GET``, ``POST`` and ``PUT /snapshots/{id}/metadata``."""

    rules = {
        "GET": "volume:get_snapshot_metadata",
        "POST": "volume:update_snapshot_metadata",
        "PUT": "volume:update_snapshot_metadata",
    }
    schemas = {"POST": of_metadata(), "PUT": of_metadata()}

    def get(self, request: Request, snapshot_id: str) -> Response:
        """Show the metadata of a snapshot."""
        return Response({"metadata": self.found(snapshot_id).metadata})

    def post(self, request: Request, snapshot_id: str) -> Response:
        """Add or update items."""
        return self._write(snapshot_id, replace=False)

    def put(self, request: Request, snapshot_id: str) -> Response:
        """Replace the metadata."""
        return self._write(snapshot_id, replace=True)

    def _write(self, snapshot_id: str, *, replace: bool) -> Response:
        items = self.checked_body()["metadata"]
        changed = services.set_snapshot_metadata(self.context, snapshot_id, items, replace=replace)
        return Response({"metadata": changed.metadata})


_ITEM: Schema = {
    "type": "object",
    "properties": {"meta": METADATA | {"minProperties": 1, "maxProperties": 1}},
    "required": ["meta"],
    "additionalProperties": False,
}


class SnapshotMetadataItemView(SnapshotBase):
    """``GET``, ``PUT`` and ``DELETE /snapshots/{id}/metadata/{key}``."""

    rules = {
        "GET": "volume:get_snapshot_metadata",
        "PUT": "volume:update_snapshot_metadata",
        "DELETE": "volume:delete_snapshot_metadata",
    }
    schemas = {"PUT": _ITEM}

    def get(self, request: Request, snapshot_id: str, key: str) -> Response:
        """Show an item of the metadata."""
        values = self.found(snapshot_id).metadata
        if key not in values:
            raise NotFoundError(f"Snapshot {snapshot_id[:64]} has no metadata with key {key[:64]}.")
        return Response({"meta": {key: values[key]}})

    def put(self, request: Request, snapshot_id: str, key: str) -> Response:
        """Set an item of the metadata."""
        asked = self.checked_body()["meta"]
        if key not in asked:
            raise InvalidInputError("Request body and URI mismatch")
        services.set_snapshot_metadata(self.context, snapshot_id, asked)
        return Response({"meta": asked})

    def delete(self, request: Request, snapshot_id: str, key: str) -> Response:
        """Delete an item of the metadata."""
        if key not in self.found(snapshot_id).metadata:
            raise NotFoundError(f"Snapshot {snapshot_id[:64]} has no metadata with key {key[:64]}.")
        services.delete_snapshot_metadata(self.context, snapshot_id, key)
        return Response(status=200)


def _reset_status(view: ActionsView, snapshot_id: str, asked: Any) -> Response:
    services.reset_snapshot_status(view.context, snapshot_id, asked["status"])
    return view.accepted()


def _update_status(view: ActionsView, snapshot_id: str, asked: Any) -> Response:
    services.update_snapshot_status(view.context, snapshot_id, asked["status"], asked.get("progress"))
    return view.accepted()


def _force_delete(view: ActionsView, snapshot_id: str, asked: Any) -> Response:
    services.delete_snapshot(view.context, snapshot_id, force=True)
    return view.accepted()


def _unmanage(view: ActionsView, snapshot_id: str, asked: Any) -> Response:
    snapshot_for(view.context, snapshot_id)
    raise InvalidInputError("Unmanage snapshot not implemented.")


_STATUS: Schema = {"type": "string", "minLength": 1, "maxLength": 64}
SNAPSHOT_ACTIONS: dict[str, Action] = {
    "os-reset_status": Action(
        rule="volume_extension:snapshot_admin_actions:reset_status",
        act=_reset_status,
        schema=inner({"status": _STATUS}, ("status",)),
    ),
    "os-update_snapshot_status": Action(
        rule="snapshot_extension:snapshot_actions:update_snapshot_status",
        act=_update_status,
        schema=inner({"status": _STATUS, "progress": {"type": "string", "pattern": r"^[0-9]{1,3}%?\Z"}}, ("status",)),
    ),
    "os-force_delete": Action(rule="volume_extension:snapshot_admin_actions:force_delete", act=_force_delete),
    "os-unmanage": Action(rule="snapshot_extension:snapshot_unmanage", act=_unmanage),
}


class SnapshotActionView(ActionsView):
    """``POST /snapshots/{id}/action``: the one key of the body names the action."""

    rules = {"POST": "volume:get_snapshot"}
    action_rules = {name: action.rule for name, action in SNAPSHOT_ACTIONS.items()}
    actions = SNAPSHOT_ACTIONS
    schemas = {"POST": actions_schema(SNAPSHOT_ACTIONS)}

    def post(self, request: Request, snapshot_id: str) -> Response:
        """Run the action in the body."""
        return self.act(request, snapshot_id)


class ManageableSnapshotsView(ManageableBase):
    """``GET`` and ``POST /manageable_snapshots`` and similar paths, from 3.8 on."""

    rules = {"GET": "snapshot_extension:list_manageable", "POST": "snapshot_extension:snapshot_manage"}

    def get(self, request: Request) -> Response:
        """Return an empty list: unmanaged disks can only become volumes."""
        return Response({"manageable-snapshots": []})

    def post(self, request: Request) -> Response:
        """Refused, with Cinder's message for drivers without this feature."""
        raise InvalidInputError("Manage existing snapshot not implemented.")


class ManageableSnapshotsListView(ManageableSnapshotsView):
    """``GET /manageable_snapshots/detail`` and similar paths."""

    rules = {"GET": "snapshot_extension:list_manageable"}
    http_method_names = ["get", "head"]
