"""``/v3/services``: the services of the catalog."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas, ServiceView
from portal.api.identity.catalog import schemas, shapes
from portal.api.identity.fields import further
from portal.api.identity.short_lists import listed, query_of
from provisioning.identity.selectors.catalog import catalog_services, existing_service
from provisioning.identity.services.catalog import create_service, delete_service, update_service

_KNOWN = frozenset({"type", "name", "description", "enabled"})


def _values(body: dict[str, Any]) -> dict[str, Any]:
    """Convert the validated body; null becomes an empty text."""
    given = body["service"]
    known = {name: value for name, value in given.items() if name in _KNOWN}
    others = further(given, dict.fromkeys((*_KNOWN, "id")))
    found = {name: "" if value is None else value for name, value in known.items()}
    return found | ({"extra": others} if others else {})


class ServicesView(ServiceView):
    """``/v3/services``."""

    rules = {"GET": "identity:list_services", "POST": "identity:create_service"}
    schemas: ClassVar[Schemas] = {"POST": schemas.SERVICE_CREATE}
    queries: ClassVar[Schemas] = {"GET": query_of("type", "name", "enabled")}

    def get(self, request: Request) -> Response:
        """List the services, including disabled ones."""
        items = (shapes.service(request, service) for service in catalog_services())
        return Response(listed(request, "services", items, filters=("type", "name", "enabled")))

    def post(self, request: Request) -> Response:
        """Create a service (201)."""
        values = _values(self.checked_body())
        made = create_service(values.pop("type"), **values)
        return Response({"service": shapes.service(request, made)}, status=201)


class OneServiceView(ServiceView):
    """``/v3/services/{id}``."""

    rules = {
        "GET": "identity:get_service",
        "PATCH": "identity:update_service",
        "DELETE": "identity:delete_service",
    }
    schemas: ClassVar[Schemas] = {"PATCH": schemas.SERVICE_UPDATE}

    def get(self, request: Request, service_id: str) -> Response:
        return Response({"service": shapes.service(request, existing_service(service_id))})

    def patch(self, request: Request, service_id: str) -> Response:
        service = existing_service(service_id)
        changed = update_service(service, **_values(self.checked_body()))
        return Response({"service": shapes.service(request, changed)})

    def delete(self, request: Request, service_id: str) -> Response:
        """Delete a service with its endpoints."""
        delete_service(existing_service(service_id))
        return Response(status=204)
