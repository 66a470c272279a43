"""EC2 ids in requests and responses, and the error codes for invalid and unknown ids."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import Model, QuerySet, UUIDField

from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from provisioning.ec2 import ids

M = TypeVar("M", bound=Model)
Rows = QuerySet[M] | tuple[QuerySet[M], ...]
"""Rows of one table, or of several."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of resource: the prefix of its ids, its type in tags, and its error codes."""

    prefix: str
    resource_type: str
    malformed: str
    missing: str


INSTANCE = Kind("i", "instance", "InvalidInstanceID.Malformed", "InvalidInstanceID.NotFound")
IMAGE = Kind("ami", "image", "InvalidAMIID.Malformed", "InvalidAMIID.NotFound")
KEY_PAIR = Kind("key", "key-pair", "InvalidKeyPair.NotFound", "InvalidKeyPair.NotFound")
VOLUME = Kind("vol", "volume", "InvalidVolumeID.Malformed", "InvalidVolume.NotFound")
SNAPSHOT = Kind("snap", "snapshot", "InvalidSnapshotID.Malformed", "InvalidSnapshot.NotFound")
GROUP = Kind("sg", "security-group", "InvalidGroupId.Malformed", "InvalidGroup.NotFound")
RULE = Kind("sgr", "security-group-rule", "InvalidSecurityGroupRuleId.Malformed", "InvalidSecurityGroupRuleId.NotFound")
PREFIX_LIST = Kind("pl", "prefix-list", "InvalidPrefixListId.Malformed", "InvalidPrefixListID.NotFound")
ADDRESS = Kind("eipalloc", "elastic-ip", "InvalidAllocationID.Malformed", "InvalidAllocationID.NotFound")
ASSOCIATION = Kind("eipassoc", "", "InvalidAssociationID.Malformed", "InvalidAssociationID.NotFound")
VPC = Kind("vpc", "vpc", "InvalidVpcID.Malformed", "InvalidVpcID.NotFound")
SUBNET = Kind("subnet", "subnet", "InvalidSubnetID.Malformed", "InvalidSubnetID.NotFound")
INTERFACE = Kind(
    "eni", "network-interface", "InvalidNetworkInterfaceId.Malformed", "InvalidNetworkInterfaceID.NotFound"
)
ATTACHMENT = Kind("eni-attach", "", "InvalidAttachmentID.Malformed", "InvalidAttachmentID.NotFound")
ROUTE_TABLE = Kind("rtb", "route-table", "InvalidRouteTableId.Malformed", "InvalidRouteTableID.NotFound")
ROUTE_ASSOCIATION = Kind("rtbassoc", "", "InvalidAssociationID.Malformed", "InvalidAssociationID.NotFound")
ACL = Kind("acl", "network-acl", "InvalidNetworkAclId.Malformed", "InvalidNetworkAclID.NotFound")
GATEWAY = Kind("igw", "internet-gateway", "InvalidInternetGatewayId.Malformed", "InvalidInternetGatewayID.NotFound")
PLACEMENT_GROUP = Kind("pg", "placement-group", "InvalidPlacementGroupId.Malformed", "InvalidPlacementGroup.Unknown")

KINDS = (
    *(
        INSTANCE,
        IMAGE,
        KEY_PAIR,
        VOLUME,
        SNAPSHOT,
        GROUP,
        RULE,
        PREFIX_LIST,
        ADDRESS,
        ASSOCIATION,
        VPC,
        SUBNET,
        INTERFACE,
    ),
    *(ATTACHMENT, ROUTE_TABLE, ROUTE_ASSOCIATION, GATEWAY, ACL, PLACEMENT_GROUP),
)


def check_form(kind: Kind, ec2_ids: Iterable[str]) -> None:
    """Raise Ec2Error for a text that is not an id of this kind."""
    for text in ec2_ids:
        if not ids.is_id(kind.prefix, text):
            raise Ec2Error(kind.malformed, f'Invalid id: "{text[:120]}" (expecting "{kind.prefix}-...")')


def resources(kind: Kind, ec2_ids: Sequence[str]) -> dict[str, uuid.UUID]:
    """Return id → resource for all ids, in order. Raises Ec2Error with the unknown ids."""
    check_form(kind, ec2_ids)
    found = ids.resources_of(kind.prefix, ec2_ids)
    missing = [each for each in ec2_ids if each not in found]
    if missing:
        raise not_found(kind, missing)
    return {each: found[each] for each in ec2_ids}


Known = Mapping[Kind, Mapping[uuid.UUID, str]]
"""Kind → resource → EC2 id."""


def known(requested: Mapping[Kind, Iterable[uuid.UUID | None]]) -> Known:
    """Return the EC2 ids of resources of several kinds, in one query."""
    keys = {kind: [each for each in resources if each is not None] for kind, resources in requested.items()}
    found = ids.ids_of_all({kind.prefix: each for kind, each in keys.items()})
    return {kind: found[kind.prefix] for kind in requested}


def resource(kind: Kind, ec2_id: str) -> uuid.UUID:
    return resources(kind, [ec2_id])[ec2_id]


def one(kind: Kind, ec2_id: str, rows: Rows[M]) -> M:
    """Return the caller's record with this id. Raises Ec2Error."""
    return those(kind, [ec2_id], rows)[0]


def those(kind: Kind, ec2_ids: Sequence[str], rows: Rows[M]) -> list[M]:
    """Return the caller's records with these ids, in the order of the ids.

    ``rows`` are all records that the caller has. Raises Ec2Error with the ids that are not among them.
    """
    requested = resources(kind, ec2_ids)
    by_key = {key_of(row): row for source in with_keys(rows, requested.values()) for row in source}
    missing = [each for each in requested if requested[each] not in by_key]
    if missing:
        raise not_found(kind, missing)
    return [by_key[key] for key in requested.values()]


def with_names(
    rows: QuerySet[M], column: str, requested: Sequence[str], unknown: Callable[[str], Ec2Error]
) -> QuerySet[M]:
    """Return the rows with these names, or all rows without names. Raises ``unknown`` of the first missing name."""
    if not requested:
        return rows
    found = rows.filter(**{f"{column}__in": requested})
    known = set(found.values_list(column, flat=True))
    missing = next((name for name in requested if name not in known), None)
    if missing is not None:
        raise unknown(missing)
    return found


def key_of(row: Model) -> uuid.UUID:
    """Return the UUID of a row, as `ids.resource_of`."""
    return ids.resource_of(row.pk)


def with_keys(rows: Rows[M], resources: Collection[uuid.UUID]) -> list[QuerySet[M]]:
    """Return the rows with these UUIDs."""
    return [
        source.filter(pk__in=resources if _has_uuids(source) else [each.int for each in resources])
        for source in sources(rows)
    ]


def _has_uuids(rows: QuerySet[M]) -> bool:
    return isinstance(rows.model._meta.pk, UUIDField)


def sources(rows: Rows[M]) -> tuple[QuerySet[M], ...]:
    """Return the queries of rows that one or several tables have."""
    return rows if isinstance(rows, tuple) else (rows,)


def not_found(kind: Kind, ec2_ids: Sequence[str]) -> Ec2Error:
    return errors.not_found(kind.missing, ec2_ids[0] if len(ec2_ids) == 1 else list(ec2_ids))
