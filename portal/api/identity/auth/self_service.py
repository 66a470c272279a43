"""``/v3/auth/…`` and password changes: operations of authenticated users on their own account."""

from typing import ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas, ServiceView
from portal.api.identity import fragments
from portal.api.identity.auth import schemas, shapes
from portal.api.identity.directory.domains import DOMAIN
from portal.api.identity.directory.projects import PROJECT
from portal.common.client_address import client_address
from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError
from provisioning.common.ids import read_id
from provisioning.identity import policy
from provisioning.identity.selectors.visible_projects import domains_open_to, may_enter_system, projects_open_to
from provisioning.identity.services.passwords import change_password


class OwnProjectsView(ServiceView):
    """``GET /v3/auth/projects``."""

    rules = {"GET": "identity:get_auth_projects"}

    def get(self, request: Request) -> Response:
        """List the projects that this token can be rescoped to."""
        found = PROJECT.shapes(self, [*projects_open_to(self.context)])
        return Response(fragments.listing(request, "projects", found, "/auth/projects"))


class OwnDomainsView(ServiceView):
    """``GET /v3/auth/domains``."""

    rules = {"GET": "identity:get_auth_domains"}

    def get(self, request: Request) -> Response:
        """List the domains that this token can be rescoped to."""
        found = DOMAIN.shapes(self, [*domains_open_to(self.context)])
        return Response(fragments.listing(request, "domains", found, "/auth/domains"))


class OwnSystemView(ServiceView):
    """``GET /v3/auth/system``."""

    rules = {"GET": "identity:get_auth_system"}

    def get(self, request: Request) -> Response:
        """Return whether this token can be rescoped to the system."""
        found = [{"all": True}] if may_enter_system(self.context) else []
        return Response({"system": found, "links": fragments.self_link(request, "/auth/system")})


class CatalogView(ServiceView):
    """``GET /v3/auth/catalog``."""

    rules = {"GET": "identity:get_auth_catalog"}

    def get(self, request: Request) -> Response:
        """Return the catalog; a token without a scope has none."""
        if self.context.project_id is None and self.context.domain_id is None and not self.context.system:
            raise ForbiddenError("A token without a scope has no catalog.")
        found = shapes.catalog_of(request, self.context)
        return Response({"catalog": found, "links": fragments.self_link(request, "/auth/catalog")})


class PasswordView(ServiceView):
    """``POST /v3/users/{id}/password``.

    The current password authorizes the change, so that expired passwords can be changed.
    """

    public = True
    limited = frozenset({"POST"})
    schemas: ClassVar[Schemas] = {"POST": schemas.PASSWORD_CHANGE}

    def post(self, request: Request, user_id: str) -> Response:
        """Change a user's password, which revokes all tokens of the user."""
        body = self.checked_body()["user"]
        claimed = read_id(user_id)
        if claimed is not None:  # the password authenticates the user
            policy.enforce(RequestContext(claimed, "", None), "identity:change_password", {"user_id": claimed})
        change_password(user_id, body["original_password"], body["password"], source=client_address(request))
        return Response(status=204)
