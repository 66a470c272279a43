"""JSON schemas of requests about credentials and application credentials (Identity API v3)."""

from typing import Any

Schema = dict[str, Any]

_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 64}
_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
_SECRET: Schema = {"type": ["string", "null"], "minLength": 1, "maxLength": 1024}
_TEXT: Schema = {"type": "string", "maxLength": 65_535}


def _object(properties: Schema, required: list[str] | None = None) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": required or [],
        "additionalProperties": False,
    }


def _in(name: str, schema: Schema) -> Schema:
    """Return the schema of a body that contains only this object under its name."""
    return _object({name: schema}, [name])


_ROLE = _object({"id": _ID, "name": _NAME, "domain": _object({"id": _ID, "name": _NAME})})
_ACCESS_RULE = _object(
    {
        "id": _ID,
        "service": {"type": "string", "minLength": 1, "maxLength": 64},
        "method": {"enum": ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE"]},
        "path": {"type": "string", "minLength": 1, "maxLength": 128},
    }
)

APPLICATION_CREDENTIAL = _in(
    "application_credential",
    _object(
        {
            "name": _NAME,
            "description": {"type": ["string", "null"], "maxLength": 65_535},
            "secret": _SECRET,
            "roles": {"type": ["array", "null"], "items": _ROLE, "maxItems": 100},
            "expires_at": {"type": ["string", "null"], "maxLength": 64},
            "unrestricted": {"type": ["boolean", "null"]},
            "access_rules": {"type": ["array", "null"], "items": _ACCESS_RULE, "maxItems": 100},
            "project_id": _ID,
        },
        ["name"],
    ),
)
"""``POST /v3/users/{id}/application_credentials``; ``project_id`` may be specified if it is the project of the token.
"""

_CREDENTIAL: Schema = {
    "type": _NAME,
    "blob": {"type": "string", "minLength": 1, "maxLength": 65_535},
    "project_id": {"type": ["string", "null"], "minLength": 1, "maxLength": 64},
    "user_id": _ID,
}
CREDENTIAL = _in("credential", _object(_CREDENTIAL, ["type", "blob"]))
"""``POST /v3/credentials``."""
CREDENTIAL_CHANGE = _in("credential", _object(_CREDENTIAL) | {"minProperties": 1})
"""``PATCH /v3/credentials/{id}``."""

EC2_CREDENTIAL = _object({"tenant_id": _ID, "trust_id": {"type": "null"}}, ["tenant_id"])
"""``POST /v3/users/{id}/credentials/OS-EC2``."""

_TEXTS: Schema = {
    "type": "object",
    "additionalProperties": {"type": ["string", "number", "boolean"]},
    "maxProperties": 500,
}
_SIGNED = _object(
    {
        "access": _NAME,
        "signature": _NAME,
        "host": {"type": "string", "maxLength": 255},
        "verb": {"type": "string", "maxLength": 16},
        "path": {"type": "string", "maxLength": 8192},
        "params": _TEXTS,
        "headers": _TEXTS,
        "body_hash": {"type": "string", "maxLength": 255},
    },
    ["access", "signature", "host", "verb", "path"],
)
EC2_TOKEN: Schema = {
    **_object(dict.fromkeys(("credentials", "credential", "ec2Credentials"), _SIGNED)),
    "minProperties": 1,
    "maxProperties": 1,
}
"""``POST /v3/ec2tokens``: the signed request, under one of three names."""
_TEXT_SIGNED = _object({"access": _NAME, "signature": _NAME, "token": _TEXT}, ["access", "signature", "token"])
S3_TOKEN: Schema = {
    **_object({"credentials": _TEXT_SIGNED, "credential": _TEXT_SIGNED}),
    "minProperties": 1,
    "maxProperties": 1,
}
"""``POST /v3/s3tokens``: ``token`` is the signed string in base64."""
