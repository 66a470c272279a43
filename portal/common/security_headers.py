"""Tells browsers to load nothing from elsewhere, to run nothing inline, and to show the portal in no frame."""

from collections.abc import Callable

from django.conf import settings
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse

_POLICY = "; ".join(
    (
        "default-src 'self'",
        "style-src 'self'",
        "img-src 'self' data:",
        "connect-src 'self'{sockets}",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'self'",
        "object-src 'none'",
    )
)
HEADERS = {
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


def policy(request: HttpRequest) -> str:
    """Return the policy for the host that the browser speaks to: not every browser takes 'self' for WebSockets too."""
    try:
        host = request.get_host()
    except DisallowedHost:
        return _POLICY.format(sockets="")
    return _POLICY.format(sockets=f" ws://{host} wss://{host}")


class SecurityHeadersMiddleware:
    """Sets the headers on every answer that does not have its own."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Keep the next layer."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", policy(request))
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if settings.SECURE_HSTS_SECONDS:  # Django says it only when it sees https, which a proxy may not pass on
            response.headers.setdefault("Strict-Transport-Security", f"max-age={settings.SECURE_HSTS_SECONDS}")
        return response
