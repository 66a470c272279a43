"""The version documents of the Image service."""

from typing import Any

from django.http import HttpRequest
from django.http.response import HttpResponseBase
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.frame import endpoint
from portal.api.image.dialect import KNOWN, MINOR_VERSIONS, ImageView, negotiated, version_of


class Versions(ImageView):
    """``GET /image``: the versions, with status 300 as in Glance; ``/image/versions`` is the same with 200."""

    public = True
    status = 300

    def get(self, request: Request) -> Response:
        """List the versions of this API."""
        link = {"rel": "self", "href": f"{endpoint(request, 'image')}/v2/"}
        return Response(
            {
                "versions": [
                    {"id": f"v2.{minor}", "status": "SUPPORTED" if index else "CURRENT", "links": [link]}
                    for index, minor in enumerate(MINOR_VERSIONS)
                ]
            },
            status=self.status,
        )

    def http_method_not_allowed(self, request: Any, *args: Any, **kwargs: Any) -> Response:
        """Answer every method with the list of versions."""
        return self.get(request)


class OtherVersions(Versions):
    """Paths that do not begin with ``/v2``: minor versions, ``/versions/…``, and paths without a version."""

    def dispatch(self, request: HttpRequest, *args: object, **kwargs: object) -> HttpResponseBase:
        """Answer a request for a minor version as version 2."""
        version = version_of(request)
        if version in KNOWN:
            return negotiated(request)
        self.status = 200 if version == "versions" else 300
        return super().dispatch(request, *args, **kwargs)
