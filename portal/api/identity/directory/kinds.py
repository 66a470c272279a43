"""Kinds of values of domains, projects and users."""

from portal.api.common.validation import Schema
from portal.api.identity.dialect import Checked


def _different(items: Schema, most: int, least: int = 0) -> Schema:
    """Return the schema of a list of unique items; uniqueness is checked only within the maximum length, to limit the
    cost.
    """
    few = {"if": {"maxItems": most}, "then": {"uniqueItems": True}}
    return {"type": "array", "items": items, "minItems": least, "maxItems": most, **few}


TAGS = Checked(_different({"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^[^,/]*$"}, 80))

_METHODS = _different({"type": "string", "minLength": 1, "maxLength": 64}, 16, least=1)
_SWITCH: Schema = {"type": ["boolean", "null"]}
USER_OPTIONS = Checked(
    {
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
)
