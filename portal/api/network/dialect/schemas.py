"""JSON schemas of a resource's bodies, for the OpenAPI document."""

from portal.api.common.validation import Schema
from portal.api.network.dialect.resource import Resource

TAGS_BODY: Schema = {
    "type": "object",
    "properties": {"tags": {"type": "array", "items": {"type": "string", "maxLength": 255}, "maxItems": 50}},
    "required": ["tags"],
}


def new_body(resource: Resource) -> Schema:
    """Return the schema of one new object, or of a list of them."""
    one = {
        "type": "object",
        "properties": {each.name: each.kind.schema for each in resource.attributes if each.post},
        "required": [each.name for each in resource.attributes if each.required],
        "additionalProperties": False,
    }
    return {
        "anyOf": [
            {"type": "object", "properties": {resource.name: one}, "required": [resource.name]},
            {
                "type": "object",
                "properties": {resource.plural: {"type": "array", "items": one, "minItems": 1}},
                "required": [resource.plural],
            },
        ]
    }


def changes_body(resource: Resource) -> Schema:
    """Return the schema of a change."""
    changes = {
        "type": "object",
        "properties": {each.name: each.kind.schema for each in resource.attributes if each.put},
        "additionalProperties": False,
    }
    return {"type": "object", "properties": {resource.name: changes}, "required": [resource.name]}
