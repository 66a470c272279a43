"""The remote address of a request."""

from django.http import HttpRequest
from rest_framework.request import Request

from provisioning.identity.services.sign_ins import Client


def client_address(request: HttpRequest | Request) -> str:
    """Return the client's address, or an empty text if unknown.

    Proxy headers are not read here: a server behind a proxy (``manage.py web --proxy-headers``) sets the address
    itself.
    """
    return str(request.META.get("REMOTE_ADDR") or "")


def client_of(request: HttpRequest | Request) -> Client:
    """Return the client's address and user agent."""
    return Client.of(client_address(request), str(request.META.get("HTTP_USER_AGENT") or ""))
