"""Where to go after signing in: only to pages of this portal."""

from django.http import HttpRequest
from django.utils.http import url_has_allowed_host_and_scheme


def safe_next(request: HttpRequest, fallback: str = "/") -> str:
    """Return the path asked for by ``next`` (form or query), or ``fallback`` when it leads elsewhere or is no path."""
    wanted = request.POST.get("next") or request.GET.get("next") or ""
    if not wanted.startswith("/") or len(wanted) > 2048:
        return fallback
    if not url_has_allowed_host_and_scheme(wanted, allowed_hosts=None):
        return fallback
    return wanted
