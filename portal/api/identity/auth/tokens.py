"""``/v3/auth/tokens``: issue, validate and revoke tokens; tokens as the Identity APIs v3 and v2.0 describe them."""

import uuid
from collections.abc import Callable
from datetime import UTC
from typing import Any

from rest_framework.request import Request
from rest_framework.response import Response

from portal.api.frame import Call, Json, ServiceView, Shape, challenge, parts, public_url
from portal.api.identity.auth import requests
from portal.api.identity.dialect import listed, lists, patterns
from portal.api.identity.directory.domains import DOMAIN
from portal.api.identity.directory.projects import PROJECT
from portal.common.http.client_address import client_address
from provisioning.common.context import RequestContext
from provisioning.common.errors import ForbiddenError, NotAuthenticatedError, NotFoundError
from provisioning.common.values.ids import read_id
from provisioning.identity import policy
from provisioning.identity.authentication.authenticate import authenticate
from provisioning.identity.models import Domain, Project, User
from provisioning.identity.selectors.catalog import catalog_for
from provisioning.identity.selectors.credentials import application_credential_by, trust_of_token
from provisioning.identity.selectors.lookups import by_id, existing, role_records
from provisioning.identity.selectors.project_tree import domains_open_to, may_enter_system, projects_open_to
from provisioning.identity.selectors.tokens import context_of
from provisioning.identity.services.passwords import change_password
from provisioning.identity.services.tokens import revoke_token
from provisioning.identity.tokens import tokens
from provisioning.identity.tokens.receipts import MoreMethodsError
from provisioning.identity.tokens.tokens import TokenData


def token_shape(request: Request, data: TokenData, context: RequestContext, *, catalog: bool) -> Json:
    """Return the body that describes a token; ``context`` has its current rights."""
    user = existing(User, (context.user_id or data.user_id).hex)
    body: Json = {
        "methods": list(data.methods),
        "user": lists.named_in_domain(user) | {"password_expires_at": lists.expiry(user)},
        "audit_ids": data.audit_ids,
        "expires_at": lists.time_of(data.expires_at),
        "issued_at": lists.time_of(data.issued_at),
        **_scope(data),
    }
    if is_scoped(data):
        body["roles"] = [lists.named(role) for role in role_records(context.roles)]
        if catalog:
            body["catalog"] = catalog_of(request, data)
    if data.trust is not None:
        body["OS-TRUST:trust"] = _trust(data.trust)
    if data.application_credential is not None:
        body["application_credential"] = _credential(data, context)
    return {"token": body}


def receipt_shape(error: MoreMethodsError) -> Json:
    """Return the body with the methods that succeeded and the rules of the user that are still to be met."""
    found = error.receipt
    described = {
        "methods": list(found.methods),
        "user": lists.named_in_domain(error.user),
        "expires_at": lists.time_of(found.expires_at),
        "issued_at": lists.time_of(found.issued_at),
    }
    return {"receipt": described, "required_auth_methods": error.required}


def is_scoped(data: TokenData) -> bool:
    """Whether the token is for a project, a domain or the system."""
    return data.project_id is not None or data.domain_id is not None or data.system


def catalog_of(request: Request, data: TokenData | RequestContext) -> list[Json]:
    return catalog_for(data.project_id, public_url=public_url(request))


def access_shape(request: Request, value: str, data: TokenData, context: RequestContext) -> Json:
    """Return the body that describes a token in the Identity API v2.0."""
    user = existing(User, data.user_id.hex)
    roles = role_records(context.roles)
    described: Json = {
        "id": value,
        "issued_at": lists.time_of(data.issued_at),
        "expires": data.expires_at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "audit_ids": data.audit_ids,
    }
    if data.project_id is not None:
        described["tenant"] = tenant_shape(existing(Project, data.project_id.hex))
    return {
        "access": {
            "token": described,
            "user": {
                "id": user.id.hex,
                "name": user.name,
                "username": user.name,
                "roles": [{"name": role.name} for role in roles],
                "roles_links": [],
            },
            "serviceCatalog": services_v2(request, data) if data.project_id is not None else [],
            "metadata": {"is_admin": 0, "roles": [role.id.hex for role in roles]},
        }
    }


