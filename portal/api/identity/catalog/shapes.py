"""Regions, services, endpoints and endpoint groups in the format of the Identity API v3."""

from typing import Any

from rest_framework.request import Request

from portal.api.identity import fragments
from provisioning.identity.models import Endpoint, EndpointGroup, Region, Service

Shape = dict[str, Any]


def region(request: Request, record: Region) -> Shape:
    return {
        **record.extra,
        "id": record.id,
        "description": record.description,
        "parent_region_id": record.parent_id,
        "links": fragments.self_link(request, f"/regions/{record.id}"),
    }


def service(request: Request, record: Service) -> Shape:
    """Return a service; its id has 32 hexadecimal characters."""
    return {
        **record.extra,
        "id": record.id.hex,
        "type": record.type,
        "name": record.name,
        "description": record.description,
        "enabled": record.enabled,
        "links": fragments.self_link(request, f"/services/{record.id.hex}"),
    }


def endpoint(request: Request, record: Endpoint) -> Shape:
    """Return an endpoint with its address as stored, including placeholders such as ``$(public_url)s``."""
    return {
        **record.extra,
        "id": record.id.hex,
        "interface": record.interface,
        "service_id": record.service_id.hex,
        "region": record.region_id,
        "region_id": record.region_id,
        "url": record.url,
        "enabled": record.enabled,
        "links": fragments.self_link(request, f"/endpoints/{record.id.hex}"),
    }


def endpoint_group(request: Request, record: EndpointGroup) -> Shape:
    return {
        "id": record.id.hex,
        "name": record.name,
        "description": record.description,
        "filters": record.filters,
        "links": fragments.self_link(request, f"/OS-EP-FILTER/endpoint_groups/{record.id.hex}"),
    }
