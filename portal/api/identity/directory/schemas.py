"""JSON schemas of requests about domains, projects, users and groups (Identity API v3).

Unknown fields are stored with the record. Each known field has one type, and some known fields are read-only.
"""

from typing import Any

Schema = dict[str, Any]

_SHORT_NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 64, "pattern": r"\S"}
_LONG_NAME: Schema = _SHORT_NAME | {"maxLength": 255}
_TEXT: Schema = {"type": ["string", "null"], "maxLength": 65_535}
_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 64}
_ID_OR_NULL: Schema = _ID | {"type": ["string", "null"]}
_BOOLEAN: Schema = {"type": "boolean"}
_TAG: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^,/]*$"}


def _different(items: Schema, most: int, least: int = 0) -> Schema:
    """Return the schema of a list of unique items; uniqueness is checked only within the maximum length, to limit the
    cost.
    """
    few = {"if": {"maxItems": most}, "then": {"uniqueItems": True}}
    return {"type": "array", "items": items, "minItems": least, "maxItems": most, **few}


_TAGS = _different(_TAG, 80)
_IMMUTABLE: Schema = {
    "type": "object",
    "properties": {"immutable": {"type": ["boolean", "null"]}},
    "additionalProperties": False,
}
_METHODS = _different({"type": "string", "minLength": 1, "maxLength": 64}, 16, least=1)
_SWITCH: Schema = {"type": ["boolean", "null"]}
_USER_OPTIONS: Schema = {
    "type": "object",
    "properties": {
        "ignore_change_password_upon_first_use": _SWITCH,
        "ignore_password_expiry": _SWITCH,
        "ignore_lockout_failure_attempts": _SWITCH,
        "lock_password": _SWITCH,
        "multi_factor_auth_enabled": _SWITCH,
        "multi_factor_auth_rules": _different(_METHODS, 32) | {"type": ["array", "null"]},
    },
    "additionalProperties": False,
}


def _resource(what: str, properties: Schema, required: list[str] | None = None) -> Schema:
    """Return the schema of ``{what: {…}}`` whose object may have additional fields."""
    inner = {
        "type": "object",
        "properties": properties,
        "required": required or [],
        "propertyNames": {"maxLength": 255},
    }
    return {"type": "object", "properties": {what: inner}, "required": [what], "additionalProperties": False}


_DOMAIN: Schema = {
    "name": _SHORT_NAME,
    "description": _TEXT,
    "enabled": _BOOLEAN,
    "tags": _TAGS,
    "options": _IMMUTABLE,
}
DOMAIN_CREATE = _resource(
    "domain", _DOMAIN | {"explicit_domain_id": {"type": "string", "pattern": r"^[0-9a-f]{32}\Z"}}, ["name"]
)
DOMAIN_UPDATE = _resource("domain", _DOMAIN | {"id": _ID})

_PROJECT: Schema = {
    "name": _SHORT_NAME,
    "description": _TEXT,
    "enabled": _BOOLEAN,
    "tags": _TAGS,
    "options": _IMMUTABLE,
    "domain_id": _ID_OR_NULL,
    "parent_id": _ID_OR_NULL,
    "is_domain": _BOOLEAN,
}
PROJECT_CREATE = _resource("project", _PROJECT, ["name"])
PROJECT_UPDATE = _resource("project", _PROJECT | {"id": _ID})
PROJECT_TAGS: Schema = {
    "type": "object",
    "properties": {"tags": _TAGS},
    "required": ["tags"],
    "additionalProperties": False,
}

_USER: Schema = {
    "name": _LONG_NAME,
    "description": _TEXT,
    "enabled": _BOOLEAN,
    "email": {"type": ["string", "null"], "maxLength": 254},
    "password": {"type": ["string", "null"], "maxLength": 4096},
    "default_project_id": _ID_OR_NULL,
    "options": _USER_OPTIONS,
    "domain_id": _ID,
}
USER_CREATE = _resource("user", _USER, ["name"])
USER_UPDATE = _resource("user", _USER | {"id": _ID})

_GROUP: Schema = {"name": _SHORT_NAME, "description": _TEXT, "domain_id": _ID}
GROUP_CREATE = _resource("group", _GROUP, ["name"])
GROUP_UPDATE = _resource("group", _GROUP | {"id": _ID})
