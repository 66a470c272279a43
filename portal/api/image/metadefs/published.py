"""The published JSON schemas of metadata definitions: ``/image/v2/schemas/metadefs/{name}``."""

from collections.abc import Sequence

from portal.api.common.validation import Schema
from portal.api.frame.attributes import Attribute
from portal.api.frame.parts import Call, parts
from portal.api.image.dialect import ImageView
from portal.api.image.metadefs import attributes
from portal.api.image.metadefs.attributes import DEFINITIONS, items_of
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError


def _single(name: str, fields: Sequence[Attribute], required: list[str], *, definitions: bool = False) -> Schema:
    return {
        "name": name,
        "properties": {each.name: each.kind.schema for each in fields},
        "additionalProperties": False,
        "required": required,
        **({"definitions": DEFINITIONS} if definitions else {}),
    }


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


_namespace = _single("namespace", (*attributes.NAMESPACE, *attributes.CONTENTS), ["namespace"], definitions=True)
_namespace["properties"] |= {
    "resource_type_associations": items_of(attributes.ASSOCIATION),
    "objects": items_of(attributes.OBJECT),
}
_object = _single("object", attributes.OBJECT, ["name"], definitions=True)
_property = _single("property", attributes.PROPERTY, ["type", "title", "name"], definitions=True)
_tag = _single("tag", attributes.TAG, ["name"])
_association = _single("resource_type_association", attributes.ASSOCIATION, ["name"])
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


def _show(context: RequestContext, name: str) -> Schema:
    if name not in PUBLISHED:
        raise NotFoundError(f"There is no schema metadefs/{name[:80]}.")
    return PUBLISHED[name]


PARTS = parts(
    ImageView,
    "schemas/metadefs/{name}",
    {
        "GET": Call(
            _show,
            "novella:get_image_schema",
            "Show the JSON schema of a metadata definition.",
            shape=lambda view, schema: schema,
        )
    },
)
