"""Groups, group snapshots, group types and their specs (reference, "Groups", "Group snapshots", "Group types", "Group
type specs"), from 3.11, 3.13 and 3.14 on.
"""

from typing import Any

from django.db.models import Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api import frame
from portal.api.volume import dialect
from portal.api.volume.dialect import kinds, listing, schemas
from portal.api.volume.resources.types import PUBLIC
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotOfferedError
from provisioning.volumes.models import Group, GroupSnapshot, GroupType
from provisioning.volumes.selectors import access as selectors
from provisioning.volumes.selectors.offers import group_type_for, group_types
from provisioning.volumes.services import groups
from provisioning.volumes.services.catalogue import group_types as services

TYPES_SINCE = (3, 11)


def _create_type(view: dialect.VolumeView, values: frame.Values) -> GroupType:
    return services.create_group_type(**values)


def _update_type(view: dialect.VolumeView, identity: str, values: frame.Values) -> GroupType:
    changes = {name: value for name, value in values.items() if value is not None}
    if not changes:
        message = "Specify group type name, description, is_public or a combination thereof."  # quoted: Cinder
        raise InvalidInputError(message)
    return services.update_group_type(group_type_for(view.context, identity), changes)


def _delete_type(view: dialect.VolumeView, identity: str) -> None:
    services.delete_group_type(group_type_for(view.context, identity))


GROUP_TYPE = dialect.Resource(
    name="group_type",
    since=TYPES_SINCE,
    list=frame.Operation(
        lambda context, **_: group_types(context), "group:get_all", "List the group types that the caller may use."
    ),
    show=frame.Operation(group_type_for, "group:get", "Show a group type."),
    create=frame.Operation(_create_type, "group:group_types:create", "Create a group type."),
    update=frame.Operation(
        _update_type, "group:group_types:update", "Update the name, the description, or whether it is public."
    ),
    delete=frame.Operation(_delete_type, "group:group_types:delete", "Delete a group type without groups."),
    attributes=(
        frame.Attribute("id", kinds.ID),
        frame.Attribute("name", kinds.NEW_NAME, post=True, put=True, required=True),
        frame.Attribute("description", kinds.TEXT, post=True, put=True),
        frame.Attribute("is_public", kinds.BOOLEAN, post=True, put=True),
        frame.Attribute("group_specs", kinds.SPECS, post=True, rule="group:access_group_types_specs"),
    ),
    lists=listing.Lists(
        filters=(PUBLIC,),
        sort={"id": "id", "name": "name", "created_at": "created_at"},
        strict=False,
    ),
)

_SPECS = frame.Entries(
    name="group_specs",
    values=lambda view, row: row.group_specs,
    schema=schemas.SPECS,
    merge=services.set_group_specs,
    remove=services.delete_group_spec,
    missing="Group Type {found.pk} has no specs with key {key}.",
)
PARTS = frame.parts(
    dialect.ResourceView,
    "group_specs",
    {
        "GET": _SPECS.all("group:group_types_specs:get_all", "List the specs of a group type.", since=TYPES_SINCE),
        "POST": _SPECS.merging(
            "group:group_types_specs:create", "Add or update specs.", shape=frame.sent, status=202, since=TYPES_SINCE
        ),
        "GET /{key}": _SPECS.one("group:group_types_specs:get", "Show a spec of a group type.", since=TYPES_SINCE),
        "PUT /{key}": _SPECS.setting(
            "group:group_types_specs:update", "Set a spec of a group type.", since=TYPES_SINCE
        ),
        "DELETE /{key}": _SPECS.removing(
            "group:group_types_specs:delete", "Delete a spec of a group type.", status=202, since=TYPES_SINCE
        ),
    },
    resource=GROUP_TYPE,
)


_IDS: frame.Schema = {"type": ["string", "null"], "maxLength": 40_000, "pattern": r"^[^\x00]*\Z"}
_FILTERED = (3, 29)
"""From this version on group snapshots have filters."""
_SORT = {"id": "id", "name": "name", "status": "status", "created_at": "created_at", "updated_at": "updated_at"}
_CHANGES = frame.body(
    "group", {"name": schemas.NAME, "description": schemas.NAME, "add_volumes": _IDS, "remove_volumes": _IDS}
)
_TYPES = frame.Checked(
    {"type": "array", "items": kinds.ID.schema, "minItems": 1, "maxItems": 100, "uniqueItems": True},
    writer=lambda types: [str(each.id) for each in types.all()],
)


