"""Attributes of metadata definitions, and their published JSON schemas: ``/image/v2/schemas/metadefs/{name}``."""

from collections.abc import Sequence
from typing import Any

from portal.api.frame import Attribute, Call, Checked, Json, Schema, parts
from portal.api.image.dialect import ImageView
from portal.api.image.images.views import moment
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.common.values.unset import UNSET
from provisioning.metadefs.models import LONGEST_NAME, MetadefNamespace

ADDRESS = "/v2/metadefs/namespaces"
TYPES = ["array", "boolean", "integer", "number", "object", "string"]


def _text(description: str, **more: Any) -> Schema:
    return {"type": "string", "description": description, **more}


def _name(description: str) -> Checked:
    return Checked(_text(description, maxLength=LONGEST_NAME))


_COUNT = {"$ref": "#/definitions/positiveInteger"}
_COUNT_FROM_0 = {"$ref": "#/definitions/positiveIntegerDefault0"}
_SCALAR = {"type": ["string", "number", "boolean"]}
_CHOICES: Schema = {"type": "array", "items": _SCALAR}
_BOOL = {"type": "boolean"}
_FIELDS: Schema = {
    "type": _text("The type of its value", enum=TYPES),
    "title": _text("The name that users see"),
    "description": _text("A description of the property"),
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
"""A property: the keywords of its JSON schema."""
DEFINITIONS: Schema = {
    "positiveInteger": {"type": "integer", "minimum": 0},
    "positiveIntegerDefault0": {"allOf": [_COUNT, {"default": 0}]},
    "stringArray": {"type": "array", "items": {"type": "string"}, "uniqueItems": True},
    "property": {
        "type": "object",
        "propertyNames": {"minLength": 1, "maxLength": LONGEST_NAME},
        "additionalProperties": {
            "type": "object",
            "properties": _FIELDS,
            "required": ["title", "type"],
            "additionalProperties": False,
        },
    },
}
_PROPERTIES = Checked({"$ref": "#/definitions/property"})


def _time(description: str) -> Checked:
    return Checked(_text(description, readOnly=True, format="date-time"), writer=moment)


def _times(what: str) -> tuple[Attribute, ...]:
    return (
        Attribute("created_at", _time(f"The time at which the {what} was created")),
        Attribute("updated_at", _time(f"The time at which the {what} was last updated")),
    )


_LINK = Checked({"type": "string", "readOnly": True})


def items_of(attributes: tuple[Attribute, ...]) -> Schema:
    """Return the schema of a list of objects with these attributes."""
    return {
        "type": "array",
        "items": {
            "type": "object",
            "properties": {each.name: each.kind.schema for each in attributes},
            "required": ["name"],
            "additionalProperties": False,
        },
    }


def shape_of(row: Any, attributes: tuple[Attribute, ...]) -> Json:
    """Return the shape of an object inside another object, without unset attributes."""
    found = {each.name: each.value_of(row) for each in attributes}
    return {name: value for name, value in found.items() if value is not None}


def _own(name: str, kind: Checked, **more: Any) -> Attribute:
    """Return an attribute that bodies set."""
    return Attribute(name, kind, post=True, put=True, **more)


def _keyword(name: str, schema: Schema) -> Attribute:
    required = name in {"title", "type"}
    return _own(name, Checked(schema), required=required, show=lambda row: row.schema.get(name, UNSET))


PROPERTY = (
    _own("name", _name("The property's name"), required=True),
    *(_keyword(name, schema) for name, schema in _FIELDS.items()),
)
_OBJECT = (
    _own("name", _name("The object's name"), required=True),
    _own("description", Checked(_text("A description of the object"))),
    _own("required", Checked({"$ref": "#/definitions/stringArray"})),
    _own("properties", _PROPERTIES),
)
OBJECT = (
    *_OBJECT,
    *_times("object"),
    Attribute("self", _LINK, show=lambda row: f"{ADDRESS}/{row.namespace.namespace}/objects/{row.name}"),
    Attribute("schema", _LINK, show=lambda row: "/v2/schemas/metadefs/object"),
)
_TAG = (_own("name", _name("The tag"), required=True),)
TAG = (*_TAG, *_times("tag"))
RESOURCE_TYPE = (_own("name", _name("A resource type, by Heat's name if it has one"), required=True), *_times("type"))
_ASSOCIATION = (
    _own(
        "name",
        _name("A resource type, by Heat's name if it has one"),
        required=True,
        show=lambda row: row.resource_type.name,
    ),
    _own("prefix", _name("The prefix of property names on this resource type, with its separator")),
    _own("properties_target", _name("The set of properties, if the resource type has several")),
)
ASSOCIATION = (*_ASSOCIATION, *_times("association"))
NAMESPACE = (
    _own("namespace", _name("The unique name of the namespace"), required=True),
    _own("display_name", _name("The name that users see")),
    _own("description", Checked(_text("A description of the namespace", maxLength=500))),
    _own(
        "visibility",
        Checked(_text("Whether all users or only the owner see it", enum=list(MetadefNamespace.Visibility.values))),
    ),
    _own(
        "protected",
        Checked(
            {"type": "boolean", "description": "Whether the namespace and its contents are protected from deletion"}
        ),
    ),
    _own("owner", Checked(_text("The project that it belongs to", maxLength=255))),
    *_times("namespace"),
    Attribute("self", _LINK, show=lambda row: f"{ADDRESS}/{row.namespace}"),
    Attribute("schema", _LINK, show=lambda row: "/v2/schemas/metadefs/namespace"),
)
"""The attributes of a namespace itself."""
_ASSOCIATIONS = Checked(
    items_of(_ASSOCIATION), writer=lambda rows: [shape_of(row, ASSOCIATION) for row in rows] or UNSET
)
CONTENTS = (
    _own("resource_type_associations", _ASSOCIATIONS, show=lambda row: row.associations.all()),
    _own("properties", _PROPERTIES, shown=False),
    _own("objects", Checked(items_of(_OBJECT)), shown=False),
    _own("tags", Checked(items_of(_TAG)), shown=False),
)
"""The contents that a request may put into a new namespace."""
TAGS_BODY: Schema = {"type": "object", "properties": {"tags": items_of(_TAG)}, "additionalProperties": False}


def _schema_of(name: str, fields: Sequence[Attribute], required: list[str], *, definitions: bool = False) -> Schema:
    return {
        "name": name,
        "properties": {each.name: each.kind.schema for each in fields},
        "additionalProperties": False,
        "required": required,
        **({"definitions": DEFINITIONS} if definitions else {}),
    }


def _list_schema(plural: str, item: Schema, *, by_name: bool = False) -> Schema:
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


_namespace = _schema_of("namespace", (*NAMESPACE, *CONTENTS), ["namespace"], definitions=True)
_namespace["properties"] |= {
    "resource_type_associations": items_of(ASSOCIATION),
    "objects": items_of(OBJECT),
}
_object = _schema_of("object", OBJECT, ["name"], definitions=True)
_property = _schema_of("property", PROPERTY, ["type", "title", "name"], definitions=True)
_tag = _schema_of("tag", TAG, ["name"])
_association = _schema_of("resource_type_association", ASSOCIATION, ["name"])
PUBLISHED: dict[str, Schema] = {
    "namespace": _namespace,
    "namespaces": _list_schema("namespaces", _namespace),
    "object": _object,
    "objects": _list_schema("objects", _object),
    "property": _property,
    "properties": _list_schema("properties", _property | {"required": ["type", "title"]}, by_name=True),
    "tag": _tag,
    "tags": _list_schema("tags", _tag),
    "resource_type": _association,
    "resource_types": _list_schema("resource_type_associations", _association),
}


def _show_schema(context: RequestContext, name: str) -> Schema:
    if name not in PUBLISHED:
        raise NotFoundError(f"There is no schema metadefs/{name[:80]}.")
    return PUBLISHED[name]


SCHEMAS = parts(
    ImageView,
    "schemas/metadefs/{name}",
    {
        "GET": Call(
            _show_schema,
            "novella:get_image_schema",
            "Show the JSON schema of a metadata definition.",
            shape=lambda view, schema: schema,
        )
    },
)
