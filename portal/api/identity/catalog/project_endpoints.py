"""``/v3/OS-EP-FILTER/projects``: the endpoints in the catalog of a project."""

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import ServiceView
from portal.api.identity import fragments
from portal.api.identity.catalog.endpoint_groups import ENDPOINT_GROUP
from portal.api.identity.catalog.endpoints import ENDPOINT
from portal.api.identity.directory.projects import PROJECT
from provisioning.common.errors import NotFoundError
from provisioning.identity.models import Project
from provisioning.identity.selectors.catalog import existing_endpoint
from provisioning.identity.selectors.endpoint_filters import (
    endpoints_of_project,
    groups_of_project,
    has_endpoint,
    projects_of_endpoint,
)
from provisioning.identity.selectors.lookups import existing
from provisioning.identity.services.endpoint_filters import add_endpoint_to_project, remove_endpoint_from_project

PATH = "/OS-EP-FILTER/projects"


class ProjectEndpointsView(ServiceView):
    """``GET /v3/OS-EP-FILTER/projects/{id}/endpoints``."""

    rules = {"GET": "identity:list_endpoints_for_project"}

    def get(self, request: Request, project_id: str) -> Response:
        """List the endpoints that were added to the project, directly or by a group."""
        project = existing(Project, project_id)
        items = ENDPOINT.shapes(self, endpoints_of_project(project))
        return Response(fragments.listing(request, "endpoints", items, f"{PATH}/{project.id.hex}/endpoints"))


class ProjectEndpointView(ServiceView):
    """``/v3/OS-EP-FILTER/projects/{id}/endpoints/{endpoint}``."""

    rules = {
        "GET": "identity:check_endpoint_in_project",
        "PUT": "identity:add_endpoint_to_project",
        "DELETE": "identity:remove_endpoint_from_project",
    }

    def get(self, request: Request, project_id: str, endpoint_id: str) -> Response:
        """Answer 204 if the endpoint was added to the project directly."""
        endpoint, project = existing_endpoint(endpoint_id), existing(Project, project_id)
        if not has_endpoint(project, endpoint):
            raise NotFoundError(f"Endpoint {endpoint.id.hex} not found in project {project.id.hex}.")
        return Response(status=204)

    def put(self, request: Request, project_id: str, endpoint_id: str) -> Response:
        add_endpoint_to_project(existing_endpoint(endpoint_id), existing(Project, project_id))
        return Response(status=204)

    def delete(self, request: Request, project_id: str, endpoint_id: str) -> Response:
        remove_endpoint_from_project(existing_endpoint(endpoint_id), existing(Project, project_id))
        return Response(status=204)


class ProjectEndpointGroupsView(ServiceView):
    """``GET /v3/OS-EP-FILTER/projects/{id}/endpoint_groups``."""

    rules = {"GET": "identity:list_endpoint_groups_for_project"}

    def get(self, request: Request, project_id: str) -> Response:
        project = existing(Project, project_id)
        items = ENDPOINT_GROUP.shapes(self, groups_of_project(project))
        path = f"{PATH}/{project.id.hex}/endpoint_groups"
        return Response(fragments.listing(request, "endpoint_groups", items, path))


class EndpointProjectsView(ServiceView):
    """``GET /v3/OS-EP-FILTER/endpoints/{id}/projects``."""

    rules = {"GET": "identity:list_projects_for_endpoint"}

    def get(self, request: Request, endpoint_id: str) -> Response:
        """List the projects to which the endpoint was added directly."""
        endpoint = existing_endpoint(endpoint_id)
        items = PROJECT.shapes(self, projects_of_endpoint(endpoint))
        path = f"/OS-EP-FILTER/endpoints/{endpoint.id.hex}/projects"
        return Response(fragments.listing(request, "projects", items, path))
