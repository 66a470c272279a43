"""Version documents (Compute API reference, "API Versions"): v2.1 with its microversions, and v2.0 for old clients."""

from typing import Any

from django.http import HttpRequest
from rest_framework.response import Response

from portal.api import frame
from portal.api.compute.dialect import MICROVERSIONS, ComputeView


def current(base: str) -> frame.Json:
    """Return the document of v2.1; ``base`` is its address without a slash at the end."""
    return {
        "id": "v2.1",
        "status": "CURRENT",
        "version": frame.text_of(MICROVERSIONS.maximum),
        "min_version": frame.text_of(MICROVERSIONS.minimum),
        "updated": "2013-07-23T11:33:21Z",
        "links": _links(base),
        "media-types": _media_types("2.1"),
    }


def legacy(base: str) -> frame.Json:
    """Return the document of v2.0, which has no microversions."""
    return {
        "id": "v2.0",
        "status": "SUPPORTED",
        "version": "",
        "min_version": "",
        "updated": "2011-01-21T11:33:21Z",
        "links": _links(f"{base.rsplit('/', 1)[0]}/v2"),
        "media-types": _media_types("2"),
    }


def _links(base: str) -> list[dict[str, str]]:
    return [
        {"rel": "self", "href": f"{base}/"},
        {"rel": "describedby", "type": "text/html", "href": "https://docs.openstack.org/"},
    ]


def _media_types(version: str) -> list[dict[str, str]]:
    kind = f"application/vnd.openstack.compute+json;version={version}"
    return [{"base": "application/json", "type": kind}]


def _base(view: frame.ServiceView) -> str:
    return frame.endpoint(view.request, "compute")


def _entry(whole: frame.Json) -> frame.Json:
    return {name: value for name, value in whole.items() if name != "media-types"} | {"links": whole["links"][:1]}


VERSIONS = frame.document(
    ComputeView,
    "Answer 200 with the list, as Nova does.",
    lambda view: {"versions": [_entry(legacy(_base(view))), _entry(current(_base(view)))]},
    microversions=None,
)
"""``GET /compute/``: the supported versions."""
V21 = frame.document(ComputeView, "Answer with the version document.", lambda view: {"version": current(_base(view))})
"""``GET /compute/v2.1/``: the version in detail."""
V20 = frame.document(
    ComputeView,
    "Answer with the version document.",
    lambda view: {"version": legacy(_base(view))},
    microversions=None,
)
"""``GET /compute/v2/``: the version of old clients in detail."""


class NoSuchResource(frame.NoSuchResource):
    """Unknown paths: 404 below a version, otherwise 300 with both versions, as in Nova."""

    service = "compute"

    def http_method_not_allowed(self, request: HttpRequest, *args: Any, **kwargs: Any) -> Response:
        """Answer every method in the same way."""
        base = _base(self)
        path = request.path.partition("/compute")[2]
        if path.split("/")[1] in {"v2", "v2.1"}:
            return super().http_method_not_allowed(request, *args, **kwargs)
        choices = [
            {
                "id": each["id"],
                "status": each["status"],
                "links": [{"rel": "self", "href": each["links"][0]["href"].rstrip("/") + path}],
                "media-types": each["media-types"],
            }
            for each in (legacy(base), current(base))
        ]
        return Response({"choices": choices}, status=300)
