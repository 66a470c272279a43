"""``/v3/auth/…`` and one's password: what signed-in users learn about and do for themselves."""

from __future__ import annotations

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import ServiceView
from portal.api.identity import schemas, shapes
from portal.api.identity.catalog import catalog
from portal.common.client_address import client_address
from provisioning.common.errors import ForbiddenError
from provisioning.identity import selectors, services


class OwnProjectsView(ServiceView):
    """``GET /v3/auth/projects``."""

    rules = {"GET": "identity:auth:projects"}

    def get(self, request: Request) -> Response:
        """List the projects that the caller may enter."""
        assert self.context.user_id is not None  # noqa: S101 - a token has a user
        found = (shapes.project(request, project) for project in selectors.projects_of(self.context.user_id))
        return Response(shapes.listing(request, "projects", found, "/auth/projects"))


class OwnDomainsView(ServiceView):
    """``GET /v3/auth/domains``."""

    rules = {"GET": "identity:auth:domains"}

    def get(self, request: Request) -> Response:
        """List the domains that the caller may enter: none, for roles are given on projects only."""
        return Response(shapes.listing(request, "domains", [], "/auth/domains"))


class CatalogView(ServiceView):
    """``GET /v3/auth/catalog``."""

    rules = {"GET": "identity:auth:catalog"}

    def get(self, request: Request) -> Response:
        """Return the catalog; a token without a project has none."""
        if self.context.project_id is None:
            raise ForbiddenError("A token without a project has no catalog.")
        return Response({"catalog": catalog(request), "links": shapes.self_link(request, "/auth/catalog")})


class PasswordView(ServiceView):
    """``POST /v3/users/{id}/password``."""

    rules = {"POST": "identity:users:password"}

    def policy_target(self) -> dict[str, object]:
        """A password is its user's."""
        return {"user_id": self.kwargs["user_id"]}

    def post(self, request: Request, user_id: str) -> Response:
        """Change the caller's own password, which ends every token of the caller, this request's too."""
        body = self.body(schemas.PASSWORD_CHANGE)["user"]
        user = selectors.existing_user(user_id)
        services.change_password(user.id, body["original_password"], body["password"], source=client_address(request))
        return Response(status=204)
