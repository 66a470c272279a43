"""``/v3/services``: the services of the catalog."""

from typing import Any

from portal.api.identity.dialect import Attribute, InMemory, Operation, Resource, Values, routes
from portal.api.identity.dialect.resource import FLAG, KEY, SHORT_TEXT, TEXT, reference
from provisioning.identity.models import LONG, Service
from provisioning.identity.selectors.catalog import catalog_services, existing_service
from provisioning.identity.services.catalog import create_service, delete_service, update_service


def _create(view: Any, values: Values) -> Service:
    return create_service(values.pop("type"), **values)


SERVICE = Resource(
    name="service",
    list=Operation(catalog_services, "identity:list_services", "List the services, including disabled ones."),
    show=Operation(existing_service, "identity:get_service"),
    create=Operation(_create, "identity:create_service", "Create a service (201)."),
    update=Operation(lambda view, service, values: update_service(service, **values), "identity:update_service"),
    delete=Operation(
        lambda view, service: delete_service(service),
        "identity:delete_service",
        "Delete a service with its endpoints.",
    ),
    attributes=(
        Attribute("id", KEY),
        Attribute("type", reference(LONG), post=True, put=True, required=True),
        Attribute("name", SHORT_TEXT, post=True, put=True),
        Attribute("description", TEXT, post=True, put=True),
        Attribute("enabled", FLAG, post=True, put=True),
    ),
    lists=InMemory(("type", "name", "enabled")),
    extra=64,
)
ROUTES = routes(SERVICE)
