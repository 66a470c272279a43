"""``/v3/auth/tokens``: issue, validate and revoke tokens."""

from collections.abc import Callable
from typing import Any, ClassVar

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.authentication import challenge
from portal.api.common.views import Schemas, ServiceView
from portal.api.frame.parts import Call, Shape, parts
from portal.api.identity.auth import requests, shapes
from portal.api.identity.dialect import bodies, listed, patterns
from portal.api.identity.directory.domains import DOMAIN
from portal.api.identity.directory.projects import PROJECT
from portal.common.client_address import client_address
from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, NotAuthenticatedError, NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.identity import policy
from provisioning.identity.authentication.authenticate import authenticate
from provisioning.identity.selectors.tokens import context_of
from provisioning.identity.selectors.visible_projects import domains_open_to, may_enter_system, projects_open_to
from provisioning.identity.services.passwords import change_password
from provisioning.identity.services.tokens import revoke_token
from provisioning.identity.tokens import tokens
from provisioning.identity.tokens.receipts import MoreMethodsError
from provisioning.identity.tokens.tokens import TokenData

SUBJECT = "X-Subject-Token"
NO = frozenset({"", "0", "false", "no", "off"})


class TokensView(ServiceView):
    """Tokens. The header ``X-Subject-Token`` contains the token that the request is about."""

    rules = {"HEAD": "identity:check_token"}
    public_methods = frozenset({"POST"})
    limited = frozenset({"POST"})
    schemas: ClassVar[Schemas] = {"POST": requests.AUTH}
    _subject: TokenData
    _worth: RequestContext

    def post(self, request: Request) -> Response:
        """Issue a token (201) in a header, or a receipt (401) if the user's rules require more methods."""
        try:
            token, context = authenticate(requests.v3(request, self.checked_body()["auth"]))
        except MoreMethodsError as error:
            answer = Response(shapes.receipt(error), status=401)
            answer[requests.RECEIPT], answer["WWW-Authenticate"] = error.receipt.value, challenge(request)
            answer["Cache-Control"] = "no-store"
            return answer
        return self._answer(request, token.data, context, token.value, 201)

    def arguments(self, **ids: str) -> tuple[Any, ...]:
        return (self._subject,)

    def shown(self, data: TokenData) -> Response:
        """Answer with the token that the request is about."""
        return self._answer(self.request, data, self._worth, self.request.headers[SUBJECT], 200)

    def policy_target(self) -> dict[str, object]:
        ended = self.request.method != "DELETE" and self._wants("allow_expired")
        self._subject, self._worth = subject_of(self.context, self.request.headers.get(SUBJECT, ""), ended=ended)
        return {"user_id": self._worth.user_id}

    def _wants(self, name: str) -> bool:
        return self.request.query_params.get(name, "false").lower() not in NO

    def _answer(self, request: Request, data: TokenData, context: RequestContext, value: str, status: int) -> Response:
        with_catalog = "nocatalog" not in request.query_params
        body = shapes.token(request, data, context, catalog=with_catalog)
        response = Response(body, status=status)
        response[SUBJECT] = value
        response["Cache-Control"] = "no-store"
        return response


def subject_of(caller: RequestContext, value: str, *, ended: bool = False) -> tuple[TokenData, RequestContext]:
    """Return the subject token and its current context. Raises NotFoundError if it is invalid.

    ``ended``: accept an expired token, if the caller may validate expired tokens.
    """
    ended = ended and policy.allows(caller, "novella:validate_expired_token")
    try:
        data = tokens.read(value, ended=ended)
        return data, context_of(data)
    except NotAuthenticatedError as error:
        raise NotFoundError("Could not find token.") from error


def _catalog(context: RequestContext) -> RequestContext:
    """Return the caller. Raises ForbiddenError for a token without a scope."""
    if context.project_id is None and context.domain_id is None and not context.system:
        raise ForbiddenError("A token without a scope has no catalog.")
    return context


def _linked(name: str, entries: Callable[[Any, Any], object]) -> Shape:
    """Return a shape with the entries and a link to the request's path."""
    return lambda view, found: {
        name: entries(view, found),
        "links": bodies.self_link(view.request, bodies.own_path(view.request)),
    }


class PasswordView(ServiceView):
    """``POST /v3/users/{id}/password``.

    The current password authorizes the change, so that expired passwords can be changed.
    """

    public = True
    limited = frozenset({"POST"})
    schemas: ClassVar[Schemas] = {"POST": requests.PASSWORD_CHANGE}

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
            TokensView,
            "auth/tokens",
            {
                "GET": Call(
                    lambda subject: subject,
                    "identity:validate_token",
                    "Show a valid token, or with ``allow_expired`` an expired token; 404 for any other token.",
                    shape=TokensView.shown,
                ),
                "DELETE": Call(
                    revoke_token,
                    "identity:revoke_token",
                    "Revoke a token and all tokens that were obtained with it.",
                ),
            },
        )
    ),
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