class Volumes(frame.Attribute):
    """The volumes of a group, with ``list_volume`` in the query."""

    def is_shown(self, view: frame.ServiceView) -> bool:
        return super().is_shown(view) and schemas.asked_for(view.request, "list_volume")


def _groups(context: RequestContext, *, all_projects: bool) -> QuerySet[Group]:
    return selectors.visible_groups(context, all_projects=all_projects).prefetch_related("volume_types", "volumes")


def _create(view: dialect.VolumeView, values: frame.Values) -> Group:
    return groups.create_group(view.context, values.pop("group_type_id"), values.pop("volume_types"), **values)


def _update(view: dialect.VolumeView, identity: str, values: frame.Values) -> None:
    change = groups.GroupChange(
        name=None if values.get("name") is None else schemas.text_of(values, "name"),
        description=None if values.get("description") is None else schemas.text_of(values, "description"),
        add=_ids(values.get("add_volumes")),
        remove=_ids(values.get("remove_volumes")),
    )
    if change == groups.GroupChange():
        raise InvalidInputError("Name, description, add_volumes, and remove_volumes can not be all empty.")
    groups.update_group(view.context, identity, change)


def _ids(text: str | None) -> list[str]:
    return [each.strip() for each in (text or "").split(",") if each.strip()]


_ID, _NAME = frame.Attribute("id", kinds.ID), frame.Attribute("name", kinds.NAME, post=True, default="")
GROUP = dialect.Resource(
    name="group",
    parameter="volume_group_id",
    since=(3, 13),
    list=frame.Operation(_groups, "group:get_all", "List groups by id and name."),
    show=frame.Operation(selectors.group_for, "group:get", "Show a group of volumes."),
    create=frame.Operation(_create, "group:create", "Create a group without volumes.", shows=(_ID, _NAME)),
    update=frame.Operation(
        _update,
        "group:update",
        "Update name and description; ``add_volumes`` and ``remove_volumes`` are comma-separated ids.",
        status=202,
        body=_CHANGES,
    ),
    short=(_ID, _NAME),
    attributes=(
        _ID,
        frame.Attribute("status", kinds.TEXT),
        frame.Attribute("availability_zone", frame.Checked(schemas.ID_OR_NULL, lambda zone: zone or ""), post=True),
        frame.Attribute("created_at", kinds.TIME),
        _NAME,
        frame.Attribute("description", kinds.OPTIONAL, post=True),
        frame.Attribute("group_type", kinds.ID, column="group_type_id", post=True, required=True),
        frame.Attribute("volume_types", _TYPES, post=True, required=True),
        frame.Attribute("group_snapshot_id", kinds.ID, column="source_group_snapshot_id", since=(3, 14)),
        frame.Attribute("source_group_id", kinds.ID, since=(3, 14)),
        Volumes("volumes", _TYPES, since=(3, 25)),
        frame.Attribute("replication_status", kinds.TEXT, show=lambda row: "disabled", since=(3, 38)),
        frame.Attribute("project_id", kinds.PROJECT, rule="group:group_project_attribute", since=(3, 58)),
    ),
    lists=listing.Lists(
        filters=(
            frame.Filter("name"),
            frame.Filter("status"),
            frame.Filter("list_volume", condition=lambda value: Q()),  # controls the shown fields, not the filter
        ),
        like=("name", "status"),
        sort=_SORT,
    ),
)


def _delete(view: dialect.ActionsView, group_id: str, body: Any) -> None:
    groups.delete_group(view.context, group_id, delete_volumes=schemas.boolean(body.get("delete-volumes", False)))


def _reset(view: dialect.ActionsView, group_id: str, body: Any) -> None:
    groups.reset_group_status(view.context, group_id, body["status"])


def _create_from(view: dialect.ActionsView, _: str, body: Any) -> frame.Json:
    named = [name for name in ("group_snapshot_id", "source_group_id") if body.get(name)]
    if len(named) != 1:
        raise InvalidInputError("Specify either group_snapshot_id or source_group_id.", field="source_group_id")
    made = groups.create_group_from(
        view.context,
        **{named[0]: body[named[0]]},
        name=schemas.text_of(body, "name"),
        description=schemas.text_of(body, "description"),
    )
    return {"group": {"id": str(made.id), "name": made.name}}


