"""Version documents of the Identity API."""

from django.conf import settings
from rest_framework.request import Request

from portal.api.frame import Json, ServiceView, document, endpoint, public_url


def document_v3(request: Request) -> Json:
    return {
        "id": "v3.14",
        "status": "stable",
        "updated": "2020-04-07T00:00:00Z",
        "links": [{"rel": "self", "href": endpoint(request, "identity") + "/"}],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.identity-v3+json"}],
    }


def document_v2(request: Request) -> Json:
    return {
        "id": "v2.0",
        "status": "deprecated",
        "updated": "2016-08-04T00:00:00Z",
        "links": [{"rel": "self", "href": public_url(request) + "/identity/v2.0/"}],
        "media-types": [{"base": "application/json", "type": "application/vnd.openstack.identity-v2.0+json"}],
    }


def _documents(request: Request) -> list[Json]:
    return [document_v3(request), *([document_v2(request)] if settings.IDENTITY_V2 else [])]


VERSIONS = document(
    ServiceView,
    "Answer 300 as Keystone does, as the client has to choose.",
    lambda view: {"versions": {"values": _documents(view.request)}},
    300,
)
"""``GET /identity``: all versions."""
V3 = document(ServiceView, "Show this version of the API.", lambda view: {"version": document_v3(view.request)})
"""``GET /identity/v3``."""
