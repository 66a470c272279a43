"""Volume types (Block Storage API v3 reference, "Volume types (types)"): extra specs, access, encryption, and the
default types of projects ("Default Volume Types").
"""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from django.db.models import Q, QuerySet

from portal.api.frame import Attribute, Call, Entries, Filter, Json, Operation, Schema, Values, body, inner, parts, sent
from portal.api.volume import dialect
from portal.api.volume.dialect import kinds, listing, schemas
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.identity.selectors.lookups import projects_by_id
from provisioning.volumes.models import DefaultType, VolumeType
from provisioning.volumes.selectors import offers
from provisioning.volumes.selectors.types import type_for, visible_types
from provisioning.volumes.services.catalogue import types as services

VISIBLE = frozenset({"multiattach", "RESKEY:availability_zones", "replication_enabled"})
"""Extra specs that every user may see."""
SPECS_FILTER = (3, 52)


def visible_specs(view: dialect.VolumeView, specs: dict[str, str]) -> dict[str, str]:
    """Return the extra specs that the caller may see."""
    if view.allows("volume_extension:types_extra_specs:read_sensitive"):
        return specs
    return {name: value for name, value in specs.items() if name in VISIBLE}


def _public(value: str) -> Q:
    public = listing.boolean("is_public")
    return Q() if value.lower() in {"none", ""} else public.where(public.read(value))


PUBLIC = Filter("is_public", condition=_public)
"""``None`` in the query matches public and private types."""


class VisibleSpecs(Attribute):
    """The extra specs that the caller may see."""

    def reader(self, view: Any, rows: Sequence[Any]) -> Callable[[Any], Any]:
        return lambda row: visible_specs(view, row.extra_specs)


class TypesView(dialect.ListView):
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


class TypeView(dialect.DetailView):
    """``/v3/types/{id}``; ``default`` is the type of new volumes."""

    def row(self, identity: str) -> VolumeType:
        if identity == "default":
            return services.default_type_of(self.own_project)
        return type_for(self.context, identity)


def _create(view: dialect.VolumeView, values: Values) -> VolumeType:
    return services.create_type(**values)


def _update(view: dialect.VolumeView, identity: str, values: Values) -> VolumeType:
    changes = {name: value for name, value in values.items() if value is not None}
    if not changes:
        message = "Specify volume type name, description, is_public or a combination thereof."  # quoted: Cinder
        raise InvalidInputError(message)
    return services.update_type(type_for(view.context, identity), changes)


def _delete(view: dialect.VolumeView, identity: str) -> None:
    services.delete_type(type_for(view.context, identity))


def _change_access(change: Callable[..., object], view: dialect.ActionsView, identity: str, body: Any) -> None:
    project = read_id(body["project"])
    if project is None:
        raise InvalidInputError(f"Invalid project id {body['project'][:64]}.", field="project")
    change(type_for(view.context, identity), project)


_CHANGES = {
    "volume_extension:volume_type_access:addProjectAccess": services.add_access,
    "volume_extension:volume_type_access:removeProjectAccess": services.remove_access,
}
_PLAIN = (
    Attribute("id", kinds.ID),
    Attribute("name", kinds.NEW_NAME, post=True, put=True, required=True),
    Attribute("is_public", kinds.BOOLEAN, put=True),
    Attribute("description", kinds.TEXT, post=True, put=True),
)
_SHOWN_SPECS = Attribute("extra_specs", kinds.SPECS)
"""All extra specs: callers who may create or update types see them."""
_ACCESS = Attribute(
    "os-volume-type-access:is_public",
    kinds.BOOLEAN,
    column="is_public",
    post=True,
    rule="volume_extension:volume_type_access",
)
_UPDATE = {
    "name": schemas.NEW_NAME | {"type": ["string", "null"]},
    "description": schemas.NAME,
    "is_public": schemas.BOOLEAN,
}