_STATUS = frame.inner({"status": {"type": "string", "minLength": 1, "maxLength": 64}}, ("status",))
GROUP_ACTIONS: dict[str, dialect.Action] = {
    "delete": dialect.Action(rule="group:delete", act=_delete, schema=frame.inner({"delete-volumes": schemas.BOOLEAN})),
    "reset_status": dialect.Action(rule="group:reset_status", act=_reset, schema=_STATUS, since=(3, 20)),
}
FROM_ACTIONS: dict[str, dialect.Action] = {
    "create-from-src": dialect.Action(
        rule="group:create",
        act=_create_from,
        schema=frame.inner(
            {
                "name": schemas.NAME,
                "description": schemas.NAME,
                "group_snapshot_id": schemas.ID_OR_NULL,
                "source_group_id": schemas.ID_OR_NULL,
            }
        ),
        since=(3, 14),
        status=202,
    ),
}


class GroupActionView(dialect.ActionsView):
    """``POST /groups/{id}/action``: ``delete`` or ``reset_status``."""

    rules = {"POST": "group:get"}
    versions = {"POST": ((3, 13), frame.NEWEST)}
    action_rules = {name: action.rule for name, action in GROUP_ACTIONS.items()}
    actions = GROUP_ACTIONS
    schemas = {"POST": dialect.actions_schema(GROUP_ACTIONS)}

    def post(self, request: Request, volume_group_id: str) -> Response:
        """Delete a group or reset its status; replication is not supported."""
        names = list(request.data) if isinstance(request.data, dict) else []
        if names and str(names[0]).endswith(("_replication", "_replication_targets")):
            raise NotOfferedError("Pools are not replicated.")
        return self.act(request, volume_group_id)


class GroupFromView(dialect.ActionsView):
    """``POST /groups/action``: ``create-from-src``, from 3.14 on."""

    rules = {"POST": "group:create"}
    versions = {"POST": ((3, 14), frame.NEWEST)}
    actions = FROM_ACTIONS
    schemas = {"POST": dialect.actions_schema(FROM_ACTIONS)}

    def post(self, request: Request) -> Response:
        """Create a group from a group snapshot or from another group."""
        return self.act(request, "")


def _create_snapshot(view: dialect.VolumeView, values: frame.Values) -> GroupSnapshot:
    return groups.create_group_snapshot(view.context, values.pop("group_id"), **values)


def _delete_snapshot(view: dialect.VolumeView, identity: str) -> None:
    groups.delete_group_snapshot(view.context, identity)


def _reset_snapshot(view: dialect.ActionsView, group_snapshot_id: str, body: Any) -> None:
    groups.reset_group_snapshot_status(view.context, group_snapshot_id, body["status"])


_TYPE = frame.Attribute("group_type_id", kinds.ID)
GROUP_SNAPSHOT = dialect.Resource(
    name="group_snapshot",
    since=(3, 14),
    list=frame.Operation(
        selectors.visible_group_snapshots, "group:get_all_group_snapshots", "List snapshots of the project's groups."
    ),
    show=frame.Operation(selectors.group_snapshot_for, "group:get_group_snapshot", "Show a snapshot of a group."),
    create=frame.Operation(
        _create_snapshot,
        "group:create_group_snapshot",
        "Create a snapshot of each volume of a group.",
        shows=(_ID, _NAME, _TYPE),
    ),
    delete=frame.Operation(
        _delete_snapshot, "group:delete_group_snapshot", "Delete a group snapshot with its snapshots."
    ),
    short=(_ID, _NAME, _TYPE),
    attributes=(
        _ID,
        frame.Attribute("group_id", kinds.ID, post=True, required=True),
        _TYPE,
        frame.Attribute("status", kinds.TEXT),
        frame.Attribute("created_at", kinds.TIME),
        _NAME,
        frame.Attribute("description", kinds.OPTIONAL, post=True),
        frame.Attribute("project_id", kinds.PROJECT, rule="group:group_snapshot_project_attribute", since=(3, 58)),
    ),
    lists=listing.Lists(
        filters=(
            frame.Filter("name", since=_FILTERED),
            frame.Filter("status", since=_FILTERED),
            frame.Filter("group_id", read=frame.identity, since=_FILTERED),
        ),
        like=("name", "status"),
        sort=_SORT | {"group_id": "group_id", "group_type_id": "group_type_id"},
    ),
    actions=dialect.Actions(
        "group:reset_group_snapshot_status",
        "Reset a group snapshot's status.",
        {
            "reset_status": dialect.Action(
                rule="group:reset_group_snapshot_status", act=_reset_snapshot, schema=_STATUS, since=(3, 19)
            )
        },
    ),
)
