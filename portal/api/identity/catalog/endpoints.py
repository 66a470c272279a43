"""``/v3/endpoints``: addresses of services."""

from typing import Any

from portal.api.identity.dialect import Attribute, Checked, InMemory, Operation, Resource, Values, routes
from portal.api.identity.dialect.resource import FLAG, KEY, reference
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.identity.models import LONG, Endpoint
from provisioning.identity.records.catalog import INTERFACES, LONGEST_URL
from provisioning.identity.selectors.catalog import endpoints, existing_endpoint, existing_region, existing_service
from provisioning.identity.services.catalog import create_endpoint, delete_endpoint, update_endpoint


def _found(values: Values) -> Values:
    """Look up the service and the region. Raises InvalidInputError if one does not exist.

    As in Keystone, a region that is specified by ``region``, the older name of ``region_id``, is created if it does not
    exist.
    """
    by_id = values.pop("region_id", ...)
    try:
        if "service_id" in values:
            values["service"] = existing_service(values.pop("service_id"))
        if by_id is not ...:
            values["region"] = None if by_id is None else existing_region(by_id)
    except NotFoundError as error:
        field = "region_id" if "service" in values else "service_id"
        raise InvalidInputError(error.message, field=field) from error
    return values


def _create(view: Any, values: Values) -> Endpoint:
    found = _found(values)
    return create_endpoint(found.pop("service"), found.pop("interface"), found.pop("url"), **found)


_REGION = reference(LONG, null=True)
ENDPOINT = Resource(
    name="endpoint",
    list=Operation(endpoints, "identity:list_endpoints", "List the endpoints, including disabled ones."),
    show=Operation(existing_endpoint, "identity:get_endpoint"),
    create=Operation(_create, "identity:create_endpoint", "Create an endpoint (201)."),
    update=Operation(
        lambda view, endpoint, values: update_endpoint(endpoint, **_found(values)), "identity:update_endpoint"
    ),
    delete=Operation(lambda view, endpoint: delete_endpoint(endpoint), "identity:delete_endpoint"),
    attributes=(
        Attribute("id", KEY),
        Attribute("interface", Checked({"enum": [*INTERFACES]}), post=True, put=True, required=True),
        Attribute("service_id", reference(LONG), post=True, put=True, required=True),
        Attribute("region", _REGION, post=True, put=True, show=lambda row: row.region_id),
        Attribute("region_id", _REGION, post=True, put=True),
        Attribute(
            "url",
            Checked({"type": "string", "minLength": 1, "maxLength": LONGEST_URL}),
            post=True,
            put=True,
            required=True,
        ),
        Attribute("enabled", FLAG, post=True, put=True),
    ),
    lists=InMemory(("interface", "service_id", "region_id", "enabled")),
    extra=64,
)
ROUTES = routes(ENDPOINT)
