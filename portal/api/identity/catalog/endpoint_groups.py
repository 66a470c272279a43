"""``/v3/OS-EP-FILTER/endpoint_groups``: endpoints that are added to projects together."""

from typing import Any

from portal.api.common.validation import Schema
from portal.api.identity.catalog.endpoints import ENDPOINT
from portal.api.identity.dialect import Attribute, Checked, InMemory, Operation, Resource, Values, resource, routes
from portal.api.identity.dialect.resource import FLAG, KEY, LONG_NAME, TEXT
from provisioning.identity.models import EndpointGroup
from provisioning.identity.selectors.endpoint_filters import endpoint_groups, existing_endpoint_group
from provisioning.identity.services.endpoint_filters import (
    create_endpoint_group,
    delete_endpoint_group,
    update_endpoint_group,
)

_DESCRIPTION = TEXT.schema
_FILTERS: Schema = {
    "type": "object",
    "properties": {
        **{name: ENDPOINT.by_name[name].kind.schema for name in ("interface", "service_id", "region_id")},
        "enabled": FLAG.schema,
    },
    "additionalProperties": False,
}


def _or_null(schema: Schema) -> Schema:
    return schema | {"type": [schema["type"], "null"]}


def _create(view: Any, values: Values) -> EndpointGroup:
    return create_endpoint_group(**values)


def _update(view: Any, group: EndpointGroup, values: Values) -> EndpointGroup:
    """Update a group. The standard client always sends every field; null leaves a field unchanged."""
    if any(values.get(name, "") is None for name in ("name", "filters")):
        values = {name: value for name, value in values.items() if value is not None}
    update_endpoint_group(group, values)
    return group


ENDPOINT_GROUP = Resource(
    name="endpoint_group",
    path="OS-EP-FILTER/endpoint_groups",
    list=Operation(endpoint_groups, "identity:list_endpoint_groups"),
    show=Operation(existing_endpoint_group, "identity:get_endpoint_group"),
    create=Operation(_create, "identity:create_endpoint_group", "Create an endpoint group (201)."),
    update=Operation(
        _update,
        "identity:update_endpoint_group",
        "Update a group. The standard client always sends every field; null leaves a field unchanged.",
        body=resource.body(
            "endpoint_group",
            {"name": _or_null(LONG_NAME.schema), "description": _DESCRIPTION, "filters": _or_null(_FILTERS)},
            least=1,
        ),
    ),
    delete=Operation(
        lambda view, group: delete_endpoint_group(group),
        "identity:delete_endpoint_group",
        "Delete a group; its endpoints are no longer in the catalogs of its projects.",
    ),
    attributes=(
        Attribute("id", KEY),
        Attribute("name", LONG_NAME, post=True, put=True, required=True),
        Attribute("description", Checked(_DESCRIPTION), post=True, put=True),
        Attribute("filters", Checked(_FILTERS), post=True, put=True, required=True),
    ),
    lists=InMemory(("name",)),
)


ROUTES = routes(ENDPOINT_GROUP)
