"""Bodies as in Neutron, required and settable attributes and each value by its kind, and their JSON schemas."""

import re
from collections.abc import Mapping
from typing import Any

from portal.api.frame import Schema, Values
from portal.api.network.dialect import Attribute, Resource
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.common.values.unset import UNSET
from provisioning.network.errors import BadRequestError

_IF_MATCH = re.compile(r"revision_number=(-?[0-9]{1,18})", re.ASCII)


class HTTPBadRequestError(InvalidInputError):
    """A body that does not have Neutron's format."""


class HTTPNotFoundError(NotFoundError):
    """An object that the policy hides from the caller."""


def read_new(resource: Resource, body: object) -> tuple[list[Values], bool]:
    """Return the values of each object of a POST, and whether the body is a list."""
    if not isinstance(body, dict) or not body:
        raise HTTPBadRequestError("Resource body required")
    if resource.plural in body:
        items = body[resource.plural]
        if not isinstance(items, list) or not items:
            raise HTTPBadRequestError("Resources required")
        return [_read(resource, _unwrapped(resource, item), "post") for item in items], True
    if resource.name not in body:
        raise HTTPBadRequestError(f"Unable to find '{resource.name}' in request body")
    return [_read(resource, body[resource.name], "post")], False


def read_changes(resource: Resource, body: object) -> Values:
    """Return the values of a PUT."""
    if not isinstance(body, dict) or resource.name not in body:
        raise HTTPBadRequestError(f"Unable to find '{resource.name}' in request body")
    return _read(resource, body[resource.name], "put")


def read_revision(header: str | None) -> int | None:
    """Return the revision in ``If-Match``, or None if there is no such header.

    As in Neutron, other entity tags are ignored. Raises BadRequestError for several revisions or a malformed one.
    """
    tags = [tag.strip().strip('"') for tag in (header or "").split(",")]
    revisions = [tag for tag in tags if tag.startswith("revision_number=")]
    if not revisions:
        return None
    if len(revisions) > 1:
        raise BadRequestError("Bad if-match request: Multiple revision_number etags are not supported.")
    found = _IF_MATCH.fullmatch(revisions[0])
    if found is None:
        msg = "Bad if-match request: Revision number etag must be in the format of revision_number=<int>."
        raise BadRequestError(msg)
    return int(found[1])


def _unwrapped(resource: Resource, item: object) -> object:
    """Return an object of a list, without the wrapper that some clients add."""
    return item[resource.name] if isinstance(item, dict) and resource.name in item else item


def _read(resource: Resource, body: object, verb: str) -> Values:
    if not isinstance(body, dict):
        raise HTTPBadRequestError(f"Body contains invalid data for '{resource.name}'")
    unknown = sorted(name for name in body if name not in resource.by_name)
    if unknown:
        names = ", ".join(name[:64] for name in unknown[:5])
        raise HTTPBadRequestError(f"Unrecognized attribute(s) '{names}'", field=unknown[0][:64])
    values: Values = {}
    for name, value in body.items():
        values[name] = _value(resource.by_name[name], value, verb)
    if verb == "post":
        missing = next((each.name for each in resource.attributes if each.required and each.name not in values), None)
        if missing is not None:
            msg = f"Failed to parse request. Required attribute '{missing}' not specified"
            raise HTTPBadRequestError(msg, field=missing)
    return _with_project(values)


def _value(attribute: Attribute, value: object, verb: str) -> Any:
    if verb == "post" and not attribute.post:
        raise HTTPBadRequestError(f"Attribute '{attribute.name}' not allowed in POST", field=attribute.name)
    if verb == "put" and not attribute.put:
        raise HTTPBadRequestError(f"Cannot update read-only attribute {attribute.name}", field=attribute.name)
    try:
        return attribute.kind.read(value)
    except ValueError as error:
        reason = str(error).rstrip(".")
        msg = f"Invalid input for {attribute.name}. Reason: {reason}."
        raise HTTPBadRequestError(msg, field=attribute.name) from None


def _with_project(values: Values) -> Values:
    """Accept ``tenant_id``, the old name of ``project_id``."""
    tenant = values.pop("tenant_id", None)
    if tenant is not None and values.setdefault("project_id", tenant) != tenant:
        raise HTTPBadRequestError("'project_id' and 'tenant_id' do not match", field="tenant_id")
    return values


def guarded(resource: Resource, verb: str, values: Mapping[str, Any]) -> list[str]:
    """Return the policy rules of the attributes in a body. They apply in addition to the rule of the operation."""
    result = []
    for name, value in values.items():
        attribute = resource.by_name[name]
        if verb == "create" and attribute.default is not UNSET and value == attribute.default:
            continue
        if verb in attribute.guards:
            result.append(resource.rule(verb, name))
        items = [item for item in (value if isinstance(value, list) else [value]) if isinstance(item, dict)]
        named = [part for part in attribute.parts if any(part in item for item in items)]
        result += [resource.rule(verb, f"{name}:{part}") for part in named]
    return result


def columns(resource: Resource, values: Mapping[str, Any]) -> Values:
    """Return values by column, as arguments of services."""
    return {resource.by_name[name].source: value for name, value in values.items()}


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
