"""JSON schemas of requests about compute services."""

from portal.api.compute.schemas import BOOLEAN, HOST, TEXT, Schema, Version, query

BY_ID = (2, 53)
"""From this version on services are identified by UUID."""
FORCED_DOWN = (2, 11)
_WORD: Schema = {"type": "string", "minLength": 1, "maxLength": 255}


def update(version: Version) -> Schema:
    """Return the schema of ``PUT /os-services/{id}``, and before 2.53 of ``PUT /os-services/enable`` and similar
    paths.
    """
    properties: Schema = {"disabled_reason": _WORD}
    if version >= FORCED_DOWN:
        properties["forced_down"] = BOOLEAN
    required = []
    if version >= BY_ID:
        properties["status"] = {"enum": ["enabled", "disabled"]}
    else:
        properties |= {"host": HOST, "binary": _WORD}
        required = ["host", "binary"]
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def listing(version: Version) -> Schema:
    """Return the schema of the query of ``GET /os-services``."""
    return query(version, {"host": TEXT, "binary": TEXT})
