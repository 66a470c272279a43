"""JSON schemas of requests about aggregates."""

from portal.api.compute.schemas import Schema, body
from portal.api.compute.services.schemas import HOST

NAME: Schema = {"type": "string", "minLength": 1, "maxLength": 255, "pattern": r"^(?!\s)[^\x00-\x1f\x7f]*(?<!\s)\Z"}
"""A name without leading or trailing blanks."""
_ZONE: Schema = {
    "type": ["string", "null"],
    "minLength": 1,
    "maxLength": 255,
    "pattern": r"^(?!\s)[^:\x00-\x1f\x7f]*(?<!\s)\Z",
}
_METADATA: Schema = {
    "type": "object",
    "patternProperties": {r"^[a-zA-Z0-9_:. -]{1,255}\Z": {"type": ["string", "null"], "maxLength": 255}},
    "additionalProperties": False,
}
CREATE = body("aggregate", {"name": NAME, "availability_zone": _ZONE}, ("name",))
UPDATE = body(
    "aggregate",
    {"name": {"type": "string", "minLength": 1, "maxLength": 255}, "availability_zone": _ZONE},
)
UPDATE["properties"]["aggregate"]["anyOf"] = [{"required": ["name"]}, {"required": ["availability_zone"]}]
ACTIONS: dict[str, Schema] = {
    "add_host": body("add_host", {"host": HOST}, ("host",)),
    "remove_host": body("remove_host", {"host": HOST}, ("host",)),
    "set_metadata": body("set_metadata", {"metadata": _METADATA}, ("metadata",)),
}
"""The body of each action."""
ACTION: Schema = {"oneOf": [*ACTIONS.values()]}
IMAGES: Schema = {
    "type": "object",
    "properties": {
        "cache": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {"id": {"type": "string", "format": "uuid"}},
                "required": ["id"],
                "additionalProperties": False,
            },
        }
    },
    "required": ["cache"],
    "additionalProperties": False,
}
