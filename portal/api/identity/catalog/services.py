"""The catalog: ``/v3/regions``, ``/v3/services``, ``/v3/endpoints``, and ``/v3/policies``, texts that services once
read.
"""

from dataclasses import replace
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.frame import Checked, Operation, Values
from portal.api.identity import dialect
from portal.api.identity.dialect import lists
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.identity.models import LONG, Endpoint, Policy, Region, Service
from provisioning.identity.records.catalog import INTERFACES, LONGEST_URL
from provisioning.identity.selectors import catalog as selectors
from provisioning.identity.services import catalog
from provisioning.identity.services.policies import create_policy, delete_policy, update_policy


def _with_parent(values: Values) -> Values:
    """Look up the parent. Raises NotFoundError."""
    if "parent_id" in values:
        above = values.pop("parent_id")
        values["parent"] = None if above is None else selectors.existing_region(above)
    return values


def _create_region(view: Any, values: Values) -> Region:
    return catalog.create_region(values.pop("id", None) or None, **_with_parent(values))


REGION = dialect.Resource(
    name="region",
    list=Operation(selectors.regions, "identity:list_regions"),
    show=Operation(selectors.existing_region, "identity:get_region"),
    create=Operation(
        _create_region, "identity:create_region", "Create a region (201), with a generated id if none is specified."
    ),
    update=Operation(
        lambda view, region, values: catalog.update_region(region, **_with_parent(values)),
        "identity:update_region",
        "Update a region; its id cannot be changed.",
    ),
    delete=Operation(
        lambda view, region: catalog.delete_region(region),
        "identity:delete_region",
        "Delete a region without endpoints and child regions.",
    ),
    attributes=(
        dialect.Attribute(
            "id", Checked({"type": ["string", "null"], "maxLength": LONG}), post=True, fixed=InvalidInputError
        ),
        dialect.Attribute("description", dialect.TEXT, post=True, put=True),
        dialect.Attribute(
            "parent_region_id", dialect.reference(LONG, null=True), post=True, put=True, column="parent_id"
        ),
    ),
    lists=lists.InMemory(("parent_region_id",)),
    extra=64,
)


class RegionView(dialect.DetailView):
    """A region, which can also be created with the id of the path."""

    rules = {"PUT": "identity:create_region"}
    schemas = {"PUT": dialect.IDENTITY.new(REGION)}

    def put(self, request: Request, identity: str) -> Response:
        """Create a region with this id (201); an existing one is not changed (409)."""
        values = self.values(new=True)
        if (values.pop("id", None) or identity) != identity:
            raise InvalidInputError("The id in the body differs from the id in the address.", field="id")
        return self.answer("create", catalog.create_region(identity, **_with_parent(values)))


_REGIONS = dialect.routes(REGION, dialect=replace(dialect.IDENTITY, details=RegionView))


def _create_service(view: Any, values: Values) -> Service:
    return catalog.create_service(values.pop("type"), **values)


SERVICE = dialect.Resource(
    name="service",
    list=Operation(selectors.catalog_services, "identity:list_services", "List the services, including disabled ones."),
    show=Operation(selectors.existing_service, "identity:get_service"),
    create=Operation(_create_service, "identity:create_service", "Create a service (201)."),
    update=Operation(
        lambda view, service, values: catalog.update_service(service, **values), "identity:update_service"
    ),
    delete=Operation(
        lambda view, service: catalog.delete_service(service),
        "identity:delete_service",
        "Delete a service with its endpoints.",
    ),
    attributes=(
        dialect.Attribute("id", dialect.KEY),
        dialect.Attribute("type", dialect.reference(LONG), post=True, put=True, required=True),
        dialect.Attribute("name", dialect.SHORT_TEXT, post=True, put=True),
        dialect.Attribute("description", dialect.TEXT, post=True, put=True),
        dialect.Attribute("enabled", dialect.FLAG, post=True, put=True),
    ),
    lists=lists.InMemory(("type", "name", "enabled")),
    extra=64,
)
_SERVICES = dialect.routes(SERVICE)


def _with_records(values: Values) -> Values:
    """Look up the service and the region. Raises InvalidInputError if one does not exist.

    As in Keystone, a region that is specified by ``region``, the older name of ``region_id``, is created if it does not
    exist.
    """
    by_id = values.pop("region_id", ...)
    try:
        if "service_id" in values:
            values["service"] = selectors.existing_service(values.pop("service_id"))
        if by_id is not ...:
            values["region"] = None if by_id is None else selectors.existing_region(by_id)
    except NotFoundError as error:
        field = "region_id" if "service" in values else "service_id"
        raise InvalidInputError(error.message, field=field) from error
    return values


def _create_endpoint(view: Any, values: Values) -> Endpoint:
    found = _with_records(values)
    return catalog.create_endpoint(found.pop("service"), found.pop("interface"), found.pop("url"), **found)


_REGION = dialect.reference(LONG, null=True)
ENDPOINT = dialect.Resource(
    name="endpoint",
    list=Operation(selectors.endpoints, "identity:list_endpoints", "List the endpoints, including disabled ones."),
    show=Operation(selectors.existing_endpoint, "identity:get_endpoint"),
    create=Operation(_create_endpoint, "identity:create_endpoint", "Create an endpoint (201)."),
    update=Operation(
        lambda view, endpoint, values: catalog.update_endpoint(endpoint, **_with_records(values)),
        "identity:update_endpoint",
    ),
    delete=Operation(lambda view, endpoint: catalog.delete_endpoint(endpoint), "identity:delete_endpoint"),
    attributes=(
        dialect.Attribute("id", dialect.KEY),
        dialect.Attribute("interface", Checked({"enum": [*INTERFACES]}), post=True, put=True, required=True),
        dialect.Attribute("service_id", dialect.reference(LONG), post=True, put=True, required=True),
        dialect.Attribute("region", _REGION, post=True, put=True, show=lambda row: row.region_id),
        dialect.Attribute("region_id", _REGION, post=True, put=True),
        dialect.Attribute(
            "url",
            Checked({"type": "string", "minLength": 1, "maxLength": LONGEST_URL}),
            post=True,
            put=True,
            required=True,
        ),
        dialect.Attribute("enabled", dialect.FLAG, post=True, put=True),
    ),
    lists=lists.InMemory(("interface", "service_id", "region_id", "enabled")),
    extra=64,
)
_ENDPOINTS = dialect.routes(ENDPOINT)


def _create_policy(view: Any, values: Values) -> Policy:
    return create_policy(values.pop("type"), values.pop("blob"), **values)


POLICY = dialect.Resource(
    name="policy",
    plural="policies",
    list=Operation(selectors.policies, "identity:list_policies", "List policies."),
    show=Operation(selectors.existing_policy, "identity:get_policy", "Show a policy."),
    create=Operation(_create_policy, "identity:create_policy", "Create a policy (201)."),
    update=Operation(
        lambda view, policy, values: update_policy(policy, **values), "identity:update_policy", "Change a policy."
    ),
    delete=Operation(lambda view, policy: delete_policy(policy), "identity:delete_policy", "Delete a policy."),
    attributes=(
        dialect.Attribute("id", dialect.KEY),
        dialect.Attribute("type", Checked({"type": "string", "maxLength": LONG}), post=True, put=True, required=True),
        dialect.Attribute("blob", Checked({"type": "string", "maxLength": 65_535}), post=True, put=True, required=True),
    ),
    lists=lists.InMemory(("type",)),
    extra=64,
    least=1,
)
_POLICIES = dialect.routes(POLICY)


ROUTES = _REGIONS | _SERVICES | _ENDPOINTS | _POLICIES
