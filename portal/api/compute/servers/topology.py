"""``GET /servers/{id}/topology`` (2.78): the NUMA nodes of a server."""

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.microversions import NEWEST
from portal.api.compute.base import ComputeView
from provisioning.compute import selectors


class TopologyView(ComputeView):
    """The NUMA topology of a server."""

    rules = {"GET": "compute:server:topology:index"}
    versions = {"GET": ((2, 78), NEWEST)}

    def get(self, request: Request, server_id: str) -> Response:
        """Answer with no node and no page size: servers have no NUMA topology here."""
        selectors.instance_for(self.context, server_id)
        return Response({"nodes": [], "pagesize_kb": None})
