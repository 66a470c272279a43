"""Gives every HTTP request an id, for response headers, faults and the log."""

import re
from collections.abc import Callable

from django.http import HttpRequest, HttpResponse

from provisioning.common.context import new_request_id
from provisioning.common.processes import tracing

_GLOBAL = re.compile(r"req-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.ASCII)


class RequestIdMiddleware:
    """Sets ``request.request_id`` and ``request.global_request_id`` and answers with ``X-Openstack-Request-Id``."""

    def __init__(self, get_response: Callable[[HttpRequest], HttpResponse]) -> None:
        """Store the next middleware or view."""
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        """Assign the id before any other middleware runs."""
        header = request.headers.get("X-Openstack-Request-Id", "")
        request.request_id = new_request_id()  # type: ignore[attr-defined]
        request.global_request_id = header if _GLOBAL.fullmatch(header) else None  # type: ignore[attr-defined]
        mark = tracing.request_id.set(request.request_id)  # type: ignore[attr-defined]
        try:
            response = self.get_response(request)
        finally:
            tracing.request_id.reset(mark)
        response.headers.setdefault("X-Openstack-Request-Id", request.request_id)  # type: ignore[attr-defined]
        return response
