"""JSON schemas of requests for tokens (Identity API v3, "Authentication and token management"; and v2.0)."""

from typing import Any

Schema = dict[str, Any]

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
