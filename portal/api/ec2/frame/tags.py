"""Tags in requests and responses."""

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Any

from portal.api.ec2.frame import errors
from portal.api.ec2.frame.calls import Call
from portal.api.ec2.frame.names import Kind
from provisioning.ec2 import tags

Shapes = list[dict[str, str]]


def shape(values: Mapping[str, str]) -> Shapes:
    """Return the representation of tags."""
    return [{"Key": key, "Value": value} for key, value in sorted(values.items())]


def shapes(kind: Kind, resources: Collection[uuid.UUID]) -> dict[uuid.UUID, Shapes]:
    """Return resource → the representation of its tags, in one query."""
    by_resource = tags.tags_of(kind.prefix, resources) if resources else {}
    return {resource: shape(by_resource.get(resource, {})) for resource in resources}


def of_request(specified: Iterable[Mapping[str, Any]]) -> dict[str, str]:
    """Return key → value of a list of tags. Raises Ec2Error for an empty or repeated key."""
    result: dict[str, str] = {}
    for each in specified:
        key = each.get("Key")
        if not key:
            raise errors.missing_parameter("Tag.Key")
        if key in result:
            raise errors.invalid_value("Tag.Key", key, "It is specified twice.")
        result[key] = each.get("Value", "")
    tags.check(result)
    return result


def specified(
    call: Call, kind: Kind, also: Sequence[Kind] = (), ignored: Collection[str] = ()
) -> dict[str, dict[str, str]]:
    """Return resource type → tags of ``TagSpecifications``, for the resources that the action creates: ``kind`` and
    ``also``.

    ``ignored`` are types that EC2 allows, but that do not exist in this cloud. Raises Ec2Error for any other type, and
    for a repeated one.
    """
    result: dict[str, dict[str, str]] = {}
    allowed = {kind.resource_type, *(each.resource_type for each in also), *ignored}
    for each in call.get("TagSpecifications", []):
        resource_type = each.get("ResourceType", kind.resource_type)
        if resource_type not in allowed:
            raise errors.Ec2Error(
                "InvalidParameterValue",
                f"'{resource_type[:120]}' is not a valid taggable resource type for this operation.",
            )
        if resource_type in result:
            raise errors.invalid_value("TagSpecification.ResourceType", resource_type, "It is specified twice.")
        result[resource_type] = of_request(each.get("Tags", []))
    return result


def write(call: Call, kind: Kind, resources: Sequence[uuid.UUID], specified: Mapping[str, Mapping[str, str]]) -> None:
    """Add to new resources the tags of their kind. ``specified``: the result of the function ``specified``."""
    requested = specified.get(kind.resource_type)
    if requested:
        tags.write(call.project_id, [(kind.prefix, resource) for resource in resources], requested)
