"""Volume types (Block Storage API v3 reference, "Volume types (types)")."""

from typing import Any

from django.db.models import Q, QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.validation import Schema
from portal.api.frame.schemas import body
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect import listing
from portal.api.volume.dialect.listing import Lists
from portal.api.volume.dialect.schemas import BOOLEAN, NAME, NEW_NAME, SPECS, boolean
from portal.api.volume.dialect.views import ListingView
from provisioning.common.errors import InvalidInputError
from provisioning.common.listing import Sort
from provisioning.volumes.models import VolumeType
from provisioning.volumes.selectors.types import type_for, visible_types
from provisioning.volumes.services import types as services

PUBLIC = "os-volume-type-access:is_public"
VISIBLE = frozenset({"multiattach", "RESKEY:availability_zones", "replication_enabled"})
"""Extra specs that every user may see."""
SPECS_FILTER = (3, 52)
CREATE: Schema = body(
    "volume_type", {"name": NEW_NAME, "description": NAME, "extra_specs": SPECS, PUBLIC: BOOLEAN}, ("name",)
)
UPDATE: Schema = body(
    "volume_type",
    {"name": NEW_NAME | {"type": ["string", "null"]}, "description": NAME, "is_public": BOOLEAN},
)


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


class TypeBase(VolumeView):
    """Base of the volume type views."""

    def shape(self, found: VolumeType) -> dict[str, Any]:
        """One type in Cinder's format, as shown singly and in lists."""
        shape = self.plain(found)
        if self.allows("volume_extension:access_types_extra_specs"):
            shape["extra_specs"] = visible_specs(self, found.extra_specs)
        if self.allows("volume_extension:access_types_qos_specs_id"):
            shape["qos_specs_id"] = str(found.qos_spec_id) if found.qos_spec_id else None
        return shape | self.access(found)

    def plain(self, found: VolumeType) -> dict[str, Any]:
        return {
            "id": str(found.id),
            "name": found.name,
            "is_public": found.is_public,
            "description": found.description,
        }

    def changed(self, found: VolumeType) -> dict[str, Any]:
        """One type as in the response to an update; callers who may update types see all their extra specs."""
        return self.plain(found) | {"extra_specs": found.extra_specs}

    def access(self, found: VolumeType) -> dict[str, Any]:
        """Return the fields that an update omits."""
        return {PUBLIC: found.is_public} if self.allows("volume_extension:volume_type_access") else {}

    def answer(self, found: VolumeType) -> Response:
        return Response({"volume_type": self.shape(found)})


class TypesView(TypeBase, ListingView):
    """``GET`` and ``POST /types``."""

    rules = {"GET": "volume_extension:type_get_all", "POST": "volume_extension:type_create"}
    schemas = {"POST": CREATE}
    path = "types"
    lists = Lists(
        plural="volume_types",
        filters={"is_public": public, "extra_specs": listing.pairs("extra_specs"), "name": listing.text("name")},
        since={"extra_specs": SPECS_FILTER},
        sort={"id": "id", "name": "name", "created_at": "created_at", "updated_at": "updated_at"},
        order=(Sort("created_at"), Sort("id")),
        strict=False,
    )
    queries = {"GET": lists.schema}

    def get(self, request: Request) -> Response:
        """List the types that the caller may use; operators also see private ones."""
        return self.listed(request)

    def rows(self, *, all_projects: bool) -> QuerySet[VolumeType]:
        rows = visible_types(self.context)
        asked = self.request.query_params
        secret = "extra_specs" in asked and self.microversion >= SPECS_FILTER
        if secret and not self.allows("volume_extension:types_extra_specs:read_sensitive"):
            named = listing.read_pairs(asked["extra_specs"])
            return rows if named.keys() <= VISIBLE else rows.none()
        return rows

    def shapes(self, rows: list[VolumeType]) -> list[dict[str, Any]]:
        return [self.shape(row) for row in rows]

    def post(self, request: Request) -> Response:
        """Create a volume type."""
        asked = self.checked_body()["volume_type"]
        made = services.create_type(
            asked["name"].strip(),
            description=asked.get("description"),
            is_public=boolean(asked.get(PUBLIC, True)),
            extra_specs=asked.get("extra_specs"),
        )
        return Response({"volume_type": self.changed(made) | self.access(made)})


class TypeView(TypeBase):
    """``GET``, ``PUT`` and ``DELETE /types/{id}``; ``default`` is the type of new volumes."""

    rules = {
        "GET": "volume_extension:type_get",
        "PUT": "volume_extension:type_update",
        "DELETE": "volume_extension:type_delete",
    }
    schemas = {"PUT": UPDATE}

    def get(self, request: Request, volume_type_id: str) -> Response:
        """Show a volume type."""
        if volume_type_id == "default":
            return self.answer(services.default_type_of(self.own_project))
        return self.answer(type_for(self.context, volume_type_id))

    def put(self, request: Request, volume_type_id: str) -> Response:
        """Update the name, the description, or whether it is public."""
        asked = self.checked_body()["volume_type"]
        changes = {name: value for name, value in asked.items() if value is not None}
        if not changes:
            raise InvalidInputError("Specify volume type name, description, is_public or a combination thereof.")
        if "is_public" in changes:
            changes["is_public"] = boolean(changes["is_public"])
        if "name" in changes:
            changes["name"] = changes["name"].strip()
        found = services.update_type(type_for(self.context, volume_type_id), changes)
        return Response({"volume_type": self.changed(found)})

    def delete(self, request: Request, volume_type_id: str) -> Response:
        """Delete a volume type without volumes."""
        services.delete_type(type_for(self.context, volume_type_id))
        return self.accepted()
