"""``/v2.0/auto-allocated-topology/{project}`` (Networking API v2.0 reference, "Auto allocated topologies")."""

import uuid

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.network.dialect.query import fields_of
from portal.api.network.dialect.views import NetworkView
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.identity.selectors.lookups import projects_by_id
from provisioning.network import services

DRY_RUN = "dry-run"
OWN = {"none", "null"}
"""Neutron's names for the caller's own project."""


class AutoAllocatedTopologyView(NetworkView):
    """The auto-allocated topology of a project."""

    rules = {"GET": "get_auto_allocated_topology", "DELETE": "delete_auto_allocated_topology"}
    queries = {
        "GET": {
            "type": "object",
            "properties": {"fields": {"type": "array", "items": {"type": "string"}}},
            "additionalProperties": False,
        }
    }

    def policy_target(self) -> dict[str, object]:
        return {"project_id": self._asked()}

    def get(self, request: Request, project_id: str) -> Response:
        """Return the id of the network of the auto-allocated topology. If it is missing, the network and its router are
        created.

        ``fields=dry-run`` only checks whether the topology could be created.
        """
        self.checked_query()
        project, fields = self._project(), fields_of(request)
        if DRY_RUN in fields:
            services.check_topology()
            identity = "dry-run=pass"
        else:
            identity = str(services.allocate_topology(project).network_id)
        shape = {"id": identity, "tenant_id": project.hex, "project_id": project.hex}
        requested = fields - {DRY_RUN}
        return Response(
            {"auto_allocated_topology": {name: shape[name] for name in shape if not requested or name in requested}}
        )

    def delete(self, request: Request, project_id: str) -> Response:
        """Delete network and router, unless the network is in use; a missing topology is ignored."""
        services.delete_topology(self._project())
        return Response(status=204)

    def _asked(self) -> uuid.UUID | None:
        """Return the id in the path; None for an invalid one."""
        text = str(self.kwargs["project_id"])
        return self.context.project_id if text.lower() in OWN else read_id(text)

    def _project(self) -> uuid.UUID:
        """Return the id of an existing project.

        Raises NotFoundError, and InvalidInputError for a caller without a project.
        """
        project = self._asked()
        if project is None and self.kwargs["project_id"].lower() in OWN:
            raise InvalidInputError("The topology is a project's: name one by its id.", field="project_id")
        if project is None or (project != self.context.project_id and not projects_by_id([project])):
            raise NotFoundError(f"Project {self.kwargs['project_id'][:64]} could not be found.")
        return project