def tenant_shape(record: Project) -> Json:
    """Return a project in the format of the Identity API v2.0."""
    return {
        "id": record.id.hex,
        "name": record.name,
        "description": record.description,
        "enabled": record.enabled,
    }


def services_v2(request: Request, data: TokenData) -> list[Json]:
    """Return the catalog in the format of v2.0: one entry for each region, with an address for each interface."""
    result = []
    for service in catalog_of(request, data):
        regions: dict[str, Json] = {}
        for endpoint in service["endpoints"]:
            place = regions.setdefault(endpoint["region"] or "", {"id": endpoint["id"], "region": endpoint["region"]})
            place[f"{endpoint['interface']}URL"] = endpoint["url"]
        if regions:
            result.append({
                "name": service["name"],
                "type": service["type"],
                "endpoints": list(regions.values()),
                "endpoints_links": [],
            })  # fmt: skip
    return result


def _scope(data: TokenData) -> Json:
    if data.project_id is not None:
        return {
            "project": lists.named_in_domain(existing(Project, data.project_id.hex)),
            "is_domain": False,
        }
    if data.domain_id is not None:
        domain = by_id(Domain, data.domain_id)
        return {"domain": lists.named(domain)} if domain is not None else {}
    return {"system": {"all": True}} if data.system else {}


def _trust(trust_id: uuid.UUID) -> Json:
    found = trust_of_token(trust_id)
    return {
        "id": found.id.hex,
        "trustor_user": {"id": found.trustor_id.hex},
        "trustee_user": {"id": found.trustee_id.hex},
        "impersonation": found.impersonation,
    }


def _credential(data: TokenData, context: RequestContext) -> Json:
    """Return the application credential as keystonemiddleware reads it; its access rules limit the token's requests."""
    assert data.application_credential is not None  # noqa: S101 - the caller has checked it
    record = application_credential_by(credential_id=data.application_credential.hex)
    name = record.name if record is not None else ""
    shape: Json = {"id": data.application_credential.hex, "name": name, "restricted": not context.unrestricted}
    if context.access_rules is not None and record is not None:
        shape["access_rules"] = [
            {"id": rule.id.hex, "service": rule.service, "method": rule.method, "path": rule.path}
            for rule in record.access_rules.order_by("service", "path", "method")
        ]
    return shape


SUBJECT = "X-Subject-Token"
NO = frozenset({"", "0", "false", "no", "off"})


class TokensView(ServiceView):
    """Tokens. The header ``X-Subject-Token`` contains the token that the request is about."""

    rules = {"HEAD": "identity:check_token"}
    public_methods = frozenset({"POST"})
    limited = frozenset({"POST"})
    schemas = {"POST": requests.AUTH}
    _subject: TokenData
    _worth: RequestContext

    def post(self, request: Request) -> Response:
        """Issue a token (201) in a header, or a receipt (401) if the user's rules require more methods."""
        try:
            token, context = authenticate(requests.v3(request, self.checked_body()["auth"]))
        except MoreMethodsError as error:
            answer = Response(receipt_shape(error), status=401)
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
        body = token_shape(request, data, context, catalog=with_catalog)
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
        "links": lists.self_link(view.request, lists.own_path(view.request)),
    }


class PasswordView(ServiceView):
    """``POST /v3/users/{id}/password``.

    The current password authorizes the change, so that expired passwords can be changed.
    """

    public = True
    limited = frozenset({"POST"})
    schemas = {"POST": requests.PASSWORD_CHANGE}

    def post(self, request: Request, user_id: str) -> None:
        """Change a user's password, which revokes all tokens of the user."""
        body = self.checked_body()["user"]
        claimed = read_id(user_id)
        if claimed is not None:  # the password authenticates the user
            policy.enforce(RequestContext(claimed, "", None), "identity:change_password", {"user_id": claimed})
        change_password(user_id, body["original_password"], body["password"], source=client_address(request))


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
                    shape=_linked("catalog", lambda view, context: catalog_of(view.request, context)),
                ),
            },
        )
    ),
    "/users/(?P<user_id>[^/]+)/password": PasswordView,
}
