"""``/servers/{id}/tags`` (2.26): labels of servers, for filters."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import NEWEST
from portal.api.compute.base import ComputeView
from portal.api.compute.servers.schemas import TAGS_BODY
from provisioning.common.errors import NotFoundError
from provisioning.compute import selectors
from provisioning.compute.services.tags import add_tag, delete_tag, delete_tags, set_tags


class _TaggedView(ComputeView):
    """A view available from 2.26 on."""

    versions = dict.fromkeys(("GET", "PUT", "DELETE"), ((2, 26), NEWEST))


class TagsView(_TaggedView):
    """All tags of a server."""

    rules = {
        "GET": "os_compute_api:os-server-tags:index",
        "PUT": "os_compute_api:os-server-tags:update_all",
        "DELETE": "os_compute_api:os-server-tags:delete_all",
    }
    schemas: ClassVar = {"PUT": TAGS_BODY}

    def get(self, request: Request, server_id: str) -> Response:
        return Response({"tags": selectors.instance_for(self.context, server_id).tags})

    def put(self, request: Request, server_id: str) -> Response:
        tags = self.checked_body()["tags"]
        return Response({"tags": set_tags(self.context, server_id, tags).tags})

    def delete(self, request: Request, server_id: str) -> Response:
        delete_tags(self.context, server_id)
        return Response(status=204)


class TagView(_TaggedView):
    """One tag of a server."""

    rules = {
        "GET": "os_compute_api:os-server-tags:show",
        "PUT": "os_compute_api:os-server-tags:update",
        "DELETE": "os_compute_api:os-server-tags:delete",
    }

    def get(self, request: Request, server_id: str, tag: str) -> Response:
        """Check whether the server has the tag: 204 or 404."""
        if tag not in selectors.instance_for(self.context, server_id).tags:
            raise NotFoundError(f"Server {server_id} has no tag '{tag[:60]}'")
        return Response(status=204)

    def put(self, request: Request, server_id: str, tag: str) -> Response:
        """Add the tag: 201 with its address, or 204 if it exists."""
        if not add_tag(self.context, server_id, tag):
            return Response(status=204)
        headers: dict[str, Any] = {"Location": f"{self.base}/servers/{server_id}/tags/{tag}"}
        return Response(status=201, headers=headers)

    def delete(self, request: Request, server_id: str, tag: str) -> Response:
        delete_tag(self.context, server_id, tag)
        return Response(status=204)
