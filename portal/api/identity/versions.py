"""What the Identity API is: the version documents."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common import links
from portal.api.common.views import ServiceView


def _document(request: Request) -> dict[str, Any]:
    return {
        "id": "v3.14",
        "status": "stable",
        "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": links.endpoint(request, "identity") + "/"}],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}],
    }


class VersionsView(ServiceView):
    """``GET /identity``: all versions there are."""

    public = True

    def get(self, request: Request) -> Response:
        """Answer 300 as Keystone does: the client has to choose."""
        return Response({"versions": {"values": [_document(request)]}}, status=300)


class VersionView(ServiceView):
    """``GET /identity/v3``."""

    public = True

    def get(self, request: Request) -> Response:
        """Describe the version."""
        return Response({"version": _document(request)})
