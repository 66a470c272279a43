"""The service catalog: where each service of this cloud is."""

from __future__ import annotations

import uuid
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from rest_framework.request import Request

from portal.api.common import links

NAMES = {"identity": "keystone", "compute": "nova", "image": "glance", "network": "neutron"}
"""Service type → the name that tools written for OpenStack expect."""
DESCRIPTIONS = {
    "identity": "Identity service",
    "compute": "Compute service",
    "image": "Image service",
    "network": "Network service",
}
INTERFACES = ("public", "internal", "admin")
_SPACE = uuid.uuid5(uuid.NAMESPACE_URL, "novella:catalog")


def catalog(request: HttpRequest | Request) -> list[dict[str, Any]]:
    """Return the catalog as it stands in a token."""
    return [
        {
            "id": service_id(service),
            "type": service,
            "name": NAMES[service],
            "endpoints": [
                {
                    "id": _id(service, interface),
                    "interface": interface,
                    "region": settings.REGION,
                    "region_id": settings.REGION,
                    "url": links.endpoint(request, service),
                }
                for interface in INTERFACES
            ],
        }
        for service in links.SERVICES
    ]


def service_id(service: str) -> str:
    """Return the id of a service: the same on every machine, 32 hexadecimal characters."""
    return _id(service)


def _id(*names: str) -> str:
    return uuid.uuid5(_SPACE, "/".join(names)).hex
