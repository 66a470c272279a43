"""``/servers/{id}/metadata``: keys and values that the owner stores with a server."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.compute.base import ComputeView
from portal.api.compute.servers.schemas import META_BODY, METADATA_BODY
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.compute import selectors
from provisioning.compute.services.metadata import delete_metadata, merge_metadata, set_metadata


class MetadataView(ComputeView):
    """``/servers/{id}/metadata``."""

    rules = {
        "GET": "os_compute_api:server-metadata:index",
        "POST": "os_compute_api:server-metadata:create",
        "PUT": "os_compute_api:server-metadata:update_all",
    }
    schemas: ClassVar = {"POST": METADATA_BODY, "PUT": METADATA_BODY}

    def get(self, request: Request, server_id: str) -> Response:
        return Response({"metadata": selectors.instance_for(self.context, server_id).metadata})

    def post(self, request: Request, server_id: str) -> Response:
        """Add or update items; items that the body does not contain are kept."""
        given = self.checked_body()["metadata"]
        return Response({"metadata": merge_metadata(self.context, server_id, given).metadata})

    def put(self, request: Request, server_id: str) -> Response:
        given = self.checked_body()["metadata"]
        return Response({"metadata": set_metadata(self.context, server_id, given).metadata})


class MetadataItemView(ComputeView):
    """``/servers/{id}/metadata/{key}``."""

    rules = {
        "GET": "os_compute_api:server-metadata:show",
        "PUT": "os_compute_api:server-metadata:update",
        "DELETE": "os_compute_api:server-metadata:delete",
    }
    schemas: ClassVar = {"PUT": META_BODY}

    def get(self, request: Request, server_id: str, key: str) -> Response:
        metadata = selectors.instance_for(self.context, server_id).metadata
        if key not in metadata:
            raise NotFoundError("Metadata item was not found")
        return Response({"meta": {key: metadata[key]}})

    def put(self, request: Request, server_id: str, key: str) -> Response:
        given = self.checked_body()["meta"]
        if key not in given:
            raise InvalidInputError("Request body and URI mismatch", field=key)
        merge_metadata(self.context, server_id, given)
        return Response({"meta": given})

    def delete(self, request: Request, server_id: str, key: str) -> Response:
        delete_metadata(self.context, server_id, key)
        return Response(status=204)
