"""Groups and group snapshots (reference, "Groups", "Group snapshots"), from 3.13 and 3.14 on."""

from typing import Any

from django.db.models import Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.requests import NEWEST, Schema
from portal.api.common.views import ServiceView
from portal.api.frame.lists import Column, identity
from portal.api.frame.resource import Attribute, Checked, Operation, Values, body, inner
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect import kinds
from portal.api.volume.dialect.kinds import ID, OPTIONAL, PROJECT, TEXT, TIME
from portal.api.volume.dialect.listing import Lists
from portal.api.volume.dialect.resource import Action, Actions, Resource, actions_schema
from portal.api.volume.dialect.schemas import BOOLEAN, ID_OR_NULL, NAME, asked_for, boolean, text_of
from portal.api.volume.dialect.views import ActionsView
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotOfferedError
from provisioning.volumes.models import Group, GroupSnapshot
from provisioning.volumes.selectors.groups import (
    group_for,
    group_snapshot_for,
    visible_group_snapshots,
    visible_groups,
)
from provisioning.volumes.services import groups as services

_IDS: Schema = {"type": ["string", "null"], "maxLength": 40_000, "pattern": r"^[^\x00]*\Z"}
_SORT = {"id": "id", "name": "name", "status": "status", "created_at": "created_at", "updated_at": "updated_at"}
_CHANGES = body("group", {"name": NAME, "description": NAME, "add_volumes": _IDS, "remove_volumes": _IDS})
_TYPES = Checked(
    {"type": "array", "items": ID.schema, "minItems": 1, "maxItems": 100, "uniqueItems": True},
    writer=lambda types: [str(each.id) for each in types.all()],
)


class Volumes(Attribute):
    """The volumes of a group, with ``list_volume`` in the query."""

    def is_shown(self, view: ServiceView) -> bool:
        return super().is_shown(view) and asked_for(view.request, "list_volume")


def _groups(context: RequestContext, *, all_projects: bool) -> QuerySet[Group]:
    return visible_groups(context, all_projects=all_projects).prefetch_related("volume_types", "volumes")


def _create(view: VolumeView, values: Values) -> Group:
    return services.create_group(view.context, values.pop("group_type_id"), values.pop("volume_types"), **values)


def _update(view: VolumeView, identity: str, values: Values) -> None:
    change = services.GroupChange(
        name=None if values.get("name") is None else text_of(values, "name"),
        description=None if values.get("description") is None else text_of(values, "description"),
        add=_ids(values.get("add_volumes")),
        remove=_ids(values.get("remove_volumes")),
    )
    if change == services.GroupChange():
        raise InvalidInputError("Name, description, add_volumes, and remove_volumes can not be all empty.")
    services.update_group(view.context, identity, change)


def _ids(text: str | None) -> list[str]:
    return [each.strip() for each in (text or "").split(",") if each.strip()]


_ID, _NAME = Attribute("id", ID), Attribute("name", kinds.NAME, post=True, default="")
GROUP = Resource(
    name="group",
    parameter="volume_group_id",
    since=(3, 13),
    list=Operation(_groups, "group:get_all", "List groups by id and name."),
    show=Operation(group_for, "group:get", "Show a group of volumes."),
    create=Operation(_create, "group:create", "Create a group without volumes.", shows=(_ID, _NAME)),
    update=Operation(
        _update,
        "group:update",
        "Update name and description; ``add_volumes`` and ``remove_volumes`` are comma-separated ids.",
        status=202,
        body=_CHANGES,
    ),
    short=(_ID, _NAME),
    attributes=(
        _ID,
        Attribute("status", TEXT),
        Attribute("availability_zone", Checked(ID_OR_NULL, lambda zone: zone or ""), post=True),
        Attribute("created_at", TIME),
        _NAME,
        Attribute("description", OPTIONAL, post=True),
        Attribute("group_type", ID, column="group_type_id", post=True, required=True),
        Attribute("volume_types", _TYPES, post=True, required=True),
        Attribute("group_snapshot_id", ID, column="source_group_snapshot_id", since=(3, 14)),
        Attribute("source_group_id", ID, since=(3, 14)),
        Volumes("volumes", _TYPES, since=(3, 25)),
        Attribute("replication_status", TEXT, show=lambda row: "disabled", since=(3, 38)),
        Attribute("project_id", PROJECT, rule="group:group_project_attribute", since=(3, 58)),
    ),
    lists=Lists(
        filters={
            "name": Column("name"),
            "status": Column("status"),
            "list_volume": lambda value: Q(),  # controls the shown fields, not the filter
        },
        like={"name": "name", "status": "status"},
        sort=_SORT,
    ),
)


