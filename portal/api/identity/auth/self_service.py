"""``/v3/auth/…`` and password changes: operations of authenticated users on their own account."""

from collections.abc import Callable
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import Schemas, ServiceView
from portal.api.frame.parts import Call, Shape, parts
from portal.api.identity import fragments
from portal.api.identity.auth import schemas, shapes
from portal.api.identity.dialect import listed, patterns
from portal.api.identity.directory.domains import DOMAIN
from portal.api.identity.directory.projects import PROJECT
from portal.common.client_address import client_address
from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError
from provisioning.common.ids import read_id
from provisioning.identity import policy
from provisioning.identity.selectors.visible_projects import domains_open_to, may_enter_system, projects_open_to
from provisioning.identity.services.passwords import change_password


def _catalog(context: RequestContext) -> RequestContext:
    """Return the caller; ForbiddenError for a token without a scope."""
    if context.project_id is None and context.domain_id is None and not context.system:
        raise ForbiddenError("A token without a scope has no catalog.")
    return context


def _linked(name: str, entries: Callable[[Any, Any], object]) -> Shape:
    """Return a shape with the entries and a link to the request's path."""
    return lambda view, found: {
        name: entries(view, found),
        "links": fragments.self_link(view.request, fragments.own_path(view.request)),
    }


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


ROUTES: dict[str, type[ServiceView]] = {
    **patterns(
        parts(
            ServiceView,
            "auth/",
            {
                "GET projects": Call(
                    projects_open_to,
                    "identity:get_auth_projects",
                    "List the projects that this token can be rescoped to.",
                    shape=listed(PROJECT),
                ),
                "GET domains": Call(
                    domains_open_to,
                    "identity:get_auth_domains",
                    "List the domains that this token can be rescoped to.",
                    shape=listed(DOMAIN),
                ),
                "GET system": Call(
                    may_enter_system,
                    "identity:get_auth_system",
                    "Return whether this token can be rescoped to the system.",
                    shape=_linked("system", lambda view, may_enter: [{"all": True}] if may_enter else []),
                ),
                "GET catalog": Call(
                    _catalog,
                    "identity:get_auth_catalog",
                    "Return the catalog; a token without a scope has none.",
                    shape=_linked("catalog", lambda view, context: shapes.catalog_of(view.request, context)),
                ),
            },
        )
    ),
    "/users/(?P<user_id>[^/]+)/password": PasswordView,
}
