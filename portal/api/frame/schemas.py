"""JSON schemas of a resource's bodies."""

from collections.abc import Callable, Mapping, Sequence

from portal.api.common.microversions import NEWEST, Version
from portal.api.common.validation import Schema
from portal.api.frame.attributes import Attribute, Parameter
from portal.api.frame.resource import Resource


def inner(properties: Mapping[str, Schema], required: Sequence[str] = (), *, closed: bool = True) -> Schema:
    """Return the schema of an object; ``closed``: without additional names."""
    result: Schema = {"type": "object", "properties": dict(properties)}
    if closed:
        result["additionalProperties"] = False
    return result | ({"required": [*required]} if required else {})


def body(name: str, properties: Mapping[str, Schema], required: Sequence[str] = (), *, closed: bool = True) -> Schema:
    """Return the schema of a body with one object: ``{name: {…}}``."""
    return {
        "type": "object",
        "properties": {name: inner(properties, required, closed=closed)},
        "required": [name],
        "additionalProperties": False,
    }


def new_body(resource: Resource) -> Callable[[Version], Schema]:
    """Return a function for the schema of a new object at a microversion."""
    settable = [each for each in resource.attributes if each.post]
    return lambda version: body(resource.name, properties_at(settable, version), required_at(settable, version))


def changes_body(resource: Resource) -> Callable[[Version], Schema]:
    """Return a function for the schema of a change at a microversion."""
    return lambda version: body(resource.name, properties_at([a for a in resource.attributes if a.put], version))


def query_of(parameters: Sequence[Parameter], *, strict_from: Version = NEWEST) -> Callable[[Version], Schema]:
    """Return a function for the schema of a query at a microversion.

    Before ``strict_from``, unknown parameters are accepted.
    """
    return lambda version: {
        "type": "object",
        "properties": {each.name: each.schema for each in parameters if each.is_at(version)},
        "additionalProperties": version < strict_from,
    }


def properties_at(attributes: Sequence[Attribute], version: Version) -> dict[str, Schema]:
    return {each.name: each.kind.schema for each in attributes if each.is_at(version)}


def required_at(attributes: Sequence[Attribute], version: Version) -> list[str]:
    return [each.name for each in attributes if each.required and each.is_at(version)]
