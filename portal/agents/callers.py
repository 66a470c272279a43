"""Authentication of hosts over HTTP, and plain text responses to them."""

from django.http import HttpRequest, HttpResponse

from provisioning.hosts import enrolment
from provisioning.hosts.models import Host


def calling_host(request: HttpRequest) -> Host:
    """Return the host authenticated by the request's host name and credential. Raises NotAuthenticatedError."""
    kind, _, credential = request.headers.get("Authorization", "").partition(" ")
    name = request.headers.get("X-Novella-Host", "")
    return enrolment.authenticate(name, credential.strip() if kind.lower() == "bearer" else "")


def said(status: int, text: str) -> HttpResponse:
    """Return a plain text response."""
    return HttpResponse(text, status=status, content_type="text/plain")
