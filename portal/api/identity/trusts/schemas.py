"""JSON schemas of requests about trusts (Identity API v3, "OS-TRUST")."""

from typing import Any

from portal.api.identity.queries import parameters

Schema = dict[str, Any]

_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 64}
_ROLE: Schema = {
    "type": "object",
    "properties": {"id": _ID, "name": {"type": "string", "minLength": 1, "maxLength": 255}},
    "minProperties": 1,
    "maxProperties": 1,
    "additionalProperties": False,
}

FIELDS: Schema = {
    "trustor_user_id": _ID,
    "trustee_user_id": _ID,
    "impersonation": {"type": "boolean"},
    "project_id": {"type": ["string", "null"], "maxLength": 64},
    "roles": {"type": "array", "items": _ROLE, "maxItems": 100},
    "expires_at": {"type": ["string", "null"], "maxLength": 64},
    "remaining_uses": {"type": ["integer", "null"], "minimum": 1, "maximum": 2_147_483_647},
    "allow_redelegation": {"type": ["boolean", "null"]},
    "redelegation_count": {"type": ["integer", "null"], "minimum": 0, "maximum": 2_147_483_647},
    "redelegated_trust_id": {"type": ["string", "null"], "maxLength": 64},
}
CREATE: Schema = {
    "type": "object",
    "properties": {
        "trust": {
            "type": "object",
            "properties": FIELDS,
            "required": ["trustor_user_id", "trustee_user_id", "impersonation"],
            "propertyNames": {"maxLength": 255},
        }
    },
    "required": ["trust"],
    "additionalProperties": False,
}
"""``POST /v3/OS-TRUST/trusts``; other attributes are stored unchanged."""

LIST = parameters({"trustor_user_id": {"type": "string"}, "trustee_user_id": {"type": "string"}})
"""``GET /v3/OS-TRUST/trusts``."""
