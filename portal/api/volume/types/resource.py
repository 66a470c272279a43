"""Volume types (Block Storage API v3 reference, "Volume types (types)")."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.db.models import Q, QuerySet
from rest_framework.response import Response

from portal.api.frame.lists import Column
from portal.api.frame.resource import Attribute, Operation, Values, body, inner
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect import listing, schemas
from portal.api.volume.dialect.kinds import BOOLEAN, ID, NEW_NAME, SPECS, TEXT
from portal.api.volume.dialect.listing import Lists
from portal.api.volume.dialect.resource import Action, Actions, Resource
from portal.api.volume.dialect.views import VOLUME, ActionsView, DetailView, ListView
from provisioning.common.errors import InvalidInputError
from provisioning.common.values.ids import read_id
from provisioning.volumes.models import VolumeType
from provisioning.volumes.selectors.types import type_for, visible_types
from provisioning.volumes.services.catalogue import types as services

VISIBLE = frozenset({"multiattach", "RESKEY:availability_zones", "replication_enabled"})
"""Extra specs that every user may see."""
SPECS_FILTER = (3, 52)


def visible_specs(view: VolumeView, specs: dict[str, str]) -> dict[str, str]:
    """Return the extra specs that the caller may see."""
    if view.allows("volume_extension:types_extra_specs:read_sensitive"):
        return specs
    return {name: value for name, value in specs.items() if name in VISIBLE}


def public(value: str) -> Q:
    """Read ``is_public``; ``None`` matches both."""
    if value.lower() in {"none", ""}:
        return Q()
    return listing.boolean("is_public")(value)


class VisibleSpecs(Attribute):
    """The extra specs that the caller may see."""

    def reader(self, view: Any, rows: Sequence[Any]) -> Callable[[Any], Any]:
        return lambda row: visible_specs(view, row.extra_specs)


class TypesView(ListView):
    """``/v3/types``."""

    def rows(self, *, all_projects: bool) -> QuerySet[VolumeType]:
        """Return no types for a filter on extra specs that the caller may not see."""
        rows = super().rows(all_projects=all_projects)
        query = self.request.query_params
        secret = "extra_specs" in query and self.microversion >= SPECS_FILTER
        if secret and not self.allows("volume_extension:types_extra_specs:read_sensitive"):
            named = listing.read_pairs(query["extra_specs"])
            return rows if named.keys() <= VISIBLE else rows.none()
        return rows


class TypeView(DetailView):
    """``/v3/types/{id}``; ``default`` is the type of new volumes."""

    def row(self, identity: str) -> VolumeType:
        if identity == "default":
            return services.default_type_of(self.own_project)
        return type_for(self.context, identity)


def _create(view: VolumeView, values: Values) -> VolumeType:
    return services.create_type(**values)


def _update(view: VolumeView, identity: str, values: Values) -> VolumeType:
    changes = {name: value for name, value in values.items() if value is not None}
    if not changes:
        message = "Specify volume type name, description, is_public or a combination thereof."  # quoted: Cinder
        raise InvalidInputError(message)
    return services.update_type(type_for(view.context, identity), changes)


def _delete(view: VolumeView, identity: str) -> None:
    services.delete_type(type_for(view.context, identity))


def _change_access(change: Callable[..., object], view: ActionsView, identity: str, body: Any) -> Response:
    project = read_id(body["project"])
    if project is None:
        raise InvalidInputError(f"Invalid project id {body['project'][:64]}.", field="project")
    change(type_for(view.context, identity), project)
    return view.accepted()


_CHANGES = {
    "volume_extension:volume_type_access:addProjectAccess": services.add_access,
    "volume_extension:volume_type_access:removeProjectAccess": services.remove_access,
}
_PLAIN = (
    Attribute("id", ID),
    Attribute("name", NEW_NAME, post=True, put=True, required=True),
    Attribute("is_public", BOOLEAN, put=True),
    Attribute("description", TEXT, post=True, put=True),
)
_SPECS = Attribute("extra_specs", SPECS)
"""All extra specs: callers who may create or update types see them."""
_ACCESS = Attribute(
    "os-volume-type-access:is_public",
    BOOLEAN,
    column="is_public",
    post=True,
    rule="volume_extension:volume_type_access",
)
_UPDATE = {
    "name": schemas.NEW_NAME | {"type": ["string", "null"]},
    "description": schemas.NAME,
    "is_public": schemas.BOOLEAN,
}

TYPE = Resource(
    name="volume_type",
    path="types",
    list=Operation(
        lambda context, **_: visible_types(context),
        "volume_extension:type_get_all",
        "List the types that the caller may use; operators also see private ones.",
    ),
    show=Operation(type_for, "volume_extension:type_get", "Show a volume type."),
    create=Operation(
        _create,
        "volume_extension:type_create",
        "Create a volume type.",
        status=200,
        shows=(*_PLAIN, _SPECS, _ACCESS),
    ),
    update=Operation(
        _update,
        "volume_extension:type_update",
        "Update the name, the description, or whether it is public.",
        body=body("volume_type", _UPDATE),
        shows=(*_PLAIN, _SPECS),
    ),
    delete=Operation(_delete, "volume_extension:type_delete", "Delete a volume type without volumes."),
    attributes=(
        *_PLAIN,
        VisibleSpecs("extra_specs", SPECS, post=True, rule="volume_extension:access_types_extra_specs"),
        Attribute("qos_specs_id", ID, column="qos_spec_id", rule="volume_extension:access_types_qos_specs_id"),
        _ACCESS,
    ),
    lists=Lists(
        filters={"is_public": public, "extra_specs": listing.pairs("extra_specs"), "name": Column("name")},
        since={"extra_specs": SPECS_FILTER},
        sort={"id": "id", "name": "name", "created_at": "created_at", "updated_at": "updated_at"},
        strict=False,
    ),
    actions=Actions(
        "volume_extension:type_get",
        "Grant or revoke a project's access to a type.",
        {
            rule.rpartition(":")[2]: Action(
                rule=rule,
                act=partial(_change_access, change),
                schema=inner({"project": schemas.ID}, ("project",)),
            )
            for rule, change in _CHANGES.items()
        },
    ),
)
TYPES = replace(VOLUME, lists=TypesView, details=TypeView)
