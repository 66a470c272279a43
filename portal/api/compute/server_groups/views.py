"""Server groups (Compute API reference, "Server groups")."""

import uuid
from collections.abc import Sequence
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.paging import read_page
from portal.api.compute.base import ComputeView
from portal.api.compute.schemas import last
from portal.api.compute.server_groups import schemas as server_group_schemas
from portal.api.compute.server_groups.schemas import ONE_POLICY
from provisioning.compute.models import ServerGroup
from provisioning.compute.selectors.server_groups import members_of, server_group_for, server_groups_for
from provisioning.compute.services.server_groups import create_server_group, delete_server_group


class ServerGroupBase(ComputeView):
    """Base of the server group views."""

    def shape(self, group: ServerGroup, members: Sequence[uuid.UUID]) -> dict[str, Any]:
        shape: dict[str, Any] = {
            "id": str(group.id),
            "name": group.name,
            "members": [str(server) for server in members],
        }
        if self.microversion >= (2, 13):
            shape |= {"project_id": group.project_id.hex, "user_id": group.user_id.hex}
        if self.microversion < ONE_POLICY:
            return shape | {"policies": [group.policy], "metadata": {}}
        most = group.max_server_per_host
        return shape | {"policy": group.policy, "rules": {} if most is None else {"max_server_per_host": most}}


class ServerGroupsView(ServerGroupBase):
    """``GET`` and ``POST /os-server-groups``."""

    rules = {"GET": "os_compute_api:os-server-groups:index", "POST": "os_compute_api:os-server-groups:create"}
    schemas = {"POST": server_group_schemas.create}
    queries = {"GET": server_group_schemas.listing}

    def get(self, request: Request) -> Response:
        """List the project's groups. As in Nova, ``all_projects`` is ignored unless the caller may see the groups of
        all projects.
        """
        query = self.checked_query()
        groups = server_groups_for(
            self.context,
            all_projects="all_projects" in query,
            limit=read_page(request).limit,
            offset=int(last(query, "offset") or 0),
        )
        members = members_of(groups)
        return Response({"server_groups": [self.shape(group, members[group.id]) for group in groups]})

    def post(self, request: Request) -> Response:
        asked = self.checked_body()["server_group"]
        most = asked.get("rules", {}).get("max_server_per_host")
        group = create_server_group(
            self.context,
            asked["name"],
            asked["policy"] if self.microversion >= ONE_POLICY else asked["policies"][0],
            None if most is None else int(most),
        )
        return Response({"server_group": self.shape(group, ())})


class ServerGroupView(ServerGroupBase):
    """``GET`` and ``DELETE /os-server-groups/{id}``."""

    rules = {"GET": "os_compute_api:os-server-groups:show", "DELETE": "os_compute_api:os-server-groups:delete"}

    def get(self, request: Request, server_group_id: str) -> Response:
        group = server_group_for(self.context, server_group_id)
        return Response({"server_group": self.shape(group, members_of([group])[group.id])})

    def delete(self, request: Request, server_group_id: str) -> Response:
        """Delete a group; its servers are kept."""
        delete_server_group(self.context, server_group_id)
        return Response(status=204)
