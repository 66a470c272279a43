"""Addresses of services in responses."""

from django.http import HttpRequest
from rest_framework.request import Request

from portal.common.http.public_url import public_url
from provisioning.identity.records.catalog import PATHS

__all__ = ["SERVICES", "endpoint", "public_url"]

SERVICES = PATHS
"""Service → path of its endpoint in the catalog."""


def endpoint(request: HttpRequest | Request, service: str) -> str:
    """Return the address of a service as listed in the catalog."""
    return public_url(request) + SERVICES[service]
