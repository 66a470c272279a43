"""``/v3/regions``: regions of endpoints."""

from dataclasses import replace
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.identity.dialect import (
    IDENTITY,
    Attribute,
    Checked,
    DetailView,
    InMemory,
    Operation,
    Resource,
    Values,
    routes,
)
from portal.api.identity.dialect.resource import TEXT, reference
from provisioning.common.errors import InvalidInputError
from provisioning.identity.models import LONG, Region
from provisioning.identity.selectors.catalog import existing_region, regions
from provisioning.identity.services.catalog import create_region, delete_region, update_region


def _with_parent(values: Values) -> Values:
    """Look up the parent. Raises NotFoundError."""
    if "parent_id" in values:
        above = values.pop("parent_id")
        values["parent"] = None if above is None else existing_region(above)
    return values


def _create(view: Any, values: Values) -> Region:
    return create_region(values.pop("id", None) or None, **_with_parent(values))


REGION = Resource(
    name="region",
    list=Operation(regions, "identity:list_regions"),
    show=Operation(existing_region, "identity:get_region"),
    create=Operation(
        _create, "identity:create_region", "Create a region (201), with a generated id if none is specified."
    ),
    update=Operation(
        lambda view, region, values: update_region(region, **_with_parent(values)),
        "identity:update_region",
        "Update a region; its id cannot be changed.",
    ),
    delete=Operation(
        lambda view, region: delete_region(region),
        "identity:delete_region",
        "Delete a region without endpoints and child regions.",
    ),
    attributes=(
        Attribute("id", Checked({"type": ["string", "null"], "maxLength": LONG}), post=True, fixed=InvalidInputError),
        Attribute("description", TEXT, post=True, put=True),
        Attribute("parent_region_id", reference(LONG, null=True), post=True, put=True, column="parent_id"),
    ),
    lists=InMemory(("parent_region_id",)),
    extra=64,
)


class RegionView(DetailView):
    """A region, which can also be created with the id of the path."""

    rules = {"PUT": "identity:create_region"}
    schemas = {"PUT": IDENTITY.new(REGION)}

    def put(self, request: Request, identity: str) -> Response:
        """Create a region with this id (201); an existing one is not changed (409)."""
        values = self.values(new=True)
        if (values.pop("id", None) or identity) != identity:
            raise InvalidInputError("The id in the body is not that of the address.", field="id")
        return self.answer("create", create_region(identity, **_with_parent(values)))


ROUTES = routes(REGION, dialect=replace(IDENTITY, details=RegionView))
