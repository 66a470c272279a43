"""Version documents (reference, "API versions")."""

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common import conditional, links
from portal.api.common.microversions import text_of
from portal.api.volume.base import MICROVERSIONS, VolumeView


def document(base: str) -> dict[str, Any]:
    """Return the document of v3; ``base`` is its address."""
    return {
        "id": "v3.0",
        "status": "CURRENT",
        "version": text_of(MICROVERSIONS.maximum),
        "min_version": text_of(MICROVERSIONS.minimum),
        "updated": "2023-08-31T00:00:00Z",
        "links": [
            {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/"},
            {"rel": "self", "href": f"{base}/"},
        ],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.volume+json;version=3"}],
    }


class VersionsView(VolumeView):
    """``GET /volume/``: all versions."""

    public = True
    microversions = None

    def get(self, request: Request) -> Response:
        """List the only version; 300, as in Cinder."""
        return Response({"versions": [document(links.endpoint(request, "volume"))]}, status=300)


class VersionView(VolumeView):
    """``GET /volume/v3/``: the version in detail."""

    public = True
    microversions = None

    def get(self, request: Request) -> Response:
        """Answer with the version document."""
        documents = [document(links.endpoint(request, "volume"))]
        return conditional.answer(self, lambda: {"versions": documents}, remember=False)
