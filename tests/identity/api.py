"""Views as an API has them, to see what the common base does with every kind of error."""

from __future__ import annotations

import uuid
from typing import Any

from django.core.exceptions import RequestDataTooBig
from django.http import Http404
from django.urls import URLPattern, path
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.requests import Microversions, text_of
from portal.api.common.views import NoSuchResource, ServiceView
from portal.api.frame.lists import Pages
from provisioning.common import errors


class NetworkNotFoundError(errors.NotFoundError):
    """As a service names what it misses."""


ERRORS: dict[str, Exception] = {
    "invalid": errors.InvalidInputError("Bad name.", field="name"),
    "forbidden": errors.ForbiddenError("Not you."),
    "missing": errors.NotFoundError("Gone."),
    "network": NetworkNotFoundError("No network."),
    "conflict": errors.ConflictError("Busy."),
    "quota": errors.OverQuotaError("cores", limit=4, used=3, requested=2),
    "large": errors.TooLargeError("Too much."),
    "unavailable": errors.UnavailableError("Later."),
    "django404": Http404("secret path"),
    "djangobig": RequestDataTooBig("internals"),
    "bug": ZeroDivisionError("secret internals"),
}
SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "server": {
            "type": "object",
            "properties": {
                "name": {"type": "string", "minLength": 1, "maxLength": 10},
                "count": {"type": "integer", "minimum": 1},
                "adminPass": {"type": "string"},
                "user_data": {"type": "string", "format": "base64"},
                "ports": {"type": "array", "items": {"type": "string", "format": "uuid"}},
                "address": {"type": "string", "format": "ipv4"},
                "address6": {"type": "string", "format": "ipv6"},
            },
            "required": ["name"],
            "additionalProperties": False,
        }
    },
    "required": ["server"],
    "additionalProperties": False,
}


class ErrorsView(ServiceView):
    rules = {"GET": "os_compute_api:servers:detail", "POST": "os_compute_api:servers:create"}

    def get(self, request: Request) -> Response:
        raise ERRORS[request.query_params["error"]]

    def post(self, request: Request) -> Response:
        return Response(self.body(SCHEMA), status=202)


class VersionedView(ServiceView):
    service = "compute"
    microversions = Microversions("compute", (2, 1), (2, 96), "X-OpenStack-Nova-API-Version")
    rules = {"GET": "os_compute_api:servers:detail"}

    def get(self, request: Request) -> Response:
        return Response({"version": text_of(self.microversion), "project": str(self.context.project_id)})


PAGES = Pages(largest=3)


class PagedView(ServiceView):
    service = "compute"
    rules = {"GET": "os_compute_api:servers:detail"}
    items = [uuid.UUID(int=number) for number in range(1, 8)]

    def get(self, request: Request) -> Response:
        page = PAGES.read(request)
        begin = self.items.index(uuid.UUID(page.marker)) + 1 if page.marker else 0
        result = self.items[begin : begin + page.limit]
        return Response({"items": result, "links": PAGES.links(request, page, result, "http://cloud/items")})


SERVICES = ("identity", "compute", "image", "network", "volume")
urlpatterns: list[URLPattern] = [
    *(path(f"{name}/errors", ErrorsView.as_view(service=name)) for name in SERVICES),
    path("versioned", VersionedView.as_view()),
    path("paged", PagedView.as_view()),
    *(path(f"{name}/nothing", NoSuchResource.of(name)) for name in SERVICES),
]
