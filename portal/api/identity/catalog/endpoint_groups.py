"""``/v3/OS-EP-FILTER/endpoint_groups``: endpoints that are added to projects together."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.validation import Schema
from portal.api.common.views import ServiceView
from portal.api.identity import fragments
from portal.api.identity.catalog.endpoints import ENDPOINT
from portal.api.identity.dialect import Attribute, Checked, InMemory, Operation, Resource, Values, routes, schemas
from portal.api.identity.dialect.kinds import FLAG, KEY, LONG_NAME, TEXT
from portal.api.identity.directory.projects import PROJECT
from provisioning.common.errors import NotFoundError
from provisioning.identity.models import EndpointGroup, Project
from provisioning.identity.selectors.endpoint_filters import (
    endpoint_groups,
    endpoints_in,
    existing_endpoint_group,
    has_group,
    projects_of_group,
)
from provisioning.identity.selectors.lookups import existing
from provisioning.identity.services.endpoint_filters import (
    add_group_to_project,
    create_endpoint_group,
    delete_endpoint_group,
    remove_group_from_project,
    update_endpoint_group,
)

PATH = "/OS-EP-FILTER/endpoint_groups"
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
        body=schemas.body(
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


class GroupEndpointsView(ServiceView):
    """``GET /v3/OS-EP-FILTER/endpoint_groups/{id}/endpoints``."""

    rules = {"GET": "identity:list_endpoints_associated_with_endpoint_group"}

    def get(self, request: Request, endpoint_group_id: str) -> Response:
        """List the endpoints that match the group's filters."""
        group = existing_endpoint_group(endpoint_group_id)
        items = ENDPOINT.shapes(self, endpoints_in(group))
        return Response(fragments.listing(request, "endpoints", items, f"{PATH}/{group.id.hex}/endpoints"))


class GroupProjectsView(ServiceView):
    """``GET /v3/OS-EP-FILTER/endpoint_groups/{id}/projects``."""

    rules = {"GET": "identity:list_projects_associated_with_endpoint_group"}

    def get(self, request: Request, endpoint_group_id: str) -> Response:
        group = existing_endpoint_group(endpoint_group_id)
        items = PROJECT.shapes(self, projects_of_group(group))
        return Response(fragments.listing(request, "projects", items, f"{PATH}/{group.id.hex}/projects"))


class GroupProjectView(ServiceView):
    """``/v3/OS-EP-FILTER/endpoint_groups/{id}/projects/{project}``."""

    rules = {
        "GET": "identity:get_endpoint_group_in_project",
        "PUT": "identity:add_endpoint_group_to_project",
        "DELETE": "identity:remove_endpoint_group_from_project",
    }

    def get(self, request: Request, endpoint_group_id: str, project_id: str) -> Response:
        """Show the group if it was added to the project."""
        project, group = existing(Project, project_id), existing_endpoint_group(endpoint_group_id)
        if not has_group(project, group):
            raise NotFoundError("Endpoint Group Project Association not found.")
        path = f"{PATH}/{group.id.hex}/projects/{project.id.hex}"
        shape = {"endpoint_group_id": group.id.hex, "project_id": project.id.hex}
        return Response({"project_endpoint_group": {**shape, "links": fragments.self_link(request, path)}})

    def put(self, request: Request, endpoint_group_id: str, project_id: str) -> Response:
        add_group_to_project(existing_endpoint_group(endpoint_group_id), existing(Project, project_id))
        return Response(status=204)

    def delete(self, request: Request, endpoint_group_id: str, project_id: str) -> Response:
        remove_group_from_project(existing_endpoint_group(endpoint_group_id), existing(Project, project_id))
        return Response(status=204)


ROUTES = routes(
    ENDPOINT_GROUP,
    {"endpoints": GroupEndpointsView, "projects": GroupProjectsView, "projects/{project_id}": GroupProjectView},
)
