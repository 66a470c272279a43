"""``/v3/auth/tokens``: get a token, look into one, give one back."""

from __future__ import annotations

from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.common.views import ServiceView
from portal.api.identity import schemas, shapes
from portal.api.identity.catalog import catalog
from portal.common.client_address import client_address
from provisioning.common.errors import InvalidInputError, NotAuthenticatedError, NotFoundError
from provisioning.identity import selectors, services
from provisioning.identity.authenticate import AuthRequest, PasswordProof, ProjectScope, Scope, authenticate
from provisioning.identity.tokens import TokenData

METHODS = frozenset({"password", "token"})
SUBJECT = "X-Subject-Token"


class TokensView(ServiceView):
    """Tokens.  The one that is spoken of stands in the header ``X-Subject-Token``."""

    rules = {"GET": "identity:tokens:validate", "DELETE": "identity:tokens:revoke"}
    public_methods = frozenset({"POST"})
    _subject: TokenData

    def post(self, request: Request) -> Response:
        """Issue a token (201); its value stands in a header."""
        issued = authenticate(_auth_request(request, self.body(schemas.AUTH)["auth"]))
        return self._answer(request, issued.data, issued.value, 201)

    def get(self, request: Request) -> Response:
        """Describe a token that is good; 404 for any other."""
        return self._answer(request, self._subject, request.headers[SUBJECT], 200)

    def delete(self, request: Request) -> Response:
        """Give a token back: from now on it and all that were got by it are worth nothing."""
        services.revoke_token(self._subject)
        return Response(status=204)

    def policy_target(self) -> dict[str, object]:
        """A token is its user's."""
        try:
            self._subject = selectors.token_data(self.request.headers.get(SUBJECT, ""))
        except NotAuthenticatedError as error:
            raise NotFoundError("Could not find token.") from error
        return {"user_id": self._subject.user_id}

    def _answer(self, request: Request, data: TokenData, value: str, status: int) -> Response:
        user = selectors.existing_user(data.user_id.hex)
        project = selectors.existing_project(data.project_id.hex) if data.project_id else None
        roles = selectors.role_records(selectors.roles_of(user.id, project.id)) if project else []
        with_catalog = "nocatalog" not in request.query_params
        body = shapes.token(data, user, project, roles, catalog(request) if with_catalog else None)
        response = Response(body, status=status)
        response[SUBJECT] = value
        response["Cache-Control"] = "no-store"
        return response


def _auth_request(request: Request, auth: dict[str, Any]) -> AuthRequest:
    """Translate the checked body; what a method needs must stand beside it."""
    identity = auth["identity"]
    methods = tuple(dict.fromkeys(identity["methods"]))
    if not METHODS.issuperset(methods):
        raise NotAuthenticatedError("Attempted to authenticate with an unsupported method.")
    for method in methods:
        if method not in identity:
            raise _expecting(method, "identity")
    return AuthRequest(
        methods=methods,
        scope=_scope(auth.get("scope")),
        source=client_address(request),
        password=_password(identity["password"]["user"]) if "password" in methods else None,
        token=identity["token"]["id"] if "token" in methods else None,
    )


def _password(user: dict[str, Any]) -> PasswordProof:
    if "id" in user:
        return PasswordProof(user["password"], user_id=user["id"])
    if "name" not in user:
        raise _expecting("id or name", "user")
    domain_id, domain_name = _domain(user, "user")
    return PasswordProof(user["password"], user_name=user["name"], domain_id=domain_id, domain_name=domain_name)


def _scope(scope: Any) -> Scope:
    """Translate the scope.  Nobody has a role on a domain, the system or by a trust: such scopes lead to 401."""
    if scope is None:
        return "default"
    if scope == "unscoped" or "unscoped" in scope:
        return "unscoped"
    if "project" not in scope:
        return "impossible"
    project = scope["project"]
    if "id" in project:
        return ProjectScope(project_id=project["id"])
    if "name" not in project:
        raise _expecting("id or name", "project")
    domain_id, domain_name = _domain(project, "project")
    return ProjectScope(name=project["name"], domain_id=domain_id, domain_name=domain_name)


def _domain(owner: dict[str, Any], what: str) -> tuple[str | None, str | None]:
    """Return id and name of the domain, one of which is given."""
    domain = owner.get("domain", {})
    if "id" not in domain and "name" not in domain:
        raise _expecting("domain", what)
    return domain.get("id"), domain.get("name")


def _expecting(name: str, place: str) -> InvalidInputError:
    return InvalidInputError(
        f"Expecting to find {name} in {place}. The server could not comply with the request since it is either "
        "malformed or otherwise incorrect. The client is assumed to be in error.",
        field=name,
    )
