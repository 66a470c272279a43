"""``/v3/OS-EP-FILTER``: endpoint groups, and the endpoints and endpoint groups of projects."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from portal.api.frame import Call, Checked, Json, Operation, Schema, ServiceView, Values, parts
from portal.api.identity import dialect
from portal.api.identity.catalog.services import ENDPOINT
from portal.api.identity.dialect import lists
from portal.api.identity.directory.projects import PROJECT
from provisioning.common.errors import NotFoundError
from provisioning.identity.models import Endpoint, EndpointGroup, Project
from provisioning.identity.selectors import endpoint_filters as filters
from provisioning.identity.selectors.catalog import existing_endpoint
from provisioning.identity.selectors.endpoint_filters import endpoint_groups, existing_endpoint_group
from provisioning.identity.selectors.lookups import existing
from provisioning.identity.services import endpoint_filters
from provisioning.identity.services import endpoint_filters as services

_DESCRIPTION = dialect.TEXT.schema
_FILTERS: Schema = {
    "type": "object",
    "properties": {
        **{name: ENDPOINT.by_name[name].kind.schema for name in ("interface", "service_id", "region_id")},
        "enabled": dialect.FLAG.schema,
    },
    "additionalProperties": False,
}


def _or_null(schema: Schema) -> Schema:
    return schema | {"type": [schema["type"], "null"]}


def _create(view: Any, values: Values) -> EndpointGroup:
    return endpoint_filters.create_endpoint_group(**values)


def _update(view: Any, group: EndpointGroup, values: Values) -> EndpointGroup:
    """Update a group. The standard client always sends every field; null leaves a field unchanged."""
    if any(values.get(name, "") is None for name in ("name", "filters")):
        values = {name: value for name, value in values.items() if value is not None}
    endpoint_filters.update_endpoint_group(group, values)
    return group


ENDPOINT_GROUP = dialect.Resource(
    name="endpoint_group",
    path="OS-EP-FILTER/endpoint_groups",
    list=Operation(endpoint_groups, "identity:list_endpoint_groups"),
    show=Operation(existing_endpoint_group, "identity:get_endpoint_group"),
    create=Operation(_create, "identity:create_endpoint_group", "Create an endpoint group (201)."),
    update=Operation(
        _update,
        "identity:update_endpoint_group",
        "Update a group. The standard client always sends every field; null leaves a field unchanged.",
        body=dialect.body(
            "endpoint_group",
            {"name": _or_null(dialect.LONG_NAME.schema), "description": _DESCRIPTION, "filters": _or_null(_FILTERS)},
            least=1,
        ),
    ),
    delete=Operation(
        lambda view, group: endpoint_filters.delete_endpoint_group(group),
        "identity:delete_endpoint_group",
        "Delete a group; its endpoints are no longer in the catalogs of its projects.",
    ),
    attributes=(
        dialect.Attribute("id", dialect.KEY),
        dialect.Attribute("name", dialect.LONG_NAME, post=True, put=True, required=True),
        dialect.Attribute("description", Checked(_DESCRIPTION), post=True, put=True),
        dialect.Attribute("filters", Checked(_FILTERS), post=True, put=True, required=True),
    ),
    lists=lists.InMemory(("name",)),
)


ROUTES = dialect.routes(ENDPOINT_GROUP)


_FINDERS: Mapping[str, Callable[[str], Any]] = {
    "endpoint_id": existing_endpoint,
    "endpoint_group_id": filters.existing_endpoint_group,
    "project_id": partial(existing, Project),
}


class EndpointFilterView(ServiceView):
    """Finds the endpoint or the group of the path, then the project. Raises NotFoundError."""

    def arguments(self, **ids: str) -> tuple[Any, ...]:
        return tuple(find(ids[name]) for name, find in _FINDERS.items() if name in ids)


def _check(endpoint: Endpoint, project: Project) -> None:
    if not filters.has_endpoint(project, endpoint):
        raise NotFoundError(f"Endpoint {endpoint.id.hex} not found in project {project.id.hex}.")


def _association(group: EndpointGroup, project: Project) -> Json:
    if not filters.has_group(project, group):
        raise NotFoundError("Endpoint Group Project Association not found.")
    return {"endpoint_group_id": group.id.hex, "project_id": project.id.hex}


_GROUP, _IN_PROJECT = "endpoint_groups/{endpoint_group_id}", "projects/{project_id}/endpoints/{endpoint_id}"
_GROUP_IN_PROJECT = f"{_GROUP}/projects/{{project_id}}"
FILTERS = dialect.patterns(
    parts(
        EndpointFilterView,
        "OS-EP-FILTER/",
        {
            f"GET {_GROUP}/endpoints": Call(
                filters.endpoints_in,
                "identity:list_endpoints_associated_with_endpoint_group",
                "List the endpoints that match the group's filters.",
                shape=dialect.listed(ENDPOINT),
            ),
            f"GET {_GROUP}/projects": Call(
                filters.projects_of_group,
                "identity:list_projects_associated_with_endpoint_group",
                shape=dialect.listed(PROJECT),
            ),
            f"GET {_GROUP_IN_PROJECT}": Call(
                _association,
                "identity:get_endpoint_group_in_project",
                "Show the group if it was added to the project.",
                name="project_endpoint_group",
                shape=lambda view, found: (
                    found | {"links": lists.self_link(view.request, lists.own_path(view.request))}
                ),
            ),
            f"PUT {_GROUP_IN_PROJECT}": Call(services.add_group_to_project, "identity:add_endpoint_group_to_project"),
            f"DELETE {_GROUP_IN_PROJECT}": Call(
                services.remove_group_from_project, "identity:remove_endpoint_group_from_project"
            ),
            "GET projects/{project_id}/endpoints": Call(
                filters.endpoints_of_project,
                "identity:list_endpoints_for_project",
                "List the endpoints that were added to the project, directly or by a group.",
                shape=dialect.listed(ENDPOINT),
            ),
            f"GET {_IN_PROJECT}": Call(
                _check,
                "identity:check_endpoint_in_project",
                "Answer 204 if the endpoint was added to the project directly.",
            ),
            f"PUT {_IN_PROJECT}": Call(services.add_endpoint_to_project, "identity:add_endpoint_to_project"),
            f"DELETE {_IN_PROJECT}": Call(
                services.remove_endpoint_from_project, "identity:remove_endpoint_from_project"
            ),
            "GET projects/{project_id}/endpoint_groups": Call(
                filters.groups_of_project,
                "identity:list_endpoint_groups_for_project",
                shape=dialect.listed(ENDPOINT_GROUP),
            ),
            "GET endpoints/{endpoint_id}/projects": Call(
                filters.projects_of_endpoint,
                "identity:list_projects_for_endpoint",
                "List the projects to which the endpoint was added directly.",
                shape=dialect.listed(PROJECT),
            ),
        },
    )
)