TYPE = dialect.Resource(
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
        shows=(*_PLAIN, _SHOWN_SPECS, _ACCESS),
    ),
    update=Operation(
        _update,
        "volume_extension:type_update",
        "Update the name, the description, or whether it is public.",
        body=body("volume_type", _UPDATE),
        shows=(*_PLAIN, _SHOWN_SPECS),
    ),
    delete=Operation(_delete, "volume_extension:type_delete", "Delete a volume type without volumes."),
    attributes=(
        *_PLAIN,
        VisibleSpecs("extra_specs", kinds.SPECS, post=True, rule="volume_extension:access_types_extra_specs"),
        Attribute("qos_specs_id", kinds.ID, column="qos_spec_id", rule="volume_extension:access_types_qos_specs_id"),
        _ACCESS,
    ),
    lists=listing.Lists(
        filters=(PUBLIC, listing.pairs("extra_specs", since=SPECS_FILTER), Filter("name")),
        sort={"id": "id", "name": "name", "created_at": "created_at", "updated_at": "updated_at"},
        strict=False,
    ),
    actions=dialect.Actions(
        "volume_extension:type_get",
        "Grant or revoke a project's access to a type.",
        {
            rule.rpartition(":")[2]: dialect.Action(
                rule=rule,
                act=partial(_change_access, change),
                schema=inner({"project": schemas.ID}, ("project",)),
            )
            for rule, change in _CHANGES.items()
        },
    ),
)
TYPES = replace(dialect.VOLUME, lists=TypesView, details=TypeView)


_SIZE: Schema = {"type": ["integer", "string", "null"], "pattern": r"^[0-9]{1,6}\Z", "minimum": 0, "maximum": 100_000}
_TEXT: Schema = {"type": "string", "maxLength": 255, "pattern": r"^[^\x00]*\Z"}
_ENCRYPTED: dict[str, Schema] = {
    "provider": _TEXT,
    "control_location": {"enum": ["front-end", "back-end"]},
    "cipher": _TEXT | {"type": ["string", "null"]},
    "key_size": _SIZE,
}
_DEFAULTS = (3, 62)
"""From this version on projects have default types."""


def _access(view: dialect.ResourceView, row: VolumeType) -> list[dict[str, str]]:
    if row.is_public:
        raise NotFoundError("Access list not available for public volume types.")
    projects = offers.projects_with_access(row.id)
    return [{"volume_type_id": str(row.id), "project_id": project.hex} for project in projects]


def _encryption(view: dialect.ResourceView, row: VolumeType) -> Json:
    """Return the encryption settings; an empty object without encryption."""
    encryption = getattr(row, "encryption", None)
    if encryption is None:
        return {}
    return {
        "volume_type_id": str(row.id),
        "encryption_id": str(encryption.id),
        "provider": encryption.provider,
        "cipher": encryption.cipher,
        "key_size": encryption.key_size,
        "control_location": encryption.control_location,
        "created_at": kinds.timestamp(encryption.created_at),
        "updated_at": kinds.timestamp(encryption.updated_at),
        "deleted": False,
        "deleted_at": None,
    }


def _with_number(values: Json) -> Json:
    return values | ({"key_size": int(values["key_size"])} if values.get("key_size") is not None else {})


def _encrypted(row: VolumeType, encryption_id: str) -> VolumeType:
    """Return the type if its encryption has the id. Raises NotFoundError."""
    if services.encryption_of(row).id != read_id(encryption_id):
        raise NotFoundError(f"Volume type encryption for type {row.id} does not exist.")
    return row


