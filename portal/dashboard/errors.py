"""The pages for what goes wrong outside of a panel."""

from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse

from portal.dashboard.pages import sign_in_first


def server_error(request: HttpRequest) -> HttpResponse:
    """Say that it is Novella's fault, with the request's id, as the log has it."""
    return render(request, "500.html", status=500)


def csrf_failure(request: HttpRequest, reason: str = "") -> HttpResponse:
    """Lead who has signed out in another window to the sign-in; everybody else is told that the form is too old.

    The sign-in itself is refused in words: a browser without cookies would be led in a circle.
    """
    signed_out = getattr(request, "context", None) is None
    pages = not request.path.startswith(reverse("admin:index")) and request.path != reverse("dashboard:sign_in")
    if not (signed_out and pages):
        return render(request, "403_csrf.html", status=403)
    if request.headers.get("HX-Request"):
        return HttpResponse(status=401)
    return sign_in_first(request)
