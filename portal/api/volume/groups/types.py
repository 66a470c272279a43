"""Group types and their specs (reference, "Group types", "Group type specs"), from 3.11 on."""

from portal.api.frame.parts import Entries, parts, sent
from portal.api.frame.resource import Attribute, Operation, Values
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect import schemas
from portal.api.volume.dialect.kinds import BOOLEAN, ID, NEW_NAME, SPECS, TEXT
from portal.api.volume.dialect.listing import Lists
from portal.api.volume.dialect.resource import Resource
from portal.api.volume.dialect.views import ResourceView
from portal.api.volume.types.resource import public
from provisioning.common.errors import InvalidInputError
from provisioning.volumes.models import GroupType
from provisioning.volumes.selectors.offers import group_type_for, group_types
from provisioning.volumes.services.catalogue import group_types as services

SINCE = (3, 11)


def _create(view: VolumeView, values: Values) -> GroupType:
    return services.create_group_type(**values)


def _update(view: VolumeView, identity: str, values: Values) -> GroupType:
    changes = {name: value for name, value in values.items() if value is not None}
    if not changes:
        message = "Specify group type name, description, is_public or a combination thereof."  # quoted: Cinder
        raise InvalidInputError(message)
    return services.update_group_type(group_type_for(view.context, identity), changes)


def _delete(view: VolumeView, identity: str) -> None:
    services.delete_group_type(group_type_for(view.context, identity))


GROUP_TYPE = Resource(
    name="group_type",
    since=SINCE,
    list=Operation(
        lambda context, **_: group_types(context), "group:get_all", "List the group types that the caller may use."
    ),
    show=Operation(group_type_for, "group:get", "Show a group type."),
    create=Operation(_create, "group:group_types:create", "Create a group type."),
    update=Operation(_update, "group:group_types:update", "Update the name, the description, or whether it is public."),
    delete=Operation(_delete, "group:group_types:delete", "Delete a group type without groups."),
    attributes=(
        Attribute("id", ID),
        Attribute("name", NEW_NAME, post=True, put=True, required=True),
        Attribute("description", TEXT, post=True, put=True),
        Attribute("is_public", BOOLEAN, post=True, put=True),
        Attribute("group_specs", SPECS, post=True, rule="group:access_group_types_specs"),
    ),
    lists=Lists(
        filters={"is_public": public},
        sort={"id": "id", "name": "name", "created_at": "created_at"},
        strict=False,
    ),
)

_SPECS = Entries(
    name="group_specs",
    values=lambda view, row: row.group_specs,
    schema=schemas.SPECS,
    merge=services.set_group_specs,
    remove=services.delete_group_spec,
    missing="Group Type {found.pk} has no specs with key {key}.",
)
PARTS = parts(
    ResourceView,
    "group_specs",
    {
        "GET": _SPECS.all("group:group_types_specs:get_all", "List the specs of a group type.", since=SINCE),
        "POST": _SPECS.merging(
            "group:group_types_specs:create", "Add or update specs.", shape=sent, status=202, since=SINCE
        ),
        "GET /{key}": _SPECS.one("group:group_types_specs:get", "Show a spec of a group type.", since=SINCE),
        "PUT /{key}": _SPECS.setting("group:group_types_specs:update", "Set a spec of a group type.", since=SINCE),
        "DELETE /{key}": _SPECS.removing(
            "group:group_types_specs:delete", "Delete a spec of a group type.", status=202, since=SINCE
        ),
    },
    resource=GROUP_TYPE,
)
