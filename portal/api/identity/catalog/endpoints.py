"""``/v3/endpoints``: addresses of services."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas, ServiceView
from portal.api.identity.catalog import schemas, shapes
from portal.api.identity.fields import further
from portal.api.identity.short_lists import listed, query_of
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.identity.selectors.catalog import endpoints, existing_endpoint, existing_region, existing_service
from provisioning.identity.services.catalog import create_endpoint, delete_endpoint, update_endpoint

_KNOWN = frozenset({"interface", "url", "service_id", "region_id", "region", "enabled"})


def _values(body: dict[str, Any]) -> dict[str, Any]:
    """Convert the validated body. Raises InvalidInputError if a service or region in it does not exist.

    ``region`` is the older name of ``region_id``. As in Keystone, a region that is specified by ``region`` is created
    if it does not exist.
    """
    given = body["endpoint"]
    known = {name: value for name, value in given.items() if name in _KNOWN}
    others = further(given, dict.fromkeys((*_KNOWN, "id")))
    region_id, old_word = known.pop("region_id", ...), known.pop("region", ...)
    try:
        if "service_id" in known:
            known["service"] = existing_service(known.pop("service_id"))
        if region_id is not ...:
            known["region"] = None if region_id is None else existing_region(region_id)
    except NotFoundError as error:
        field = "region_id" if "service" in known else "service_id"
        raise InvalidInputError(error.message, field=field) from error
    if region_id is ... and old_word is not ...:
        known["region"] = old_word
    return known | ({"extra": others} if others else {})


class EndpointsView(ServiceView):
    """``/v3/endpoints``."""

    rules = {"GET": "identity:list_endpoints", "POST": "identity:create_endpoint"}
    schemas: ClassVar[Schemas] = {"POST": schemas.ENDPOINT_CREATE}
    queries: ClassVar[Schemas] = {"GET": query_of("interface", "service_id", "region_id", "enabled")}

    def get(self, request: Request) -> Response:
        """List the endpoints, including disabled ones."""
        items = (shapes.endpoint(request, endpoint) for endpoint in endpoints())
        filters = ("interface", "service_id", "region_id", "enabled")
        return Response(listed(request, "endpoints", items, filters=filters))

    def post(self, request: Request) -> Response:
        """Create an endpoint (201)."""
        values = _values(self.checked_body())
        service, interface, url = (values.pop(name) for name in ("service", "interface", "url"))
        made = create_endpoint(service, interface, url, **values)
        return Response({"endpoint": shapes.endpoint(request, made)}, status=201)


class EndpointView(ServiceView):
    """``/v3/endpoints/{id}``."""

    rules = {
        "GET": "identity:get_endpoint",
        "PATCH": "identity:update_endpoint",
        "DELETE": "identity:delete_endpoint",
    }
    schemas: ClassVar[Schemas] = {"PATCH": schemas.ENDPOINT_UPDATE}

    def get(self, request: Request, endpoint_id: str) -> Response:
        return Response({"endpoint": shapes.endpoint(request, existing_endpoint(endpoint_id))})

    def patch(self, request: Request, endpoint_id: str) -> Response:
        endpoint = existing_endpoint(endpoint_id)
        changed = update_endpoint(endpoint, **_values(self.checked_body()))
        return Response({"endpoint": shapes.endpoint(request, changed)})

    def delete(self, request: Request, endpoint_id: str) -> Response:
        delete_endpoint(existing_endpoint(endpoint_id))
        return Response(status=204)