_SPECS = Entries(
    name="extra_specs",
    values=lambda view, row: visible_specs(view, row.extra_specs),
    schema=schemas.SPECS,
    merge=services.set_extra_specs,
    remove=services.delete_extra_spec,
    missing="Volume Type {found.pk} has no extra specs with key {key}.",
)
_ENCRYPTION = Entries(
    name="encryption",
    values=_encryption,
    missing="Volume type encryption for type {found.pk} does not exist.",
)
PARTS = parts(
    dialect.ResourceView,
    "",
    {
        "GET extra_specs": _SPECS.all(
            "volume_extension:types_extra_specs:index", "List the extra specs that the caller may see."
        ),
        "POST extra_specs": _SPECS.merging(
            "volume_extension:types_extra_specs:create", "Add or update extra specs.", shape=sent
        ),
        "GET extra_specs/{key}": _SPECS.one(
            "volume_extension:types_extra_specs:show", "Show an extra spec of a volume type."
        ),
        "PUT extra_specs/{key}": _SPECS.setting(
            "volume_extension:types_extra_specs:update", "Set an extra spec of a volume type."
        ),
        "DELETE extra_specs/{key}": _SPECS.removing(
            "volume_extension:types_extra_specs:delete", "Delete an extra spec of a volume type.", status=202
        ),
        "GET os-volume-type-access": Call(
            lambda row: row,
            "volume_extension:volume_type_access:get_all_for_type",
            "List the projects that may use a private type.",
            name="volume_type_access",
            shape=_access,
        ),
        "GET encryption": Call(
            lambda row: row,
            "volume_extension:volume_type_encryption:get",
            "Show the encryption settings; an empty object without encryption.",
            shape=_encryption,
        ),
        "POST encryption": Call(
            lambda row, body: services.create_encryption(row, _with_number(body)),
            "volume_extension:volume_type_encryption:create",
            "Enable encryption for new volumes.",
            name="encryption",
            shape=lambda view, made: {
                "volume_type_id": str(made.volume_type_id),
                "encryption_id": str(made.id),
                **_with_number(sent(view, made)),
            },
            body=body("encryption", _ENCRYPTED, ("provider", "control_location")),
        ),
        "GET encryption/{encryption_id}": _ENCRYPTION.one(
            "volume_extension:volume_type_encryption:get", "Show one value of the encryption."
        ),
        "PUT encryption/{encryption_id}": Call(
            lambda row, key, body: services.update_encryption(_encrypted(row, key), _with_number(body)),
            "volume_extension:volume_type_encryption:update",
            "Update the encryption settings for new volumes.",
            name="encryption",
            shape=lambda view, made: _with_number(sent(view, made)),
            body=body("encryption", _ENCRYPTED),
        ),
        "DELETE encryption/{encryption_id}": Call(
            lambda row, key: services.delete_encryption(_encrypted(row, key)),
            "volume_extension:volume_type_encryption:delete",
            "Disable encryption for new volumes.",
            status=202,
        ),
    },
    resource=TYPE,
)


def _known(text: str) -> uuid.UUID:
    """Return the id of an existing project. Raises NotFoundError."""
    project = read_id(text)
    if project is None or project not in projects_by_id([project]):
        raise NotFoundError(f"Project {text[:64]} could not be found.")
    return project


def _set_default(context: RequestContext, project_id: str, named: str) -> DefaultType:
    project = _known(project_id)
    try:
        found = type_for(context, named)
    except NotFoundError as error:
        raise InvalidInputError(error.message, field="volume_type") from None
    return services.set_default_type(project, found)


def _default(view: dialect.VolumeView, found: DefaultType) -> dict[str, str]:
    return {"project_id": found.project_id.hex, "volume_type_id": str(found.volume_type_id)}


DEFAULTS = parts(
    dialect.VolumeView,
    "default-types",
    {
        "GET": Call(
            lambda context: offers.default_types(),
            "volume_extension:default_get_all",
            "List the projects with a default volume type of their own.",
            name="default_types",
            shape=lambda view, found: [_default(view, each) for each in found],
            since=_DEFAULTS,
        ),
        "GET /{project_id}": Call(
            lambda context, project_id: offers.default_type_record(_known(project_id)),
            "volume_extension:default_get",
            "Show the project's default volume type.",
            name="default_type",
            shape=_default,
            since=_DEFAULTS,
        ),
        "PUT /{project_id}": Call(
            lambda context, project_id, body: _set_default(context, project_id, body["volume_type"]),
            "volume_extension:default_set_or_update",
            "Set the project's default volume type.",
            name="default_type",
            shape=_default,
            body=body("default_type", {"volume_type": schemas.ID}, ("volume_type",)),
            since=_DEFAULTS,
        ),
        "DELETE /{project_id}": Call(
            lambda context, project_id: services.unset_default_type(_known(project_id)),
            "volume_extension:default_unset",
            "Remove the project's default volume type.",
            since=_DEFAULTS,
        ),
    },
)
