"""``/v3/OS-EP-FILTER/endpoint_groups``: endpoints that are added to projects together."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas, ServiceView
from portal.api.identity import fragments
from portal.api.identity.catalog import schemas, shapes
from portal.api.identity.directory import shapes as directory_shapes
from portal.api.identity.short_lists import listed, query_of
from provisioning.common.errors import NotFoundError
from provisioning.identity.models import Project
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


class EndpointGroupsView(ServiceView):
    """``/v3/OS-EP-FILTER/endpoint_groups``."""

    rules = {"GET": "identity:list_endpoint_groups", "POST": "identity:create_endpoint_group"}
    schemas: ClassVar[Schemas] = {"POST": schemas.ENDPOINT_GROUP_CREATE}
    queries: ClassVar[Schemas] = {"GET": query_of("name")}

    def get(self, request: Request) -> Response:
        items = (shapes.endpoint_group(request, group) for group in endpoint_groups())
        return Response(listed(request, "endpoint_groups", items, filters=("name",), path=PATH))

    def post(self, request: Request) -> Response:
        """Create an endpoint group (201)."""
        body = self.checked_body()["endpoint_group"]
        made = create_endpoint_group(body["name"], body["filters"], description=body.get("description"))
        return Response({"endpoint_group": shapes.endpoint_group(request, made)}, status=201)


class EndpointGroupView(ServiceView):
    """``/v3/OS-EP-FILTER/endpoint_groups/{id}``."""

    rules = {
        "GET": "identity:get_endpoint_group",
        "PATCH": "identity:update_endpoint_group",
        "DELETE": "identity:delete_endpoint_group",
    }
    schemas: ClassVar[Schemas] = {"PATCH": schemas.ENDPOINT_GROUP_UPDATE}

    def get(self, request: Request, endpoint_group_id: str) -> Response:
        return self._shown(request, existing_endpoint_group(endpoint_group_id))

    def patch(self, request: Request, endpoint_group_id: str) -> Response:
        """Update a group. The standard client always sends every field; null leaves a field unchanged."""
        group = existing_endpoint_group(endpoint_group_id)
        changes = self.checked_body()["endpoint_group"]
        if any(changes.get(name, "") is None for name in ("name", "filters")):
            changes = {name: value for name, value in changes.items() if value is not None}
        update_endpoint_group(group, changes)
        return self._shown(request, group)

    def delete(self, request: Request, endpoint_group_id: str) -> Response:
        """Delete a group; its endpoints are no longer in the catalogs of its projects."""
        delete_endpoint_group(existing_endpoint_group(endpoint_group_id))
        return Response(status=204)

    def _shown(self, request: Request, group: Any) -> Response:
        return Response({"endpoint_group": shapes.endpoint_group(request, group)})


class GroupEndpointsView(ServiceView):
    """``GET /v3/OS-EP-FILTER/endpoint_groups/{id}/endpoints``."""

    rules = {"GET": "identity:list_endpoints_associated_with_endpoint_group"}

    def get(self, request: Request, endpoint_group_id: str) -> Response:
        """List the endpoints that match the group's filters."""
        group = existing_endpoint_group(endpoint_group_id)
        items = (shapes.endpoint(request, endpoint) for endpoint in endpoints_in(group))
        return Response(fragments.listing(request, "endpoints", items, f"{PATH}/{group.id.hex}/endpoints"))


class GroupProjectsView(ServiceView):
    """``GET /v3/OS-EP-FILTER/endpoint_groups/{id}/projects``."""

    rules = {"GET": "identity:list_projects_associated_with_endpoint_group"}

    def get(self, request: Request, endpoint_group_id: str) -> Response:
        group = existing_endpoint_group(endpoint_group_id)
        items = (directory_shapes.project(request, project) for project in projects_of_group(group))
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
