"""Reads a token request: the authentication methods and the requested scope."""

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from rest_framework.request import Request

from portal.api.frame import Json, Schema
from portal.common.http.client_address import client_of
from provisioning.common.errors import InvalidInputError, NotAuthenticatedError
from provisioning.identity.authentication import authenticate
from provisioning.identity.services.passcodes import PasscodeProof

_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 64}
_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
_PASSWORD: Schema = {"type": "string", "maxLength": 4096}
_TOKEN: Schema = {"type": "string", "minLength": 1, "maxLength": 4096}


def _object(properties: Schema, required: list[str] | None = None) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": required or [],
        "additionalProperties": False,
    }


def _open(properties: Schema, required: list[str] | None = None) -> Schema:
    """Return the schema of a part of ``auth``; unknown members are ignored, as in Keystone."""
    return _object(properties, required) | {"additionalProperties": True}


_DOMAIN = _open({"id": _ID, "name": _NAME})
_USER: Schema = {"id": _ID, "name": _NAME, "domain": _DOMAIN}

_SCOPE: Schema = {
    "type": "object",
    "properties": {
        "project": _open({"id": _ID, "name": _NAME, "domain": _DOMAIN}),
        "domain": _DOMAIN,
        "system": _open({"all": {"const": True}}, ["all"]),
        "OS-TRUST:trust": _open({"id": _ID}, ["id"]),
        "unscoped": {"type": "object"},
    },
    "oneOf": [{"required": [name]} for name in ("project", "domain", "system", "OS-TRUST:trust", "unscoped")],
}
"""Exactly one of Keystone's scopes."""

AUTH = _open(
    {
        "auth": _open(
            {
                "identity": {
                    "type": "object",
                    "properties": {
                        "methods": {"type": "array", "items": _NAME, "minItems": 1, "maxItems": 10},
                        "password": _open({"user": _open({**_USER, "password": _PASSWORD}, ["password"])}, ["user"]),
                        "totp": _open({"user": _open({**_USER, "passcode": _NAME}, ["passcode"])}, ["user"]),
                        "token": _open({"id": _TOKEN}, ["id"]),
                        "application_credential": _open(
                            {"id": _ID, "name": _NAME, "secret": _PASSWORD, "user": _open(_USER)}, ["secret"]
                        ),
                    },
                    "required": ["methods"],
                },
                "scope": {"if": {"type": "string"}, "then": {"enum": ["unscoped"]}, "else": _SCOPE},
            },
            ["identity"],
        )
    },
    ["auth"],
)
"""``POST /v3/auth/tokens``. Blocks of unsupported methods are allowed; a request with such a method in ``methods`` is
rejected.
"""

PASSWORD_CHANGE = _object(
    {"user": _object({"original_password": _PASSWORD, "password": _PASSWORD}, ["original_password", "password"])},
    ["user"],
)
"""``POST /v3/users/{id}/password``."""

_TENANT: Schema = {"type": ["string", "null"], "maxLength": 255}

AUTH_V2 = _object(
    {
        "auth": _object(
            {
                "passwordCredentials": _object({"username": _NAME, "userId": _ID, "password": _PASSWORD}, ["password"]),
                "token": _object({"id": _TOKEN}, ["id"]),
                "tenantId": _TENANT,
                "tenantName": _TENANT,
            }
        )
    },
    ["auth"],
)
"""``POST /v2.0/tokens``."""


METHODS = frozenset({"password", "token", "application_credential"})
RECEIPT = "Openstack-Auth-Receipt"
FIRST_DOMAIN = "default"
"""The domain of users of v2.0."""


class UnsupportedMethodError(NotAuthenticatedError):
    """An unsupported authentication method; ``identity`` has the supported methods, as in Keystone's fault."""

    code = "unsupported_method"

    def __init__(self, offered: Iterable[str]) -> None:
        """Set Keystone's message."""
        self.identity = {"methods": sorted(offered)}
        super().__init__("Attempted to authenticate with an unsupported method.")


