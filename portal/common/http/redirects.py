"""Redirects after sign-in, only to pages of this portal."""

from django.http import HttpRequest
from django.utils.http import url_has_allowed_host_and_scheme


def safe_next(request: HttpRequest, fallback: str = "/") -> str:
    """Return the path in ``next`` (form or query), or ``fallback`` if it is not a path of this portal."""
    target = request.POST.get("next") or request.GET.get("next") or ""
    if not target.startswith("/") or len(target) > 2048:
        return fallback
    if not url_has_allowed_host_and_scheme(target, allowed_hosts=None):
        return fallback
    return target
