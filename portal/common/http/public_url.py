"""The address of this cloud for clients."""

from django.conf import settings
from django.http import HttpRequest
from rest_framework.request import Request


def public_url(request: HttpRequest | Request) -> str:
    """Return the address for clients, without a trailing slash: the setting, or the address of this request.

    ``get_host`` rejects hosts that are not in ``ALLOWED_HOSTS``. Behind a trusted proxy (``--proxy-headers``) the
    scheme is that of the client's connection.
    """
    if settings.PUBLIC_URL:
        return str(settings.PUBLIC_URL)
    plain: HttpRequest = request._request if isinstance(request, Request) else request
    result: str | None = getattr(plain, "_novella_public_url", None)
    if result is None:  # called for each link of a list
        result = f"{plain.scheme}://{plain.get_host()}"
        plain._novella_public_url = result  # type: ignore[attr-defined]
    return result
