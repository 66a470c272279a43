"""Security headers: no content from other origins, no inline scripts, no frames except of this portal."""

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
        "frame-ancestors {frames}",
        "base-uri 'none'",
        "form-action 'self'",
        "object-src 'none'",
    )
)
HEADERS = {
    "X-Frame-Options": "DENY",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=(), payment=(), usb=()",
}


def policy(request: HttpRequest, *, frames: str = "'none'") -> str:
    """Return the Content-Security-Policy; ``frames`` are the pages that may show the response in a frame.

    It names the request's host for WebSockets, because not every browser applies 'self' to them.
    """
    try:
        host = request.get_host()
    except DisallowedHost:
        return _POLICY.format(sockets="", frames=frames)
    return _POLICY.format(sockets=f" ws://{host} wss://{host}", frames=frames)


def allow_own_frames(request: HttpRequest, response: HttpResponse) -> None:
    """Let pages of this portal show the response in a frame."""
    response.headers["Content-Security-Policy"] = policy(request, frames="'self'")
    response.headers["X-Frame-Options"] = "SAMEORIGIN"


class SecurityHeadersMiddleware:
    """Sets the headers on every response that does not have its own."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Store the next middleware or view."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        response = self.get_response(request)
        response.headers.setdefault("Content-Security-Policy", policy(request))
        for name, value in HEADERS.items():
            response.headers.setdefault(name, value)
        if settings.SECURE_HSTS_SECONDS:  # Django sets it only for https requests, which a proxy may not indicate
            response.headers.setdefault("Strict-Transport-Security", f"max-age={settings.SECURE_HSTS_SECONDS}")
        return response
