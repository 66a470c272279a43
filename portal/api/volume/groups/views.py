"""Groups and group snapshots (reference, "Groups", "Group snapshots"), from 3.13 and 3.14 on."""

from typing import Any

from django.db.models import Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import NEWEST
from portal.api.common.validation import Schema
from portal.api.frame.schemas import body, inner
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect import listing
from portal.api.volume.dialect.actions import Action, actions_schema
from portal.api.volume.dialect.listing import Lists
from portal.api.volume.dialect.schemas import BOOLEAN, ID, ID_OR_NULL, NAME, asked_for, boolean, text_of
from portal.api.volume.dialect.times import timestamp
from portal.api.volume.dialect.views import ActionsView, ListingView
from provisioning.common.errors import InvalidInputError, NotOfferedError
from provisioning.volumes.models import Group, GroupSnapshot
from provisioning.volumes.selectors.groups import (
    group_for,
    group_snapshot_for,
    status_of,
    visible_group_snapshots,
    visible_groups,
)
from provisioning.volumes.services import groups as services

SINCE = ((3, 13), NEWEST)
SNAPSHOTS_SINCE = ((3, 14), NEWEST)
_METHODS = ("GET", "POST", "PUT", "DELETE")
_IDS: Schema = {"type": ["string", "null"], "maxLength": 40_000, "pattern": r"^[^\x00]*\Z"}
_SORT = {"id": "id", "name": "name", "status": "status", "created_at": "created_at", "updated_at": "updated_at"}
_GROUP = body(
    "group",
    {
        "name": NAME,
        "description": NAME,
        "group_type": ID,
        "volume_types": {"type": "array", "items": ID, "minItems": 1, "maxItems": 100, "uniqueItems": True},
        "availability_zone": ID_OR_NULL,
    },
    ("group_type", "volume_types"),
)


class GroupBase(VolumeView):
    """Base of the group views."""

    versions = dict.fromkeys(_METHODS, SINCE)

    def shape(self, found: Group) -> dict[str, Any]:
        """A group in full, with the fields of the microversion."""
        shown: dict[str, Any] = {
            "id": str(found.id),
            "status": found.status,
            "availability_zone": found.availability_zone,
            "created_at": timestamp(found.created_at),
            "name": found.name,
            "description": found.description or None,
            "group_type": str(found.group_type_id),
            "volume_types": [str(each.id) for each in found.volume_types.all()],
        }
        if self.microversion >= (3, 14):
            snapshot, source = found.source_group_snapshot_id, found.source_group_id
            shown["group_snapshot_id"] = str(snapshot) if snapshot else None
            shown["source_group_id"] = str(source) if source else None
        if self.microversion >= (3, 25) and asked_for(self.request, "list_volume"):
            shown["volumes"] = [str(each.id) for each in found.volumes.all()]
        if self.microversion >= (3, 38):
            shown["replication_status"] = "disabled"
        if self.microversion >= (3, 58) and self.allows("group:group_project_attribute"):
            shown["project_id"] = found.project_id.hex
        return shown


class GroupsView(GroupBase, ListingView):
    """``GET`` and ``POST /groups``."""

    rules = {"GET": "group:get_all", "POST": "group:create"}
    schemas = {"POST": _GROUP}
    path = "groups"
    lists = Lists(
        plural="groups",
        filters={
            "name": listing.text("name"),
            "status": listing.text("status"),
            "list_volume": lambda value: Q(),  # controls the shown fields, not the filter
        },
        like={"name": "name", "status": "status"},
        sort=_SORT,
    )
    queries = {"GET": lists.schema}

    def get(self, request: Request) -> Response:
        """List groups by id and name."""
        return self.listed(request)

    def rows(self, *, all_projects: bool) -> QuerySet[Group]:
        rows = visible_groups(self.context, all_projects=all_projects)
        return rows.prefetch_related("volume_types", "volumes")

    def shapes(self, rows: list[Group]) -> list[dict[str, Any]]:
        return [{"id": str(row.id), "name": row.name} for row in rows]

    def post(self, request: Request) -> Response:
        """Create a group without volumes."""
        asked = self.checked_body()["group"]
        made = services.create_group(
            self.context,
            asked["group_type"],
            asked["volume_types"],
            name=text_of(asked, "name"),
            description=text_of(asked, "description"),
            availability_zone=asked.get("availability_zone") or "",
        )
        return Response({"group": {"id": str(made.id), "name": made.name}}, status=202)


