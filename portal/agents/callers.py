"""Authentication of hosts over HTTP, bodies of their requests, and plain text responses to them."""

import uuid
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from portal.common.http.error_status import status_of
from portal.web.streams import BodyInterruptedError, body_of
from provisioning.common.errors import NotAuthenticatedError, NovellaError, TooLargeError
from provisioning.hosts import enrolment
from provisioning.hosts.models import Host
from provisioning.volumes.backups.backup_store.base import StoreFullError


def calling_host(request: HttpRequest) -> Host:
    """Return the host authenticated by the request's host name and credential. Raises NotAuthenticatedError."""
    kind, _, credential = request.headers.get("Authorization", "").partition(" ")
    name = request.headers.get("X-Novella-Host", "")
    return enrolment.authenticate(name, credential.strip() if kind.lower() == "bearer" else "")


def answer(request: HttpRequest, service: str, carry: Callable[[uuid.UUID], HttpResponse]) -> HttpResponse:
    """Call ``carry`` with the id of the calling host, and convert errors into responses with the statuses of a service.

    Hosts do not retry after a status below 500, except 401 and 409, or after 507.
    """
    try:
        host = calling_host(request)
    except NotAuthenticatedError as error:
        return text_response(401, error.message)
    try:
        return carry(host.id)
    except BodyInterruptedError as error:
        return text_response(503, str(error))
    except StoreFullError as error:
        return text_response(507, error.message)
    except NovellaError as error:
        return text_response(status_of(error, service) or 503, error.message)


def whole_body(request: HttpRequest, longest: int, too_large: str) -> bytes:
    """Return the body. Raises TooLargeError with this message if it has more than ``longest`` bytes."""
    pieces, size = [], 0
    for piece in body_of(request):
        size += len(piece)
        if size > longest:
            raise TooLargeError(too_large)
        pieces.append(piece)
    return b"".join(pieces)


def text_response(status: int, text: str) -> HttpResponse:
    """Return a plain text response."""
    return HttpResponse(text, status=status, content_type="text/plain")
