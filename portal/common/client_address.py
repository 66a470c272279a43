"""Where a request comes from."""

from __future__ import annotations

from django.http import HttpRequest


def client_address(request: HttpRequest) -> str:
    """Return the caller's address, or an empty text when the server does not know it.

    Headers of proxies are not read here: a server behind one is told so (``daphne --proxy-headers``) and sets the
    address itself.
    """
    return str(request.META.get("REMOTE_ADDR") or "")
