"""``/v3/regions``: regions of endpoints."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas, ServiceView
from portal.api.identity.catalog import schemas, shapes
from portal.api.identity.fields import further
from portal.api.identity.short_lists import listed, query_of
from provisioning.common.errors import InvalidInputError
from provisioning.identity.selectors.catalog import existing_region, regions
from provisioning.identity.services.catalog import create_region, delete_region, update_region

_KNOWN = frozenset({"description", "parent_region_id"})


def _values(body: dict[str, Any]) -> dict[str, Any]:
    given = body["region"]
    known = {name: value for name, value in given.items() if name in _KNOWN}
    others = further(given, dict.fromkeys((*_KNOWN, "id")))
    if "description" in known:
        known["description"] = known["description"] or ""
    if "parent_region_id" in known:
        parent_id = known.pop("parent_region_id")
        known["parent"] = None if parent_id is None else existing_region(parent_id)
    return known | ({"extra": others} if others else {})


class RegionsView(ServiceView):
    """``/v3/regions``."""

    rules = {"GET": "identity:list_regions", "POST": "identity:create_region"}
    schemas: ClassVar[Schemas] = {"POST": schemas.REGION_CREATE}
    queries: ClassVar[Schemas] = {"GET": query_of("parent_region_id")}

    def get(self, request: Request) -> Response:
        items = (shapes.region(request, region) for region in regions())
        return Response(listed(request, "regions", items, filters=("parent_region_id",)))

    def post(self, request: Request) -> Response:
        """Create a region (201), with a generated id if none is specified."""
        body = self.checked_body()
        made = create_region(body["region"].get("id") or None, **_values(body))
        return Response({"region": shapes.region(request, made)}, status=201)


class RegionView(ServiceView):
    """``/v3/regions/{id}``."""

    rules = {
        "GET": "identity:get_region",
        "PUT": "identity:create_region",
        "PATCH": "identity:update_region",
        "DELETE": "identity:delete_region",
    }
    schemas: ClassVar[Schemas] = {"PUT": schemas.REGION_CREATE, "PATCH": schemas.REGION_UPDATE}

    def get(self, request: Request, region_id: str) -> Response:
        return Response({"region": shapes.region(request, existing_region(region_id))})

    def put(self, request: Request, region_id: str) -> Response:
        """Create a region with this id (201); an existing one is not changed (409)."""
        body = self.checked_body()
        if (body["region"].get("id") or region_id) != region_id:
            raise InvalidInputError("The id in the body is not that of the address.", field="id")
        made = create_region(region_id, **_values(body))
        return Response({"region": shapes.region(request, made)}, status=201)

    def patch(self, request: Request, region_id: str) -> Response:
        """Update a region; its id cannot be changed."""
        region = existing_region(region_id)
        body = self.checked_body()
        if body["region"].get("id", region_id) != region_id:
            raise InvalidInputError("The id of a region cannot be changed.", field="id")
        changed = update_region(region, **_values(body))
        return Response({"region": shapes.region(request, changed)})

    def delete(self, request: Request, region_id: str) -> Response:
        """Delete a region without endpoints and child regions."""
        delete_region(existing_region(region_id))
        return Response(status=204)
