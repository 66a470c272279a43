"""Version and resources of the Networking API."""

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common import conditional
from portal.api.common.links import endpoint
from portal.api.network.dialect.views import NetworkView
from portal.api.network.registry import RESOURCES


class Versions(NetworkView):
    """``GET /network``: all versions."""

    public = True

    def get(self, request: Request) -> Response:
        """List the only version."""
        link = {"rel": "self", "href": f"{endpoint(request, 'network')}/v2.0/"}
        versions = [{"id": "v2.0", "status": "CURRENT", "links": [link]}]
        return conditional.answer(self, lambda: {"versions": versions}, remember=False)


class Resources(NetworkView):
    """``GET /network/v2.0``: the resources of the version."""

    public = True

    def get(self, request: Request) -> Response:
        """List every resource with its address."""
        base = f"{endpoint(request, 'network')}/v2.0"
        resources = [
            {
                "name": resource.name,
                "collection": resource.plural,
                "links": [{"rel": "self", "href": f"{base}/{resource.path}"}],
            }
            for resource in RESOURCES
        ]
        return conditional.answer(self, lambda: {"resources": resources}, remember=False)
