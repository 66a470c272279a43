"""``GET /servers/{id}/topology`` (2.78): the NUMA nodes of a server."""

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import NEWEST
from portal.api.compute.base import ComputeView
from provisioning.compute import selectors


class TopologyView(ComputeView):
    """What a guest's processors and memory are laid upon."""

    rules = {"GET": "compute:server:topology:index"}
    versions = {"GET": ((2, 78), NEWEST)}

    def get(self, request: Request, server_id: str) -> Response:
        """Answer for a server without NUMA nodes of its own, as all are here: no node, and no page size."""
        selectors.instance_for(self.context, server_id)
        return Response({"nodes": [], "pagesize_kb": None})
