"""JSON schemas of requests about limits (Identity API v3, "Unified Limits")."""

from typing import Any

Schema = dict[str, Any]

MOST = 1000
"""Maximum number of limits that one request creates."""
_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 64}
_ID_OR_NULL: Schema = _ID | {"type": ["string", "null"]}
_REGION: Schema = {"type": ["string", "null"], "minLength": 1, "maxLength": 255}
_RESOURCE: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"\S"}
_NUMBER: Schema = {"type": "integer", "minimum": -1, "maximum": 0x7FFFFFFF}
_TEXT: Schema = {"type": ["string", "null"], "maxLength": 255}

_REGISTERED: Schema = {
    "service_id": _ID,
    "region_id": _REGION,
    "resource_name": _RESOURCE,
    "default_limit": _NUMBER,
    "description": _TEXT,
}
_CHANGES: Schema = {"resource_limit": _NUMBER, "description": _TEXT}
_LIMIT: Schema = _CHANGES | {
    "service_id": _ID,
    "region_id": _REGION,
    "resource_name": _RESOURCE,
    "project_id": _ID_OR_NULL,
    "domain_id": _ID_OR_NULL,
}


def _object(properties: Schema, *required: str) -> Schema:
    return {"type": "object", "properties": properties, "required": list(required), "additionalProperties": False}


def _several(name: str, properties: Schema, *required: str) -> Schema:
    items = {"type": "array", "items": _object(properties, *required), "minItems": 1, "maxItems": MOST}
    return _object({name: items}, name)


REGISTERED_CREATE = _several("registered_limits", _REGISTERED, "service_id", "resource_name", "default_limit")
"""``POST /v3/registered_limits``."""
REGISTERED_UPDATE = _object({"registered_limit": _object(_REGISTERED)}, "registered_limit")
"""``PATCH /v3/registered_limits/{id}``."""
CREATE = _several("limits", _LIMIT, "service_id", "resource_name", "resource_limit")
"""``POST /v3/limits``; each limit belongs to a project or a domain."""
UPDATE = _object({"limit": _object(_CHANGES)}, "limit")
"""``PATCH /v3/limits/{id}``."""
