"""Tags: CreateTags, DeleteTags, DescribeTags; for each kind of resource that can be tagged, the rows that the caller's
project owns.
"""

import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from django.db.models import Q

from portal.api.ec2.actions.images.describe import own_images
from portal.api.ec2.actions.instances.shapes import visible_rows
from portal.api.ec2.describe import Column, Described, Narrowed
from portal.api.ec2.frame import Call, Ec2Error, Shape, action, errors, names, tags
from provisioning.common.context import RequestContext
from provisioning.compute import selectors as compute
from provisioning.compute.selectors.server_groups import visible_server_groups
from provisioning.ec2 import ids
from provisioning.ec2 import tags as tag_records
from provisioning.ec2.models import Ec2Tag
from provisioning.network import selectors as network
from provisioning.network.records.owners import OF_THE_CLOUD
from provisioning.network.selectors.routing import floating_ips_for, routers_for
from provisioning.network.selectors.visibility import own
from provisioning.network.selectors.vpcs import gateway_rows_for, vpc_networks_for, vpc_subnets_for
from provisioning.volumes.selectors.access import visible_snapshots, visible_volumes

OwnRows = Callable[[RequestContext], "names.Rows[Any]"]

_OWN: Mapping[names.Kind, OwnRows] = {
    names.ADDRESS: floating_ips_for,
    names.IMAGE: own_images,
    names.INSTANCE: visible_rows,
    names.INTERFACE: lambda context: network.ports_for(context).exclude(OF_THE_CLOUD),
    names.KEY_PAIR: compute.own_key_pairs,
    names.PLACEMENT_GROUP: visible_server_groups,
    names.GROUP: lambda context: network.security_groups_for(context).filter(own(context)),
    names.RULE: network.security_group_rules_for,
    names.VOLUME: visible_volumes,
    names.SNAPSHOT: visible_snapshots,
    names.GATEWAY: gateway_rows_for,
    names.ACL: lambda context: vpc_networks_for(context).filter(own(context)),
    names.ROUTE_TABLE: lambda context: routers_for(context).filter(own(context)),
    names.SUBNET: lambda context: vpc_subnets_for(context).filter(own(context)),
    names.VPC: lambda context: vpc_networks_for(context).filter(own(context)),
}
OWN_ROWS: Mapping[str, OwnRows] = {kind.prefix: rows for kind, rows in _OWN.items()}
"""Prefix of the ids → the rows that the caller's project owns. Resources of other kinds cannot be tagged."""


def among(context: RequestContext, prefix: str, resources: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Return the ids among ``resources`` of resources that the caller's project owns."""
    rows = names.with_keys(OWN_ROWS[prefix](context), resources)
    return {ids.resource_of(key) for source in rows for key in source.values_list("pk", flat=True)}


MOST_RESOURCES = 1000
_TYPES = {kind.prefix: kind.resource_type for kind in names.KINDS}


@action("CreateTags", "novella:ec2:tags:create", takes="Resources Tags")
def create_tags(call: Call) -> Shape:
    """Add tags to resources of any kind."""
    tag_records.write(call.project_id, _targets(call), tags.of_request(call.arguments["Tags"]))
    return {}


@action("DeleteTags", "novella:ec2:tags:delete", takes="Resources Tags")
def delete_tags(call: Call) -> Shape:
    """Remove all tags of the resources, the tags with a key, or the tags with a key and a value."""
    specified = call.get("Tags")
    requested: dict[str, str | None] | None = None
    if specified:
        requested = {}
        for each in specified:
            if not each.get("Key"):
                raise errors.missing_parameter("Tag.Key")
            requested[each["Key"]] = each.get("Value")
    tag_records.remove(_targets(call), requested)
    return {}


def _shapes(call: Call, rows: Sequence[Ec2Tag]) -> list[Shape | None]:
    """Return the representations of tags. Tags of deleted resources are stored until their purge, and hidden."""
    by_kind: dict[str, set[uuid.UUID]] = {}
    for tag in rows:
        by_kind.setdefault(tag.kind, set()).add(tag.resource_id)
    there = {kind: among(call.context, kind, by_kind[kind]) for kind in OWN_ROWS.keys() & by_kind}
    ec2_ids = ids.ids_of_all(there)
    return [
        {
            "ResourceId": ec2_ids[tag.kind][tag.resource_id],
            "ResourceType": _TYPES[tag.kind],
            "Key": tag.key,
            "Value": tag.value,
        }
        if tag.resource_id in there.get(tag.kind, ())
        else None
        for tag in rows
    ]


def _of_types(types: Sequence[str]) -> Q:
    return Q(kind__in=[prefix for prefix, resource_type in _TYPES.items() if resource_type in types])


def _of_resources(ec2_ids: Sequence[str]) -> Q:
    result = Q(pk__in=[])
    for prefix in OWN_ROWS:
        requested = [each for each in ec2_ids if ids.is_id(prefix, each)]
        if requested:
            result |= Q(kind=prefix, resource_id__in=ids.resources_of(prefix, requested).values())
    return result


DESCRIBE_TAGS = Described(
    action="DescribeTags",
    rule="novella:ec2:tags:list",
    member="Tags",
    rows=lambda call: tag_records.tags_in(call.project_id).filter(kind__in=OWN_ROWS),
    shape=_shapes,
    order=("kind", "resource_id", "key"),
    tags="",
    filters={
        "key": Column("Key", "key"),
        "value": Column("Value", "value"),
        "resource-id": Narrowed("ResourceId", _of_resources, exact=True),
        "resource-type": Narrowed("ResourceType", _of_types, exact=True),
    },
)


def _targets(call: Call) -> list[tuple[str, uuid.UUID]]:
    """Return the resources as pairs of kind and UUID. Raises Ec2Error with the id of a resource that does not belong to
    the caller's project.
    """
    ec2_ids = list(dict.fromkeys(call.arguments["Resources"]))
    if len(ec2_ids) > MOST_RESOURCES:
        raise Ec2Error("InvalidParameterValue", f"A request may name {MOST_RESOURCES} resources at most")
    by_kind: dict[str, list[str]] = {}
    for text in ec2_ids:
        prefix = next((kind for kind in OWN_ROWS if ids.is_id(kind, text)), None)
        if prefix is None:
            raise Ec2Error("InvalidID", f"The ID '{text[:120]}' is not valid")
        by_kind.setdefault(prefix, []).append(text)
    result: list[tuple[str, uuid.UUID]] = []
    for prefix, texts in by_kind.items():
        kind = next(each for each in names.KINDS if each.prefix == prefix)
        requested = names.resources(kind, texts)
        own = among(call.context, prefix, requested.values())
        strange = [text for text in texts if requested[text] not in own]
        if strange:
            raise names.not_found(kind, strange)
        result += [(prefix, requested[text]) for text in texts]
    return result
