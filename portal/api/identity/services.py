"""The catalog's services, endpoints and the region as records of their own, to read."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import ServiceView
from portal.api.identity import shapes
from portal.api.identity.catalog import DESCRIPTIONS, catalog
from provisioning.common.errors import NotFoundError


def _services(request: Request) -> list[dict[str, Any]]:
    return [
        {
            "id": entry["id"],
            "type": entry["type"],
            "name": entry["name"],
            "description": DESCRIPTIONS[entry["type"]],
            "enabled": True,
            "links": shapes.self_link(request, f"/services/{entry['id']}"),
        }
        for entry in catalog(request)
    ]


def _endpoints(request: Request) -> list[dict[str, Any]]:
    return [
        endpoint
        | {
            "service_id": entry["id"],
            "enabled": True,
            "links": shapes.self_link(request, f"/endpoints/{endpoint['id']}"),
        }
        for entry in catalog(request)
        for endpoint in entry["endpoints"]
    ]


def _chosen(request: Request, items: list[dict[str, Any]], *names: str) -> list[dict[str, Any]]:
    """Return the items that have what the query asks for under these names."""
    wanted = {name: request.query_params[name] for name in names if name in request.query_params}
    return [item for item in items if all(item[name] == value for name, value in wanted.items())]


def _one(items: list[dict[str, Any]], key: str, what: str) -> dict[str, Any]:
    found = next((item for item in items if item["id"] == key), None)
    if found is None:
        raise NotFoundError(f"Could not find {what}: {key[:64]}.")
    return found


class ServicesView(ServiceView):
    """``GET /v3/services``."""

    rules = {"GET": "identity:services:list"}

    def get(self, request: Request) -> Response:
        """List the services."""
        found = _chosen(request, _services(request), "type", "name")
        return Response(shapes.listing(request, "services", found, "/services"))


class OneServiceView(ServiceView):
    """``GET /v3/services/{id}``."""

    rules = {"GET": "identity:services:list"}

    def get(self, request: Request, service_id: str) -> Response:
        """Show a service."""
        return Response({"service": _one(_services(request), service_id, "service")})


class EndpointsView(ServiceView):
    """``GET /v3/endpoints``."""

    rules = {"GET": "identity:services:list"}

    def get(self, request: Request) -> Response:
        """List the endpoints."""
        found = _chosen(request, _endpoints(request), "interface", "service_id", "region_id")
        return Response(shapes.listing(request, "endpoints", found, "/endpoints"))


class EndpointView(ServiceView):
    """``GET /v3/endpoints/{id}``."""

    rules = {"GET": "identity:services:list"}

    def get(self, request: Request, endpoint_id: str) -> Response:
        """Show an endpoint."""
        return Response({"endpoint": _one(_endpoints(request), endpoint_id, "endpoint")})


class RegionsView(ServiceView):
    """``GET /v3/regions``."""

    rules = {"GET": "identity:regions:list"}

    def get(self, request: Request) -> Response:
        """List the regions: there is one."""
        return Response(shapes.listing(request, "regions", [shapes.region(request)], "/regions"))


class RegionView(ServiceView):
    """``GET /v3/regions/{id}``."""

    rules = {"GET": "identity:regions:list"}

    def get(self, request: Request, region_id: str) -> Response:
        """Show the region."""
        if region_id != settings.REGION:
            raise NotFoundError(f"Could not find region: {region_id[:64]}.")
        return Response({"region": shapes.region(request)})