class GroupsDetailView(GroupsView):
    """``GET /groups/detail``."""

    rules = {"GET": "group:get_all"}
    http_method_names = ["get", "head"]
    path = "groups/detail"

    def get(self, request: Request) -> Response:
        """List groups with all their attributes."""
        return self.listed(request)

    def shapes(self, rows: list[Group]) -> list[dict[str, Any]]:
        return [self.shape(row) for row in rows]


class GroupView(GroupBase):
    """``GET`` and ``PUT /groups/{id}``."""

    rules = {"GET": "group:get", "PUT": "group:update"}
    schemas = {
        "PUT": body("group", {"name": NAME, "description": NAME, "add_volumes": _IDS, "remove_volumes": _IDS}),
    }

    def get(self, request: Request, volume_group_id: str) -> Response:
        """Show a group of volumes."""
        return Response({"group": self.shape(group_for(self.context, volume_group_id))})

    def put(self, request: Request, volume_group_id: str) -> Response:
        """Update name and description; ``add_volumes`` and ``remove_volumes`` are comma-separated ids."""
        asked = self.checked_body()["group"]
        change = services.GroupChange(
            name=None if asked.get("name") is None else text_of(asked, "name"),
            description=None if asked.get("description") is None else text_of(asked, "description"),
            add=_ids(asked.get("add_volumes")),
            remove=_ids(asked.get("remove_volumes")),
        )
        if change == services.GroupChange():
            raise InvalidInputError("Name, description, add_volumes, and remove_volumes can not be all empty.")
        services.update_group(self.context, volume_group_id, change)
        return self.accepted()


def _ids(text: str | None) -> list[str]:
    return [each.strip() for each in (text or "").split(",") if each.strip()]


def _delete(view: ActionsView, group_id: str, asked: Any) -> Response:
    services.delete_group(view.context, group_id, delete_volumes=boolean(asked.get("delete-volumes", False)))
    return view.accepted()


def _reset(view: ActionsView, group_id: str, asked: Any) -> Response:
    services.reset_group_status(view.context, group_id, asked["status"])
    return view.accepted()


def _create_from(view: ActionsView, _: str, asked: Any) -> Response:
    named = [name for name in ("group_snapshot_id", "source_group_id") if asked.get(name)]
    if len(named) != 1:
        raise InvalidInputError("Name either group_snapshot_id or source_group_id.", field="source_group_id")
    made = services.create_group_from(
        view.context,
        **{named[0]: asked[named[0]]},
        name=text_of(asked, "name"),
        description=text_of(asked, "description"),
    )
    return Response({"group": {"id": str(made.id), "name": made.name}}, status=202)


_STATUS = inner({"status": {"type": "string", "minLength": 1, "maxLength": 64}}, ("status",))
GROUP_ACTIONS: dict[str, Action] = {
    "delete": Action(rule="group:delete", act=_delete, schema=inner({"delete-volumes": BOOLEAN})),
    "reset_status": Action(rule="group:reset_status", act=_reset, schema=_STATUS, since=(3, 20)),
}
FROM_ACTIONS: dict[str, Action] = {
    "create-from-src": Action(
        rule="group:create",
        act=_create_from,
        schema=inner(
            {"name": NAME, "description": NAME, "group_snapshot_id": ID_OR_NULL, "source_group_id": ID_OR_NULL}
        ),
        since=(3, 14),
    ),
}


class GroupActionView(ActionsView):
    """``POST /groups/{id}/action``: ``delete`` or ``reset_status``."""

    rules = {"POST": "group:get"}
    versions = {"POST": SINCE}
    action_rules = {name: action.rule for name, action in GROUP_ACTIONS.items()}
    actions = GROUP_ACTIONS
    schemas = {"POST": actions_schema(GROUP_ACTIONS)}

    def post(self, request: Request, volume_group_id: str) -> Response:
        """Delete a group or reset its status; replication is not supported."""
        names = list(request.data) if isinstance(request.data, dict) else []
        if names and str(names[0]).endswith(("_replication", "_replication_targets")):
            raise NotOfferedError("Pools are not replicated.")
        return self.act(request, volume_group_id)


class GroupFromView(ActionsView):
    """``POST /groups/action``: ``create-from-src``, from 3.14 on."""

    rules = {"POST": "group:create"}
    versions = {"POST": SNAPSHOTS_SINCE}
    actions = FROM_ACTIONS
    schemas = {"POST": actions_schema(FROM_ACTIONS)}

    def post(self, request: Request) -> Response:
        """Create a group from a group snapshot or from another group."""
        return self.act(request, "")


