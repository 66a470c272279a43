"""Tags: CreateTags, DeleteTags, DescribeTags."""

import uuid
from typing import Any

from portal.api.ec2 import names, owned, tags
from portal.api.ec2.filters import Filterable
from portal.api.ec2.paging import described
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call, action
from provisioning.ec2 import ids
from provisioning.ec2 import tags as tag_records
from provisioning.ec2.models import Ec2Tag

MOST_RESOURCES = 1000
_TYPES = {kind.prefix: kind.resource_type for kind in names.KINDS}
_ORDER = ("kind", "resource_id", "key")
Row = tuple[Ec2Tag, str]
"""A tag and the EC2 id of its resource."""


@action("CreateTags", "novella:ec2:tags:create", takes="Resources Tags")
def create_tags(call: Call) -> dict[str, Any]:
    """Add tags to resources of any kind."""
    tag_records.write(call.project_id, _targets(call), tags.of_request(call.arguments["Tags"]))
    return {}


@action("DeleteTags", "novella:ec2:tags:delete", takes="Resources Tags")
def delete_tags(call: Call) -> dict[str, Any]:
    """Remove all tags of the resources, the tags with a key, or the tags with a key and a value."""
    given = call.get("Tags")
    wanted: dict[str, str | None] | None = None
    if given:
        wanted = {}
        for each in given:
            if not each.get("Key"):
                raise errors.missing_parameter("Tag.Key")
            wanted[each["Key"]] = each.get("Value")
    tag_records.remove(_targets(call), wanted)
    return {}


@action("DescribeTags", "novella:ec2:tags:list", takes="Filters MaxResults NextToken")
def describe_tags(call: Call) -> dict[str, Any]:
    """List the tags of the project's resources. Tags of deleted resources are omitted; they are stored until they are
    purged.
    """

    def shaped(found: list[Ec2Tag]) -> list[Row | None]:
        by_kind: dict[str, set[uuid.UUID]] = {}
        for tag in found:
            by_kind.setdefault(tag.kind, set()).add(tag.resource_id)
        there = {kind: set(owned.lookups[kind](call.context, by_kind[kind])) for kind in owned.lookups.keys() & by_kind}
        known = ids.ids_of_all(there)
        return [
            (tag, known[tag.kind][tag.resource_id]) if tag.resource_id in there.get(tag.kind, ()) else None
            for tag in found
        ]

    rows = tag_records.tags_in(call.project_id)
    shown, token = described(call, names.INSTANCE, (), rows, shaped, _FILTERS, order=_ORDER)
    return {"Tags": [_shape(*row) for row in shown], "NextToken": token}


def _shape(tag: Ec2Tag, ec2_id: str) -> dict[str, Any]:
    return {"ResourceId": ec2_id, "ResourceType": _TYPES[tag.kind], "Key": tag.key, "Value": tag.value}


_FILTERS: Filterable[Row] = Filterable(
    {
        "key": lambda row: row[0].key,
        "value": lambda row: row[0].value,
        "resource-id": lambda row: row[1],
        "resource-type": lambda row: _TYPES[row[0].kind],
    },
    tags=lambda row: {row[0].key: row[0].value},
)


def _targets(call: Call) -> list[tuple[str, uuid.UUID]]:
    """Return the resources as pairs of kind and UUID. Raises Ec2Error with the id of a resource that does not belong to
    the caller's project.
    """
    given = list(dict.fromkeys(call.arguments["Resources"]))
    if len(given) > MOST_RESOURCES:
        raise Ec2Error("InvalidParameterValue", f"A request may name {MOST_RESOURCES} resources at most")
    by_kind: dict[str, list[str]] = {}
    for text in given:
        prefix = next((kind for kind in owned.lookups if ids.is_id(kind, text)), None)
        if prefix is None:
            raise Ec2Error("InvalidID", f"The ID '{text[:120]}' is not valid")
        by_kind.setdefault(prefix, []).append(text)
    found: list[tuple[str, uuid.UUID]] = []
    for prefix, texts in by_kind.items():
        kind = next(each for each in names.KINDS if each.prefix == prefix)
        wanted = names.resources(kind, texts)
        own = set(owned.lookups[prefix](call.context, set(wanted.values())))
        strange = [text for text in texts if wanted[text] not in own]
        if strange:
            raise names.not_found(kind, strange)
        found += [(prefix, wanted[text]) for text in texts]
    return found
