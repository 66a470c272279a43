"""``/metrics``: metrics for Prometheus."""

import hmac

from django.conf import settings
from django.db import Error
from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from portal.metrics.collector import CloudCollector
from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, NotAuthenticatedError
from provisioning.identity import policy
from provisioning.identity.selectors.tokens import context_for_token

RULE = "novella:metrics"


@never_cache
@require_GET
def metrics(request: HttpRequest) -> HttpResponse:
    """Return the metrics for METRICS_TOKEN, and for tokens and sessions that ``novella:metrics`` allows.

    ``?hosts=1`` adds the metrics of each host.
    """
    try:
        if not _bears_token(request):
            _check(request)
    except NotAuthenticatedError as error:
        return _answer(401, error.message, {"WWW-Authenticate": 'Bearer realm="metrics"'})
    except ForbiddenError as error:
        return _answer(403, error.message)
    registry = CollectorRegistry(auto_describe=False)
    registry.register(CloudCollector(hosts=request.GET.get("hosts") == "1"))
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    try:
        return HttpResponse(encode(registry), content_type=content_type)
    except Error:
        return _answer(503, "The database does not answer.")


def _bears_token(request: HttpRequest) -> bool:
    kind, _, token = request.headers.get("Authorization", "").partition(" ")
    known = settings.METRICS_TOKEN
    return bool(known) and kind.lower() == "bearer" and hmac.compare_digest(token.strip().encode(), known.encode())


def _check(request: HttpRequest) -> None:
    """Raise NotAuthenticatedError or ForbiddenError if the caller may not see the metrics."""
    value = request.headers.get("X-Auth-Token", "")
    context: RequestContext | None = getattr(request, "context", None)
    if value:
        context = context_for_token(value, request_id=getattr(request, "request_id", ""))
    if context is None:
        raise NotAuthenticatedError("The metrics need a token.")
    if context.access_rules is not None:
        raise ForbiddenError("The access rules of this application credential allow other requests only.")
    policy.enforce(context, RULE)


def _answer(status: int, text: str, headers: dict[str, str] | None = None) -> HttpResponse:
    return HttpResponse(text, status=status, content_type="text/plain", headers=headers)
