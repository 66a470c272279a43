"""EC2 ids in requests and responses, and the error codes for invalid and unknown ids."""

import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import Model, QuerySet

from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from provisioning.ec2 import ids

Record = TypeVar("Record")
M = TypeVar("M", bound=Model)


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
    *(ATTACHMENT, ROUTE_TABLE, ROUTE_ASSOCIATION, GATEWAY, ACL),
)


def check_form(kind: Kind, given: Iterable[str]) -> None:
    """Raise Ec2Error for a text that is not an id of this kind."""
    for text in given:
        if not ids.is_id(kind.prefix, text):
            raise Ec2Error(kind.malformed, f'Invalid id: "{text[:120]}" (expecting "{kind.prefix}-...")')


def resources(kind: Kind, given: Sequence[str]) -> dict[str, uuid.UUID]:
    """Return id → resource for all ids, in order. Raises Ec2Error with the unknown ids."""
    check_form(kind, given)
    found = ids.resources_of(kind.prefix, given)
    missing = [each for each in given if each not in found]
    if missing:
        raise not_found(kind, missing)
    return {each: found[each] for each in given}


def resource(kind: Kind, given: str) -> uuid.UUID:
    return resources(kind, [given])[given]


def one(kind: Kind, given: str, rows: QuerySet[M]) -> M:
    """Return the caller's record with this id. Raises Ec2Error."""
    found = rows.filter(pk=resource(kind, given)).first()
    if found is None:
        raise not_found(kind, [given])
    return found


def chosen(
    kind: Kind, given: Sequence[str], records: Iterable[Record], key: Callable[[Record], uuid.UUID]
) -> list[Record]:
    """Return the caller's records with these ids, or all without ids.

    Raises Ec2Error with the ids that the caller does not have.
    """
    if not given:
        return list(records)
    return _by_their_ids(kind, resources(kind, given), records, key)


def fetched(
    kind: Kind,
    given: Sequence[str],
    fetch: Callable[[Collection[uuid.UUID] | None], Iterable[Record]],
    key: Callable[[Record], uuid.UUID],
) -> list[Record]:
    """Like ``chosen``, for records that ``fetch`` reads. ``fetch`` gets the UUIDs of the resources, or None to read all
    records that the caller has.
    """
    if not given:
        return list(fetch(None))
    wanted = resources(kind, given)
    return _by_their_ids(kind, wanted, fetch(wanted.values()), key)


def of_keys(rows: QuerySet[M]) -> Callable[[Collection[uuid.UUID] | None], QuerySet[M]]:
    """Return a function that reads rows for ``fetched``."""
    return lambda keys: rows if keys is None else rows.filter(pk__in=keys)


def _by_their_ids(
    kind: Kind, wanted: Mapping[str, uuid.UUID], records: Iterable[Record], key: Callable[[Record], uuid.UUID]
) -> list[Record]:
    """Return the records in the order of the ids. Raises Ec2Error for unknown ids."""
    by_id: Mapping[uuid.UUID, Record] = {key(record): record for record in records}
    missing = [each for each in wanted if wanted[each] not in by_id]
    if missing:
        raise not_found(kind, missing)
    return [by_id[resource] for resource in wanted.values()]


def not_found(kind: Kind, given: Sequence[str]) -> Ec2Error:
    return errors.not_found(kind.missing, given[0] if len(given) == 1 else list(given))
