"""``/v3/registered_limits``: default limits of a service's resources."""

from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas, ServiceView
from portal.api.identity.directory import lists
from portal.api.identity.limits import schemas, shapes
from provisioning.identity.directory.unified_limits import existing_registered_limit, registered_limits
from provisioning.identity.services.unified_limits import (
    create_registered_limits,
    delete_registered_limit,
    update_registered_limit,
)

FILTERS = lists.Filters(
    texts=("region_id", "resource_name"),
    ids=("service_id",),
    by_part="resource_name",
    sort_keys=("id", "service_id", "region_id", "resource_name"),
)


class RegisteredLimitsView(ServiceView):
    """``/v3/registered_limits``."""

    rules = {"GET": "identity:list_registered_limits", "POST": "identity:create_registered_limits"}
    schemas: ClassVar[Schemas] = {"POST": schemas.REGISTERED_CREATE}
    queries: ClassVar[Schemas] = {"GET": lists.query_of(FILTERS)}

    def get(self, request: Request) -> Response:
        found = registered_limits(lists.read(request, FILTERS))
        name = "registered_limits"
        return Response(lists.answer(request, name, found, shapes.registered_limit, f"/{name}"))

    def post(self, request: Request) -> Response:
        """Create several registered limits, all or none (201)."""
        made = create_registered_limits(self.checked_body()["registered_limits"])
        return Response({"registered_limits": [shapes.registered_limit(request, each) for each in made]}, status=201)


class RegisteredLimitView(ServiceView):
    """``/v3/registered_limits/{id}``."""

    rules = {
        "GET": "identity:get_registered_limit",
        "PATCH": "identity:update_registered_limit",
        "DELETE": "identity:delete_registered_limit",
    }
    schemas: ClassVar[Schemas] = {"PATCH": schemas.REGISTERED_UPDATE}

    def get(self, request: Request, registered_limit_id: str) -> Response:
        return self._shown(request, existing_registered_limit(registered_limit_id))

    def patch(self, request: Request, registered_limit_id: str) -> Response:
        """Update a registered limit; 403 while a limit refers to it."""
        changes = self.checked_body()["registered_limit"]
        return self._shown(request, update_registered_limit(existing_registered_limit(registered_limit_id), changes))

    def delete(self, request: Request, registered_limit_id: str) -> Response:
        """Delete a registered limit; 403 while a limit refers to it."""
        delete_registered_limit(existing_registered_limit(registered_limit_id))
        return Response(status=204)

    def _shown(self, request: Request, record: Any) -> Response:
        return Response({"registered_limit": shapes.registered_limit(request, record)})
