"""Addresses in answers."""

from django.conf import settings
from django.http import HttpRequest
from rest_framework.request import Request

from provisioning.identity.catalog import PATHS

SERVICES = PATHS
"""Service → path of its endpoint in the catalog."""


def public_url(request: HttpRequest | Request) -> str:
    """Return the address that clients use, without a slash at the end: the setting, or the host of this request."""
    if settings.PUBLIC_URL:
        return str(settings.PUBLIC_URL)
    return f"{request.scheme}://{request.get_host()}"


def endpoint(request: HttpRequest | Request, service: str) -> str:
    """Return the address of a service as it stands in the catalog."""
    return public_url(request) + SERVICES[service]
