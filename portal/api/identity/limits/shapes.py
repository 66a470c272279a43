"""Limits in the format of the Identity API v3."""

from rest_framework.request import Request

from portal.api.identity import fragments
from provisioning.identity.models import Limit, RegisteredLimit


def registered_limit(request: Request, record: RegisteredLimit) -> fragments.Shape:
    return {
        **_resource(record),
        "id": record.id.hex,
        "default_limit": record.default_limit,
        "description": record.description,
        "links": fragments.self_link(request, f"/registered_limits/{record.id.hex}"),
    }


def limit(request: Request, record: Limit) -> fragments.Shape:
    """Return a limit with the resource of its registered limit."""
    return {
        **_resource(record.registered_limit),
        "id": record.id.hex,
        "project_id": record.project_id.hex if record.project_id else None,
        "domain_id": record.domain_id,
        "resource_limit": record.resource_limit,
        "description": record.description,
        "links": fragments.self_link(request, f"/limits/{record.id.hex}"),
    }


def _resource(record: RegisteredLimit) -> fragments.Shape:
    return {
        "service_id": record.service_id.hex,
        "region_id": record.region_id,
        "resource_name": record.resource_name,
    }