def v3(request: Request, auth: Json) -> authenticate.AuthRequest:
    """Convert the body of ``POST /v3/auth/tokens``; every method in ``methods`` must have its own block."""
    identity = auth["identity"]
    methods = tuple(dict.fromkeys(identity["methods"]))
    offered = METHODS | ({"totp"} if settings.TOTP else set())
    if not offered.issuperset(methods):
        raise UnsupportedMethodError(offered)
    for method in methods:
        if method not in identity:
            raise expecting(method, "identity")
    methods_given: Json = {method: identity[method] for method in methods}
    return authenticate.AuthRequest(
        methods=methods,
        scope=_scope(auth.get("scope")),
        client=client_of(request),
        password=_password(methods_given["password"]["user"]) if "password" in methods_given else None,
        token=methods_given["token"]["id"] if "token" in methods_given else None,
        passcode=_passcode(methods_given["totp"]["user"]) if "totp" in methods_given else None,
        application_credential=(
            _credential(methods_given["application_credential"]) if "application_credential" in methods_given else None
        ),
        receipt=request.headers.get(RECEIPT),
    )


def v2(request: Request, auth: Json) -> authenticate.AuthRequest:
    """Convert the body of ``POST /v2.0/tokens``: a password or a token, and optionally the tenant by id or name."""
    if ("passwordCredentials" in auth) == ("token" in auth):
        raise expecting("passwordCredentials or token", "auth")
    tenant_id, tenant_name = auth.get("tenantId"), auth.get("tenantName")
    scope: authenticate.Scope = "unscoped"
    if tenant_id:
        scope = authenticate.ProjectScope(project_id=tenant_id)
    elif tenant_name:
        scope = authenticate.ProjectScope(name=tenant_name, domain_id=FIRST_DOMAIN)
    client = client_of(request)
    if "token" in auth:
        return authenticate.AuthRequest(("token",), scope, client, token=auth["token"]["id"], only_domain=FIRST_DOMAIN)
    credentials = auth["passwordCredentials"]
    if "userId" in credentials:
        proof = authenticate.PasswordProof(credentials["password"], user_id=credentials["userId"])
    elif "username" in credentials:
        proof = authenticate.PasswordProof(
            credentials["password"], user_name=credentials["username"], domain_id=FIRST_DOMAIN
        )
    else:
        raise expecting("username or userId", "passwordCredentials")
    return authenticate.AuthRequest(("password",), scope, client, proof, only_domain=FIRST_DOMAIN)


def _password(user: Json) -> authenticate.PasswordProof:
    return authenticate.PasswordProof(user["password"], **_user(user, "user"))


def _passcode(user: Json) -> PasscodeProof:
    return PasscodeProof(user["passcode"], **_user(user, "user"))


def _credential(credentials: Json) -> authenticate.CredentialProof:
    if "id" in credentials:
        return authenticate.CredentialProof(credentials["secret"], credential_id=credentials["id"])
    if "name" not in credentials:
        raise expecting("id or name", "application_credential")
    if "user" not in credentials:
        raise expecting("user", "application_credential")
    return authenticate.CredentialProof(
        credentials["secret"], name=credentials["name"], **_user(credentials["user"], "user")
    )


def _user(user: Json, what: str) -> dict[str, str | None]:
    if "id" in user:
        return {"user_id": user["id"]}
    if "name" not in user:
        raise expecting("id or name", what)
    domain_id, domain_name = _domain(user, what)
    return {"user_name": user["name"], "domain_id": domain_id, "domain_name": domain_name}


def _scope(scope: Any) -> authenticate.Scope:
    if scope is None:
        return "default"
    if scope == "unscoped" or "unscoped" in scope:
        return "unscoped"
    if "system" in scope:
        return "system"
    if "domain" in scope:
        domain_id, domain_name = _domain(scope, "scope")
        return authenticate.DomainScope(domain_id, domain_name)
    if "OS-TRUST:trust" in scope:
        return authenticate.TrustScope(scope["OS-TRUST:trust"]["id"])
    project = scope["project"]
    if "id" in project:
        return authenticate.ProjectScope(project_id=project["id"])
    if "name" not in project:
        raise expecting("id or name", "project")
    domain_id, domain_name = _domain(project, "project")
    return authenticate.ProjectScope(name=project["name"], domain_id=domain_id, domain_name=domain_name)


def _domain(owner: Json, what: str) -> tuple[str | None, str | None]:
    """Return id and name of the domain; only one of them is specified."""
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
