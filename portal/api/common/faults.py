"""Errors in each service's format: class → status → body.

An error whose class is in no table is a bug: it is logged with traceback and request id, and the client sees only the
id.
"""

import logging
import re
from http import HTTPStatus
from typing import Any

import orjson
from django.core.exceptions import DisallowedHost
from django.http import HttpRequest, HttpResponse
from django.views import defaults
from rest_framework.exceptions import APIException, UnsupportedMediaType

from portal.api.common import ec2_faults
from portal.api.common.links import SERVICES
from portal.common.http import error_status
from provisioning.common.database import outage
from provisioning.common.errors import NovellaError, OverQuotaError, TooManyRequestsError

logger = logging.getLogger(__name__)

COMPUTE_NAMES = {
    400: "badRequest",
    401: "unauthorized",
    403: "forbidden",
    404: "itemNotFound",
    405: "badMethod",
    409: "conflictingRequest",
    413: "overLimit",
    415: "badMediaType",
    429: "overLimit",
    501: "notImplemented",
    503: "serviceUnavailable",
}
"""Fault names of Nova and Cinder by status; the name for any other status is ``computeFault``."""

NETWORK_TYPES = {
    400: "InvalidInput",
    403: "PolicyNotAuthorized",
    404: "NotFound",
    405: "HTTPMethodNotAllowed",
    409: "Conflict",
    413: "HTTPRequestEntityTooLarge",
    414: "HTTPRequestURITooLong",
    415: "HTTPUnsupportedMediaType",
    431: "HTTPRequestHeaderFieldsTooLarge",
    503: "ServiceUnavailable",
}
"""Neutron's exception names by status; the class name of an error takes precedence."""

TOO_LARGE = "The request body is too large."
_REFUSED = {
    413: TOO_LARGE,
    414: "The address is longer than 16 KiB.",
    415: "A body of multipart/form-data is not accepted.",
    431: "A header is longer than 16 KiB.",
}
_WORDS_OF_DRF = {405: "The method is not allowed for this resource.", 415: "The request body must be application/json."}


def status_of(error: Exception, service: str) -> int | None:
    """Return the HTTP status of an anticipated error, or None for a bug."""
    if isinstance(error, UnsupportedMediaType) and service == "identity":
        return 400  # as Keystone
    if isinstance(error, APIException):
        return error.status_code
    if outage.is_outage(error):
        logger.warning("The database does not answer: %s", error)
        return 503
    return error_status.status_of(error, service)


def message_of(error: Exception, status: int) -> str:
    if isinstance(error, NovellaError):
        return error.message
    if isinstance(error, UnsupportedMediaType) and status == 400:
        return "Expecting to find application/json in Content-Type header."
    if isinstance(error, APIException):
        return _WORDS_OF_DRF.get(status, str(error.detail))
    if outage.is_outage(error):
        return outage.message_of(error)
    if status == 404:
        return "The resource could not be found."
    if status == 413:
        return TOO_LARGE
    return HTTPStatus(status).description or HTTPStatus(status).phrase


def unexpected(error: Exception, request_id: str) -> str:
    """Log a bug with its traceback and return the message for the client."""
    logger.error("Unexpected error in %s", request_id, exc_info=error)
    return f"Unexpected error. Report the request id {request_id} to your operator."


def body(service: str, status: int, message: str, error: Exception | None = None) -> dict[str, Any]:
    """Return the fault's body in the service's format; 401 has Keystone's format everywhere, as with
    keystonemiddleware.
    """
    if service == "identity" or status == 401:
        offered = getattr(error, "identity", None)
        additional = {"identity": offered} if offered else {}
        return {"error": {"code": status, "title": HTTPStatus(status).phrase, "message": message, **additional}}
    if service in {"compute", "volume"}:
        fault: dict[str, Any] = {"code": status, "message": message}
        if isinstance(error, TooManyRequestsError):
            fault["retryAfter"] = str(error.retry_after)
        return {COMPUTE_NAMES.get(status, "computeFault"): fault}
    if service == "network":
        return {"NeutronError": {"type": _network_type(status, error), "message": message, "detail": ""}}
    return {"code": status, "title": HTTPStatus(status).phrase, "message": message}


def _network_type(status: int, error: Exception | None) -> str:
    """Return the exception name that Neutron uses: ``NetworkNotFound`` for the class ``NetworkNotFoundError``."""
    if isinstance(error, OverQuotaError):
        return "OverQuota"
    known = getattr(error, "neutron_type", "")  # for exceptions whose Neutron name ends in Error as well
    if known:
        return str(known)
    name = re.sub("Error$", "", type(error).__name__) if isinstance(error, NovellaError) else ""
    if name in {"", "InvalidInput", "NotFound", "Conflict", "Forbidden", "TooLarge", "Unavailable"}:
        return NETWORK_TYPES.get(status, "HTTPInternalServerError")
    return name


def refusal(path: str, status: int) -> tuple[str, bytes]:
    """Return content type and body for a request that the web server rejects with 413, 414, 415 or 431."""
    message = _REFUSED[status]
    service = _service_of(path)
    if service == ec2_faults.SERVICE:
        return ec2_faults.CONTENT_TYPE, ec2_faults.of_status(status, message)
    if service not in SERVICES:
        return "text/plain", message.encode()
    return "application/json", orjson.dumps(body(service, status, message))


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    """Answer a request that Django rejects before a view is called, such as an unknown ``Host``, in the service's
    format.
    """
    service, wrong_host = _service_of(request.path), isinstance(exception, DisallowedHost)
    message = "This cloud has no such name: the Host header is wrong." if wrong_host else "The request cannot be read."
    if service == ec2_faults.SERVICE:
        fault = ec2_faults.of_status(400, message, getattr(request, "request_id", ""))
        return HttpResponse(fault, status=400, content_type=ec2_faults.CONTENT_TYPE)
    if service not in SERVICES:
        return defaults.bad_request(request, exception)
    return HttpResponse(orjson.dumps(body(service, 400, message)), status=400, content_type="application/json")


def _service_of(path: str) -> str:
    return path.lstrip("/").partition("/")[0]
