"""JSON schemas of requests about regions, services and endpoints (Identity API v3, "Service catalog")."""

from typing import Any

from provisioning.identity.catalog import INTERFACES, LONGEST_URL

Schema = dict[str, Any]

_ID: Schema = {"type": "string", "minLength": 1, "maxLength": 255}
_ID_OR_NULL: Schema = {"type": ["string", "null"], "minLength": 1, "maxLength": 255}
_DESCRIPTION: Schema = {"type": ["string", "null"], "maxLength": 65_535}
_ENABLED: Schema = {"type": "boolean"}

_REGION: Schema = {
    "id": {"type": ["string", "null"], "maxLength": 255},
    "description": _DESCRIPTION,
    "parent_region_id": _ID_OR_NULL,
}
_SERVICE: Schema = {
    "type": _ID,
    "name": {"type": ["string", "null"], "maxLength": 255},
    "description": _DESCRIPTION,
    "enabled": _ENABLED,
}
_ENDPOINT: Schema = {
    "interface": {"enum": list(INTERFACES)},
    "url": {"type": "string", "minLength": 1, "maxLength": LONGEST_URL},
    "service_id": _ID,
    "region_id": _ID_OR_NULL,
    "region": _ID_OR_NULL,
    "enabled": _ENABLED,
}


def _body(name: str, properties: Schema, *required: str) -> Schema:
    inner = {"type": "object", "properties": properties, "required": list(required), "propertyNames": {"maxLength": 64}}
    return {"type": "object", "properties": {name: inner}, "required": [name], "additionalProperties": False}


REGION_CREATE = _body("region", _REGION)
"""``POST /v3/regions``."""
REGION_UPDATE = _body("region", _REGION)
"""``PATCH /v3/regions/{id}``."""
SERVICE_CREATE = _body("service", _SERVICE, "type")
"""``POST /v3/services``."""
SERVICE_UPDATE = _body("service", _SERVICE)
"""``PATCH /v3/services/{id}``."""
ENDPOINT_CREATE = _body("endpoint", _ENDPOINT, "interface", "url", "service_id")
"""``POST /v3/endpoints``; ``region`` is the older name of ``region_id``."""
ENDPOINT_UPDATE = _body("endpoint", _ENDPOINT)
"""``PATCH /v3/endpoints/{id}``."""

_POLICY: Schema = {
    "type": {"type": "string", "maxLength": 255},
    "blob": {"type": "string", "maxLength": 65_535},
}
POLICY_CREATE = _body("policy", _POLICY, "blob", "type")
"""``POST /v3/policies``."""
POLICY_UPDATE = _body("policy", _POLICY)
"""``PATCH /v3/policies/{id}``."""
POLICY_UPDATE["properties"]["policy"]["minProperties"] = 1

_ENDPOINT_GROUP: Schema = {
    "name": _ID | {"pattern": r"\S"},
    "description": _DESCRIPTION,
    "filters": {
        "type": "object",
        "properties": {
            "interface": _ENDPOINT["interface"],
            "service_id": _ID,
            "region_id": _ID_OR_NULL,
            "enabled": _ENABLED,
        },
        "additionalProperties": False,
    },
}


def _group(properties: Schema, *required: str) -> Schema:
    body = _body("endpoint_group", properties, *required)
    body["properties"]["endpoint_group"] |= {"additionalProperties": False, "minProperties": 1}
    return body


ENDPOINT_GROUP_CREATE = _group(_ENDPOINT_GROUP, "name", "filters")
"""``POST /v3/OS-EP-FILTER/endpoint_groups``."""
_OR_NULL = {
    name: _ENDPOINT_GROUP[name] | {"type": [_ENDPOINT_GROUP[name]["type"], "null"]} for name in ("name", "filters")
}
ENDPOINT_GROUP_UPDATE = _group(_ENDPOINT_GROUP | _OR_NULL)
"""``PATCH /v3/OS-EP-FILTER/endpoint_groups/{id}``."""
