"""JSON schemas of the bodies of the Identity API."""

from collections.abc import Mapping, Sequence

from portal.api.common.validation import Schema
from portal.api.identity.dialect.resource import Resource


def body(
    name: str, properties: Mapping[str, Schema], required: Sequence[str] = (), *, extra: int = 0, least: int = 0
) -> Schema:
    """Return the schema of ``{name: {…}}`` with at least ``least`` attributes.

    ``extra``: maximum characters of the names of additional attributes; 0: there are none.
    """
    inner: Schema = {"type": "object", "properties": dict(properties), "required": [*required]}
    inner |= {"propertyNames": {"maxLength": extra}} if extra else {"additionalProperties": False}
    inner |= {"minProperties": least} if least else {}
    return {"type": "object", "properties": {name: inner}, "required": [name], "additionalProperties": False}


def new_body(resource: Resource) -> Schema:
    """Return the schema of a new object."""
    settable = [each for each in resource.attributes if each.post]
    required = [each.name for each in settable if each.required]
    return body(resource.name, {each.name: each.kind.schema for each in settable}, required, extra=resource.extra)


def changes_body(resource: Resource) -> Schema:
    """Return the schema of an update."""
    known = [each for each in resource.attributes if each.put or each.fixed]
    properties = {each.name: each.kind.schema for each in known}
    return body(resource.name, properties, extra=resource.extra, least=resource.least)
