"""Which host makes a request over HTTP, and plain answers to hosts."""

from django.http import HttpRequest, HttpResponse

from provisioning.hosts import enrolment
from provisioning.hosts.models import Host


def calling_host(request: HttpRequest) -> Host:
    """Return the host whose name and credential the request bears.  Raises NotAuthenticatedError."""
    kind, _, credential = request.headers.get("Authorization", "").partition(" ")
    name = request.headers.get("X-Novella-Host", "")
    return enrolment.authenticate(name, credential.strip() if kind.lower() == "bearer" else "")


def said(status: int, text: str) -> HttpResponse:
    """Answer with a sentence."""
    return HttpResponse(text, status=status, content_type="text/plain")
