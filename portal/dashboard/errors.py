"""Pages for errors outside a panel."""

import sys

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from portal.dashboard.frame.pages import sign_in_first
from provisioning.common.database import outage


def server_error(request: HttpRequest) -> HttpResponse:
    """Show an internal error, or that the database is unavailable, with the request id, as in the log."""
    error = sys.exc_info()[1]
    if error is not None and outage.is_outage(error):
        return render(request, "503.html", {"text": outage.message_of(error)}, status=503)
    return render(request, "500.html", status=500)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Redirect a user who is not signed in to the sign-in; show a signed-in user that the form has expired.

    On the sign-in page itself the error is shown: a browser without cookies would be redirected forever.
    """
    signed_out = getattr(request, "context", None) is None
    pages = not request.path.startswith(reverse("admin:index")) and request.path != reverse("dashboard:sign_in")
    if not (signed_out and pages):
        return render(request, "403_csrf.html", status=403)
    if request.headers.get("HX-Request"):
        return HttpResponse(status=401)
    return sign_in_first(request)
