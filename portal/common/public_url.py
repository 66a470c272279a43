"""The address under which clients know this cloud."""

from django.conf import settings
from django.http import HttpRequest
from rest_framework.request import Request


def public_url(request: HttpRequest | Request) -> str:
    """Return the address that clients use, without a slash at the end: the setting, or what this request was sent to.

    ``get_host`` lets no host pass that ``ALLOWED_HOSTS`` does not name.  Behind a proxy that is believed
    (``--proxy-headers``) the scheme is the one that the client spoke.
    """
    if settings.PUBLIC_URL:
        return str(settings.PUBLIC_URL)
    plain: HttpRequest = request._request if isinstance(request, Request) else request
    found: str | None = getattr(plain, "_novella_public_url", None)
    if found is None:  # asked for with each link of a list
        found = f"{plain.scheme}://{plain.get_host()}"
        plain._novella_public_url = found  # type: ignore[attr-defined]
    return found