def _delete(view: ActionsView, group_id: str, body: Any) -> Response:
    services.delete_group(view.context, group_id, delete_volumes=boolean(body.get("delete-volumes", False)))
    return view.accepted()


def _reset(view: ActionsView, group_id: str, body: Any) -> Response:
    services.reset_group_status(view.context, group_id, body["status"])
    return view.accepted()


def _create_from(view: ActionsView, _: str, body: Any) -> Response:
    named = [name for name in ("group_snapshot_id", "source_group_id") if body.get(name)]
    if len(named) != 1:
        raise InvalidInputError("Name either group_snapshot_id or source_group_id.", field="source_group_id")
    made = services.create_group_from(
        view.context,
        **{named[0]: body[named[0]]},
        name=text_of(body, "name"),
        description=text_of(body, "description"),
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
    versions = {"POST": ((3, 13), NEWEST)}
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
    versions = {"POST": ((3, 14), NEWEST)}
    actions = FROM_ACTIONS
    schemas = {"POST": actions_schema(FROM_ACTIONS)}

    def post(self, request: Request) -> Response:
        """Create a group from a group snapshot or from another group."""
        return self.act(request, "")


def _create_snapshot(view: VolumeView, values: Values) -> GroupSnapshot:
    return services.create_group_snapshot(view.context, values.pop("group_id"), **values)


def _delete_snapshot(view: VolumeView, identity: str) -> None:
    services.delete_group_snapshot(view.context, identity)


def _reset_snapshot(view: ActionsView, group_snapshot_id: str, body: Any) -> Response:
    services.reset_group_snapshot_status(view.context, group_snapshot_id, body["status"])
    return view.accepted()


_TYPE = Attribute("group_type_id", ID)
GROUP_SNAPSHOT = Resource(
    name="group_snapshot",
    since=(3, 14),
    list=Operation(visible_group_snapshots, "group:get_all_group_snapshots", "List snapshots of the project's groups."),
    show=Operation(group_snapshot_for, "group:get_group_snapshot", "Show a snapshot of a group."),
    create=Operation(
        _create_snapshot,
        "group:create_group_snapshot",
        "Create a snapshot of each volume of a group.",
        shows=(_ID, _NAME, _TYPE),
    ),
    delete=Operation(_delete_snapshot, "group:delete_group_snapshot", "Delete a group snapshot with its snapshots."),
    short=(_ID, _NAME, _TYPE),
    attributes=(
        _ID,
        Attribute("group_id", ID, post=True, required=True),
        _TYPE,
        Attribute("status", TEXT),
        Attribute("created_at", TIME),
        _NAME,
        Attribute("description", OPTIONAL, post=True),
        Attribute("project_id", PROJECT, rule="group:group_snapshot_project_attribute", since=(3, 58)),
    ),
    lists=Lists(
        filters={
            "name": Column("name"),
            "status": Column("status"),
            "group_id": Column("group_id", identity),
        },
        since=dict.fromkeys(("name", "status", "group_id"), (3, 29)),
        like={"name": "name", "status": "status"},
        sort=_SORT | {"group_id": "group_id", "group_type_id": "group_type_id"},
    ),
    actions=Actions(
        "group:reset_group_snapshot_status",
        "Reset a group snapshot's status.",
        {
            "reset_status": Action(
                rule="group:reset_group_snapshot_status", act=_reset_snapshot, schema=_STATUS, since=(3, 19)
            )
        },
    ),
)
