"""JSON schemas of metadata definitions: the published schemas, and the schemas that validate requests."""

from typing import Any

from portal.api.image.metadefs.base import READ_ONLY
from provisioning.metadefs.models import LONGEST_NAME, MetadefNamespace

Schema = dict[str, Any]
TYPES = ["array", "boolean", "integer", "number", "object", "string"]


def _text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def _name(description: str) -> Schema:
    return _text(description, maxLength=LONGEST_NAME)


_COUNT = {"$ref": "#/definitions/positiveInteger"}
_COUNT_FROM_0 = {"$ref": "#/definitions/positiveIntegerDefault0"}
_SCALAR = {"type": ["string", "number", "boolean"]}
_CHOICES: Schema = {"type": "array", "items": _SCALAR}
_BOOL = {"type": "boolean"}
PROPERTY_FIELDS: Schema = {
    "title": _text("The name that users see"),
    "description": _text("A description of the property"),
    "type": _text("The type of its value", enum=TYPES),
    "operators": {"type": "array", "items": {"type": "string"}, "description": "Operators that a value may begin with"},
    "default": _SCALAR | {"description": "The default value"},
    "readonly": _BOOL,
    "minimum": {"type": "number"},
    "maximum": {"type": "number"},
    "enum": _CHOICES,
    "pattern": _text("A regular expression that values match", format="regex"),
    "minLength": _COUNT_FROM_0,
    "maxLength": _COUNT,
    "confidential": _BOOL,
    "items": {
        "type": "object",
        "properties": {"type": {"type": "string", "enum": TYPES}, "enum": _CHOICES},
        "required": ["type"],
        "additionalProperties": False,
    },
    "uniqueItems": _BOOL,
    "minItems": _COUNT_FROM_0,
    "maxItems": _COUNT,
    "additionalItems": _BOOL,
}
_PROPERTY: Schema = {
    "type": "object",
    "properties": PROPERTY_FIELDS,
    "required": ["title", "type"],
    "additionalProperties": False,
}
DEFINITIONS: Schema = {
    "positiveInteger": {"type": "integer", "minimum": 0},
    "positiveIntegerDefault0": {"allOf": [_COUNT, {"default": 0}]},
    "stringArray": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    "property": {
        "type": "object",
        "propertyNames": {"minLength": 1, "maxLength": LONGEST_NAME},
        "additionalProperties": _PROPERTY,
    },
}
_PROPERTIES = {"$ref": "#/definitions/property"}


def _moments(what: str) -> Schema:
    return {
        "created_at": _text(f"The time at which the {what} was created", readOnly=True, format="date-time"),
        "updated_at": _text(f"The time at which the {what} was last updated", readOnly=True, format="date-time"),
    }


_LINKS: Schema = {
    "self": {"type": "string", "readOnly": True},
    "schema": {"type": "string", "readOnly": True},
}
OBJECT_FIELDS: Schema = {
    "name": _name("The object's name"),
    "description": _text("A description of the object"),
    "required": {"$ref": "#/definitions/stringArray"},
    "properties": _PROPERTIES,
}
ASSOCIATION_FIELDS: Schema = {
    "name": _name("A resource type, by Heat's name if it has one"),
    "prefix": _name("The prefix of property names on this resource type, with its separator"),
    "properties_target": _name("The set of properties, if the resource type has several"),
}
TAG_FIELDS: Schema = {"name": _name("The tag")}


def _items(fields: Schema) -> Schema:
    return {"type": "object", "properties": fields, "required": ["name"], "additionalProperties": False}


