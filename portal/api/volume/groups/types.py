"""Group types and their specs (reference, "Group types", "Group type specs"), from 3.11 on."""

from typing import Any

from django.db.models import QuerySet
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import NEWEST
from portal.api.frame.schemas import body
from portal.api.volume.base import VolumeView
from portal.api.volume.dialect.listing import Lists
from portal.api.volume.dialect.schemas import BOOLEAN, NAME, NEW_NAME, SPECS, boolean, of_metadata
from portal.api.volume.dialect.views import ListingView
from portal.api.volume.types.resource import public
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.volumes.models import GroupType
from provisioning.volumes.selectors.offers import group_type_for, group_types
from provisioning.volumes.services import group_types as services

SINCE = ((3, 11), NEWEST)
_WHOLE = {"name": NEW_NAME, "description": NAME, "is_public": BOOLEAN}


class GroupTypeBase(VolumeView):
    """Base of the group type views."""

    versions = dict.fromkeys(("GET", "POST", "PUT", "DELETE"), SINCE)

    def shape(self, found: GroupType) -> dict[str, Any]:
        shape: dict[str, Any] = {
            "id": str(found.id),
            "name": found.name,
            "description": found.description,
            "is_public": found.is_public,
        }
        if self.allows("group:access_group_types_specs"):
            shape["group_specs"] = found.group_specs
        return shape

    def answer(self, found: GroupType, status: int = 200) -> Response:
        return Response({"group_type": self.shape(found)}, status=status)


class GroupTypesView(GroupTypeBase, ListingView):
    """``GET`` and ``POST /group_types``."""

    rules = {"GET": "group:get_all", "POST": "group:group_types:create"}
    schemas = {"POST": body("group_type", {**_WHOLE, "group_specs": SPECS}, ("name",))}
    path = "group_types"
    lists = Lists(
        plural="group_types",
        filters={"is_public": public},
        sort={"id": "id", "name": "name", "created_at": "created_at"},
        strict=False,
    )
    queries = {"GET": lists.schema}

    def get(self, request: Request) -> Response:
        """List the group types that the caller may use."""
        return self.listed(request)

    def rows(self, *, all_projects: bool) -> QuerySet[GroupType]:
        return group_types(self.context)

    def shapes(self, rows: list[GroupType]) -> list[dict[str, Any]]:
        return [self.shape(row) for row in rows]

    def post(self, request: Request) -> Response:
        """Create a group type."""
        asked = self.checked_body()["group_type"]
        made = services.create_group_type(
            asked["name"].strip(),
            description=asked.get("description"),
            is_public=boolean(asked.get("is_public", True)),
            group_specs=asked.get("group_specs"),
        )
        return self.answer(made, 202)


class GroupTypeView(GroupTypeBase):
    """``GET``, ``PUT`` and ``DELETE /group_types/{id}``."""

    rules = {"GET": "group:get", "PUT": "group:group_types:update", "DELETE": "group:group_types:delete"}
    schemas = {"PUT": body("group_type", _WHOLE)}

    def get(self, request: Request, group_type_id: str) -> Response:
        """Show a group type."""
        return self.answer(group_type_for(self.context, group_type_id))

    def put(self, request: Request, group_type_id: str) -> Response:
        """Update the name, the description, or whether it is public."""
        asked = self.checked_body()["group_type"]
        changes = {name: value for name, value in asked.items() if value is not None}
        if not changes:
            raise InvalidInputError("Specify group type name, description, is_public or a combination thereof.")
        if "is_public" in changes:
            changes["is_public"] = boolean(changes["is_public"])
        return self.answer(services.update_group_type(group_type_for(self.context, group_type_id), changes))

    def delete(self, request: Request, group_type_id: str) -> Response:
        """Delete a group type without groups."""
        services.delete_group_type(group_type_for(self.context, group_type_id))
        return self.accepted()


class GroupSpecsView(GroupTypeBase):
    """``GET`` and ``POST /group_types/{id}/group_specs``."""

    rules = {"GET": "group:group_types_specs:get_all", "POST": "group:group_types_specs:create"}
    schemas = {"POST": of_metadata("group_specs", SPECS)}

    def get(self, request: Request, group_type_id: str) -> Response:
        """List the specs of a group type."""
        return Response({"group_specs": group_type_for(self.context, group_type_id).group_specs})

    def post(self, request: Request, group_type_id: str) -> Response:
        """Add or update specs."""
        specs = self.checked_body()["group_specs"]
        services.set_group_specs(group_type_for(self.context, group_type_id), specs)
        return Response({"group_specs": specs}, status=202)


class GroupSpecView(GroupTypeBase):
    """``GET``, ``PUT`` and ``DELETE /group_types/{id}/group_specs/{key}``."""

    rules = {
        "GET": "group:group_types_specs:get",
        "PUT": "group:group_types_specs:update",
        "DELETE": "group:group_types_specs:delete",
    }
    schemas = {"PUT": SPECS | {"minProperties": 1, "maxProperties": 1}}

    def get(self, request: Request, group_type_id: str, key: str) -> Response:
        """Show a spec of a group type."""
        found = group_type_for(self.context, group_type_id)
        if key not in found.group_specs:
            raise NotFoundError(f"Group Type {found.id} has no specs with key {key[:64]}.")
        return Response({key: found.group_specs[key]})

    def put(self, request: Request, group_type_id: str, key: str) -> Response:
        """Set a spec of a group type."""
        asked = self.checked_body()
        if key not in asked:
            raise InvalidInputError("Request body and URI mismatch")
        services.set_group_specs(group_type_for(self.context, group_type_id), asked)
        return Response(asked)

    def delete(self, request: Request, group_type_id: str, key: str) -> Response:
        """Delete a spec of a group type."""
        services.delete_group_spec(group_type_for(self.context, group_type_id), key)
        return self.accepted()
