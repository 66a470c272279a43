"""JSON schemas of requests about EC2 keys (Identity API v3)."""

from typing import Any

Schema = dict[str, Any]

_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 64}
_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
_TEXT: Schema = {"type": "string", "maxLength": 65_535}


def _object(properties: Schema, required: list[str] | None = None) -> Schema:
    return {
        "type": "object",
        "properties": properties,
        "required": required or [],
        "additionalProperties": False,
    }


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
