"""JSON schemas of requests about roles (Identity API v3, "Roles")."""

from typing import Any

Schema = dict[str, Any]

NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"\S"}
DESCRIPTION: Schema = {"type": ["string", "null"], "maxLength": 65_535}

_FIELDS: Schema = {
    "name": NAME,
    "description": DESCRIPTION,
    "domain_id": {"type": ["string", "null"], "minLength": 1, "maxLength": 64},
    "options": {
        "type": "object",
        "properties": {"immutable": {"type": ["boolean", "null"]}},
        "additionalProperties": False,
    },
}


def _body(required: list[str], least: int) -> Schema:
    return {
        "type": "object",
        "properties": {
            "role": {
                "type": "object",
                "properties": _FIELDS,
                "required": required,
                "minProperties": least,
                "propertyNames": {"maxLength": 64},
            }
        },
        "required": ["role"],
        "additionalProperties": False,
    }


CREATE = _body(["name"], 1)
"""``POST /v3/roles``; other attributes are stored unchanged."""
UPDATE = _body([], 0)
"""``PATCH /v3/roles/{id}``."""
