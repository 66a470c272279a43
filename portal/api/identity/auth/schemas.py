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


_DOMAIN = _object({"id": _ID, "name": _NAME})
_USER: Schema = {"id": _ID, "name": _NAME, "domain": _DOMAIN}

_SCOPE: Schema = {
    "type": "object",
    "properties": {
        "project": _object({"id": _ID, "name": _NAME, "domain": _DOMAIN}),
        "domain": _DOMAIN,
        "system": _object({"all": {"const": True}}, ["all"]),
        "OS-TRUST:trust": _object({"id": _ID}, ["id"]),
        "unscoped": {"type": "object"},
    },
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
}

AUTH = _object(
    {
        "auth": _object(
            {
                "identity": {
                    "type": "object",
                    "properties": {
                        "methods": {"type": "array", "items": _NAME, "minItems": 1, "maxItems": 10},
                        "password": _object(
                            {"user": _object({**_USER, "password": _PASSWORD}, ["password"])}, ["user"]
                        ),
                        "totp": _object({"user": _object({**_USER, "passcode": _NAME}, ["passcode"])}, ["user"]),
                        "token": _object({"id": _TOKEN}, ["id"]),
                        "application_credential": _object(
                            {"id": _ID, "name": _NAME, "secret": _PASSWORD, "user": _object(_USER)}, ["secret"]
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
"""``POST /v3/auth/tokens``.  Blocks of methods that are not offered may stand there; naming them is refused."""

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