class GroupSnapshotBase(VolumeView):
    """Base of the group snapshot views."""

    versions = dict.fromkeys(_METHODS, SNAPSHOTS_SINCE)

    def summary(self, found: GroupSnapshot) -> dict[str, Any]:
        return {"id": str(found.id), "name": found.name, "group_type_id": str(found.group_type_id)}

    def shape(self, found: GroupSnapshot) -> dict[str, Any]:
        """A group snapshot in full."""
        shown: dict[str, Any] = {
            "id": str(found.id),
            "group_id": str(found.group_id),
            "group_type_id": str(found.group_type_id),
            "status": status_of(found.status, found.snapshots.all()),
            "created_at": timestamp(found.created_at),
            "name": found.name,
            "description": found.description or None,
        }
        if self.microversion >= (3, 58) and self.allows("group:group_snapshot_project_attribute"):
            shown["project_id"] = found.project_id.hex
        return shown


class GroupSnapshotsView(GroupSnapshotBase, ListingView):
    """``GET`` and ``POST /group_snapshots``."""

    rules = {"GET": "group:get_all_group_snapshots", "POST": "group:create_group_snapshot"}
    schemas = {"POST": body("group_snapshot", {"name": NAME, "description": NAME, "group_id": ID}, ("group_id",))}
    path = "group_snapshots"
    lists = Lists(
        plural="group_snapshots",
        filters={
            "name": listing.text("name"),
            "status": listing.text("status"),
            "group_id": listing.identity("group_id"),
        },
        since=dict.fromkeys(("name", "status", "group_id"), (3, 29)),
        like={"name": "name", "status": "status"},
        sort=_SORT | {"group_id": "group_id", "group_type_id": "group_type_id"},
    )
    queries = {"GET": lists.schema}

    def get(self, request: Request) -> Response:
        """List snapshots of the project's groups."""
        return self.listed(request)

    def rows(self, *, all_projects: bool) -> QuerySet[GroupSnapshot]:
        return visible_group_snapshots(self.context, all_projects=all_projects).prefetch_related("snapshots")

    def shapes(self, rows: list[GroupSnapshot]) -> list[dict[str, Any]]:
        return [self.summary(row) for row in rows]

    def post(self, request: Request) -> Response:
        """Create a snapshot of each volume of a group."""
        asked = self.checked_body()["group_snapshot"]
        made = services.create_group_snapshot(
            self.context,
            asked["group_id"],
            name=text_of(asked, "name"),
            description=text_of(asked, "description"),
        )
        return Response({"group_snapshot": self.summary(made)}, status=202)


class GroupSnapshotsDetailView(GroupSnapshotsView):
    """``GET /group_snapshots/detail``."""

    rules = {"GET": "group:get_all_group_snapshots"}
    http_method_names = ["get", "head"]
    path = "group_snapshots/detail"

    def get(self, request: Request) -> Response:
        """List group snapshots in full."""
        return self.listed(request)

    def shapes(self, rows: list[GroupSnapshot]) -> list[dict[str, Any]]:
        return [self.shape(row) for row in rows]


class GroupSnapshotView(GroupSnapshotBase):
    """``GET`` and ``DELETE /group_snapshots/{id}``."""

    rules = {"GET": "group:get_group_snapshot", "DELETE": "group:delete_group_snapshot"}

    def get(self, request: Request, group_snapshot_id: str) -> Response:
        """Show a snapshot of a group."""
        return Response({"group_snapshot": self.shape(group_snapshot_for(self.context, group_snapshot_id))})

    def delete(self, request: Request, group_snapshot_id: str) -> Response:
        """Delete a group snapshot with its snapshots."""
        services.delete_group_snapshot(self.context, group_snapshot_id)
        return self.accepted()


def _reset_snapshot(view: ActionsView, group_snapshot_id: str, asked: Any) -> Response:
    services.reset_group_snapshot_status(view.context, group_snapshot_id, asked["status"])
    return view.accepted()


GROUP_SNAPSHOT_ACTIONS: dict[str, Action] = {
    "reset_status": Action(
        rule="group:reset_group_snapshot_status", act=_reset_snapshot, schema=_STATUS, since=(3, 19)
    ),
}


class GroupSnapshotActionView(ActionsView):
    """``POST /group_snapshots/{id}/action``, from 3.19 on."""

    rules = {"POST": "group:reset_group_snapshot_status"}
    versions = {"POST": ((3, 19), NEWEST)}
    actions = GROUP_SNAPSHOT_ACTIONS
    schemas = {"POST": actions_schema(GROUP_SNAPSHOT_ACTIONS)}

    def post(self, request: Request, group_snapshot_id: str) -> Response:
        """Reset a group snapshot's status."""
        return self.act(request, group_snapshot_id)
