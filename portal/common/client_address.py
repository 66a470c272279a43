"""Where a request comes from."""

from django.http import HttpRequest
from rest_framework.request import Request

from provisioning.identity.services.sign_ins import Client


def client_address(request: HttpRequest | Request) -> str:
    """Return the caller's address, or an empty text when the server does not know it.

    Headers of proxies are not read here: a server behind one is told so (``manage.py web --proxy-headers``) and sets
    the address itself.
    """
    return str(request.META.get("REMOTE_ADDR") or "")


def client_of(request: HttpRequest | Request) -> Client:
    """Return what asks: its address and what it calls itself."""
    return Client.of(client_address(request), str(request.META.get("HTTP_USER_AGENT") or ""))
