"""``/v3/limits``: limits of a service's resources for single projects and domains."""

import functools
from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas, ServiceView
from portal.api.identity.directory import lists
from portal.api.identity.limits import schemas, shapes
from provisioning.common.errors import NotFoundError
from provisioning.identity.directory.unified_limits import MODEL, limit_by_id, limits_for
from provisioning.identity.models import Limit
from provisioning.identity.services.unified_limits import create_limits, delete_limit, update_limit

FILTERS = lists.Filters(
    texts=("region_id", "resource_name", "domain_id"),
    ids=("service_id", "project_id"),
    by_part="resource_name",
    sort_keys=("id", "service_id", "region_id", "resource_name", "project_id", "domain_id"),
)


class LimitsView(ServiceView):
    """``/v3/limits``."""

    rules = {"GET": "identity:list_limits", "POST": "identity:create_limits"}
    schemas: ClassVar[Schemas] = {"POST": schemas.CREATE}
    queries: ClassVar[Schemas] = {"GET": lists.query_of(FILTERS)}

    def get(self, request: Request) -> Response:
        """List the limits that the caller may see: all limits, or the limits of the token's domain or project."""
        everything = self.allows("novella:list_every_limit")
        found = limits_for(self.context, lists.read(request, FILTERS), everything=everything)
        return Response(lists.answer(request, "limits", found, shapes.limit, "/limits"))

    def post(self, request: Request) -> Response:
        """Create several limits, all or none (201)."""
        made = create_limits(self.checked_body()["limits"])
        return Response({"limits": [shapes.limit(request, each) for each in made]}, status=201)


class LimitView(ServiceView):
    """``/v3/limits/{id}``."""

    rules = {
        "GET": "identity:get_limit",
        "PATCH": "identity:update_limit",
        "DELETE": "identity:delete_limit",
    }
    schemas: ClassVar[Schemas] = {"PATCH": schemas.UPDATE}

    @functools.cached_property
    def found(self) -> Limit | None:
        return limit_by_id(self.kwargs["limit_id"])

    @property
    def record(self) -> Limit:
        """The limit. Raises NotFoundError; only callers with access to every limit reach it, all others get 403 from
        the policy check.
        """
        if self.found is None:
            raise NotFoundError(f"Could not find limit for {self.kwargs['limit_id'][:64]}.")
        return self.found

    def policy_target(self) -> dict[str, object]:
        """Return the project of the limit, and the domain of that project, or else the domain of the limit itself."""
        if self.found is None:
            return {"project_id": None, "domain_id": None}
        project = self.found.project
        return {
            "project_id": project.id if project else None,
            "domain_id": project.domain_id if project else self.found.domain_id,
        }

    def get(self, request: Request, limit_id: str) -> Response:
        return Response({"limit": shapes.limit(request, self.record)})

    def patch(self, request: Request, limit_id: str) -> Response:
        changed = update_limit(self.record, self.checked_body()["limit"])
        return Response({"limit": shapes.limit(request, changed)})

    def delete(self, request: Request, limit_id: str) -> Response:
        delete_limit(self.record)
        return Response(status=204)


class LimitModelView(ServiceView):
    """``GET /v3/limits/model``: the enforcement model of limits in project trees."""

    rules = {"GET": "identity:get_limit_model"}

    def get(self, request: Request) -> Response:
        return Response({"model": MODEL})
