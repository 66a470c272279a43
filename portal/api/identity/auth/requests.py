"""Reads a token request: the authentication methods and the requested scope."""

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from rest_framework.request import Request

from portal.common.client_address import client_of
from provisioning.common.errors import InvalidInputError, NotAuthenticatedError
from provisioning.identity.authenticate import (
    AuthRequest,
    CredentialProof,
    DomainScope,
    PasswordProof,
    ProjectScope,
    Scope,
    TrustScope,
)
from provisioning.identity.services.passcodes import PasscodeProof

METHODS = frozenset({"password", "token", "application_credential"})
RECEIPT = "Openstack-Auth-Receipt"
FIRST_DOMAIN = "default"
"""The domain of users of v2.0."""
Body = dict[str, Any]


class UnsupportedMethodError(NotAuthenticatedError):
    """An unsupported authentication method; ``identity`` has the supported methods, as in Keystone's fault."""

    code = "unsupported_method"

    def __init__(self, offered: Iterable[str]) -> None:
        """Set Keystone's message."""
        self.identity = {"methods": sorted(offered)}
        super().__init__("Attempted to authenticate with an unsupported method.")


def v3(request: Request, auth: Body) -> AuthRequest:
    """Convert the body of ``POST /v3/auth/tokens``; every method in ``methods`` must have its own block."""
    identity = auth["identity"]
    methods = tuple(dict.fromkeys(identity["methods"]))
    offered = METHODS | ({"totp"} if settings.TOTP else set())
    if not offered.issuperset(methods):
        raise UnsupportedMethodError(offered)
    for method in methods:
        if method not in identity:
            raise expecting(method, "identity")
    given: Body = {method: identity[method] for method in methods}
    return AuthRequest(
        methods=methods,
        scope=_scope(auth.get("scope")),
        client=client_of(request),
        password=_password(given["password"]["user"]) if "password" in given else None,
        token=given["token"]["id"] if "token" in given else None,
        passcode=_passcode(given["totp"]["user"]) if "totp" in given else None,
        application_credential=(
            _credential(given["application_credential"]) if "application_credential" in given else None
        ),
        receipt=request.headers.get(RECEIPT),
    )


def v2(request: Request, auth: Body) -> AuthRequest:
    """Convert the body of ``POST /v2.0/tokens``: a password or a token, and optionally the tenant by id or name."""
    if ("passwordCredentials" in auth) == ("token" in auth):
        raise expecting("passwordCredentials or token", "auth")
    tenant_id, tenant_name = auth.get("tenantId"), auth.get("tenantName")
    scope: Scope = "unscoped"
    if tenant_id:
        scope = ProjectScope(project_id=tenant_id)
    elif tenant_name:
        scope = ProjectScope(name=tenant_name, domain_id=FIRST_DOMAIN)
    client = client_of(request)
    if "token" in auth:
        return AuthRequest(("token",), scope, client, token=auth["token"]["id"], only_domain=FIRST_DOMAIN)
    given = auth["passwordCredentials"]
    if "userId" in given:
        proof = PasswordProof(given["password"], user_id=given["userId"])
    elif "username" in given:
        proof = PasswordProof(given["password"], user_name=given["username"], domain_id=FIRST_DOMAIN)
    else:
        raise expecting("username or userId", "passwordCredentials")
    return AuthRequest(("password",), scope, client, proof, only_domain=FIRST_DOMAIN)


def _password(user: Body) -> PasswordProof:
    return PasswordProof(user["password"], **_user(user, "user"))


def _passcode(user: Body) -> PasscodeProof:
    return PasscodeProof(user["passcode"], **_user(user, "user"))


def _credential(given: Body) -> CredentialProof:
    if "id" in given:
        return CredentialProof(given["secret"], credential_id=given["id"])
    if "name" not in given:
        raise expecting("id or name", "application_credential")
    if "user" not in given:
        raise expecting("user", "application_credential")
    return CredentialProof(given["secret"], name=given["name"], **_user(given["user"], "user"))


def _user(user: Body, what: str) -> dict[str, str | None]:
    if "id" in user:
        return {"user_id": user["id"]}
    if "name" not in user:
        raise expecting("id or name", what)
    domain_id, domain_name = _domain(user, what)
    return {"user_name": user["name"], "domain_id": domain_id, "domain_name": domain_name}


def _scope(scope: Any) -> Scope:
    if scope is None:
        return "default"
    if scope == "unscoped" or "unscoped" in scope:
        return "unscoped"
    if "system" in scope:
        return "system"
    if "domain" in scope:
        domain_id, domain_name = _domain(scope, "scope")
        return DomainScope(domain_id, domain_name)
    if "OS-TRUST:trust" in scope:
        return TrustScope(scope["OS-TRUST:trust"]["id"])
    project = scope["project"]
    if "id" in project:
        return ProjectScope(project_id=project["id"])
    if "name" not in project:
        raise expecting("id or name", "project")
    domain_id, domain_name = _domain(project, "project")
    return ProjectScope(name=project["name"], domain_id=domain_id, domain_name=domain_name)


def _domain(owner: Body, what: str) -> tuple[str | None, str | None]:
    """Return id and name of the domain, one of which is specified."""
    domain = owner.get("domain", {})
    if "id" not in domain and "name" not in domain:
        raise expecting("domain", what)
    return domain.get("id"), domain.get("name")


def expecting(name: str, place: str) -> InvalidInputError:
    """Return the error for a missing member, with Keystone's message."""
    return InvalidInputError(
        f"Expecting to find {name} in {place}. The server could not comply with the request since it is either "
        "malformed or otherwise incorrect. The client is assumed to be in error.",
        field=name,
    )