NAMESPACE_FIELDS: Schema = {
    "namespace": _name("The unique name of the namespace"),
    "display_name": _name("The name that users see"),
    "description": _text("A description of the namespace", maxLength=500),
    "visibility": _text("Whether all users or only the owner see it", enum=list(MetadefNamespace.Visibility.values)),
    "protected": {"type": "boolean", "description": "Whether nothing of it may be deleted"},
    "owner": _text("The project that it belongs to", maxLength=255),
}
_CONTENTS: Schema = {
    "resource_type_associations": {"type": "array", "items": _items(ASSOCIATION_FIELDS)},
    "properties": _PROPERTIES,
    "objects": {"type": "array", "items": _items(OBJECT_FIELDS)},
    "tags": {"type": "array", "items": _items(TAG_FIELDS)},
}
"""Contents that a request may put into a new namespace."""
_SHOWN_CONTENTS: Schema = {
    **_CONTENTS,
    "resource_type_associations": {"type": "array", "items": _items(ASSOCIATION_FIELDS | _moments("association"))},
    "objects": {"type": "array", "items": _items(OBJECT_FIELDS | _moments("object") | _LINKS)},
}


def _single(name: str, properties: Schema, required: list[str], *, definitions: bool = False) -> Schema:
    more = {"definitions": DEFINITIONS} if definitions else {}
    return {"name": name, "properties": properties, "additionalProperties": False, "required": required, **more}


def _list_of(plural: str, item: Schema, *, by_name: bool = False) -> Schema:
    link = {"type": "string"}
    inside = {name: value for name, value in item.items() if name != "definitions"}
    of_items = {"type": "object", "additionalProperties": inside} if by_name else {"type": "array", "items": inside}
    return {
        "name": plural,
        "properties": {plural: of_items, "first": link, "next": link, "schema": link},
        "links": [
            {"rel": "first", "href": "{first}"},
            {"rel": "next", "href": "{next}"},
            {"rel": "describedby", "href": "{schema}"},
        ],
        **({"definitions": item["definitions"]} if "definitions" in item else {}),
    }


_NAMED = {"name": _name("The property's name"), **PROPERTY_FIELDS}
_namespace = _single(
    "namespace", NAMESPACE_FIELDS | _SHOWN_CONTENTS | _moments("namespace") | _LINKS, ["namespace"], definitions=True
)
_object = _single("object", OBJECT_FIELDS | _moments("object") | _LINKS, ["name"], definitions=True)
_property = _single("property", _NAMED, ["type", "title", "name"], definitions=True)
_tag = _single("tag", TAG_FIELDS | _moments("tag"), ["name"])
_association = _single("resource_type_association", ASSOCIATION_FIELDS | _moments("association"), ["name"])
PUBLISHED: dict[str, Schema] = {
    "namespace": _namespace,
    "namespaces": _list_of("namespaces", _namespace),
    "object": _object,
    "objects": _list_of("objects", _object),
    "property": _property,
    "properties": _list_of("properties", _property | {"required": ["type", "title"]}, by_name=True),
    "tag": _tag,
    "tags": _list_of("tags", _tag),
    "resource_type": _association,
    "resource_types": _list_of("resource_type_associations", _association),
}
"""Schemas of ``GET /v2/schemas/metadefs/{name}``."""


def _request(fields: Schema, required: list[str]) -> Schema:
    """Return the schema of a body, without the ``READ_ONLY`` fields, which are checked separately."""
    known = {name: schema for name, schema in fields.items() if name not in READ_ONLY}
    named = {name: known[name] | {"minLength": 1} for name in ("name", "namespace") if name in known}
    return {
        "type": "object",
        "properties": known | named,
        "required": required,
        "additionalProperties": False,
        "definitions": DEFINITIONS,
    }


NAMESPACE_BODY = _request(NAMESPACE_FIELDS | _CONTENTS, ["namespace"])
OBJECT_BODY = _request(OBJECT_FIELDS, ["name"])
PROPERTY_BODY = _request(_NAMED, ["name", "type", "title"])
TAG_BODY = _request(TAG_FIELDS, ["name"])
TAGS_BODY: Schema = {
    "type": "object",
    "properties": {"tags": {"type": "array", "items": _items(TAG_FIELDS)}},
    "additionalProperties": False,
}
ASSOCIATION_BODY = _request(ASSOCIATION_FIELDS, ["name"])
