"""Names in requests: ids of resources, owners, devices and volume types.

A request specifies a volume type of this cloud by name. AWS type names (gp3, io1) are stored and shown, but otherwise
ignored unless a volume type has that name: the volume gets the default type or keeps its own.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from django.db.models import Model, QuerySet, UUIDField

from portal.api.ec2.frame import errors
from portal.api.ec2.frame.calls import Call
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError
from provisioning.ec2 import given, ids
from provisioning.volumes.selectors import type_for

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

    def id_of(self, resource: uuid.UUID) -> str:
        """Return the EC2 id of a resource."""
        return ids.id_of(self.prefix, resource)

    def ids_of(self, resources: Iterable[uuid.UUID]) -> dict[uuid.UUID, str]:
        """Return resource → EC2 id."""
        return ids.ids_of(self.prefix, resources)


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
            raise errors.Ec2Error(kind.malformed, f'Invalid id: "{text[:120]}" (expecting "{kind.prefix}-...")')


def resources(kind: Kind, ec2_ids: Sequence[str]) -> dict[str, uuid.UUID]:
    """Return id → resource for all ids, in order. Raises Ec2Error with the unknown ids."""
    check_form(kind, ec2_ids)
    by_id = ids.resources_of(kind.prefix, ec2_ids)
    missing = [each for each in ec2_ids if each not in by_id]
    if missing:
        raise not_found(kind, missing)
    return {each: by_id[each] for each in ec2_ids}


Ids = Mapping[Kind, Mapping[uuid.UUID, str]]
"""Kind → resource → EC2 id."""


def ids_of(requested: Mapping[Kind, Iterable[uuid.UUID | None]]) -> Ids:
    """Return the EC2 ids of resources of several kinds, in one query."""
    keys = {kind: [each for each in resources if each is not None] for kind, resources in requested.items()}
    by_prefix = ids.ids_of_all({kind.prefix: each for kind, each in keys.items()})
    return {kind: by_prefix[kind.prefix] for kind in requested}


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
    rows: QuerySet[M], column: str, requested: Sequence[str], unknown: Callable[[str], errors.Ec2Error]
) -> QuerySet[M]:
    """Return the rows with these names, or all rows without names. Raises ``unknown`` of the first missing name."""
    if not requested:
        return rows
    named = rows.filter(**{f"{column}__in": requested})
    existing = set(named.values_list(column, flat=True))
    missing = next((name for name in requested if name not in existing), None)
    if missing is not None:
        raise unknown(missing)
    return named


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


def not_found(kind: Kind, ec2_ids: Sequence[str]) -> errors.Ec2Error:
    return errors.not_found(kind.missing, ec2_ids[0] if len(ec2_ids) == 1 else list(ec2_ids))


def is_named(call: Call, owners: Iterable[str]) -> bool:
    """Whether the owners contain the caller's project: ``self``, or its id."""
    return bool({"self", call.project_id.hex, str(call.project_id)} & set(owners))


_OF_GUEST = re.compile(r"/dev/vd[a-z]")


def guest_name(name: str) -> str:
    """Return the name in the guest for a device name of EC2: ``/dev/sdf`` becomes ``/dev/vdf``."""
    short = name.removeprefix("/dev/")
    if short.startswith("xvd"):
        return f"/dev/vd{short.removeprefix('xvd')}"
    if short.startswith("sd"):
        return f"/dev/vd{short.removeprefix('sd').rstrip('0123456789')}"
    return f"/dev/{short}"


def is_guest_name(name: str) -> bool:
    """Whether a guest can have a disk with this name, ``/dev/vda`` to ``/dev/vdz``."""
    return _OF_GUEST.fullmatch(name) is not None


OF_AMAZON = frozenset({"standard", "io1", "io2", "gp2", "gp3", "sc1", "st1"})
SPEEDS = frozenset({"Iops", "Throughput"})


def requested_type(context: RequestContext, name: str | None) -> str:
    """Return the name of the requested type, or an empty text if none is requested. Raises Ec2Error for a type that the
    caller may not use.
    """
    if not name:
        return ""
    try:
        return type_for(context, name).name
    except NotFoundError as error:
        if name in OF_AMAZON:
            return ""
        raise errors.Ec2Error("UnknownVolumeType", f"Unsupported volume type '{name[:120]}'.") from error


def of_amazon(arguments: Mapping[str, Any], own_type: str) -> dict[str, Any] | None:
    """Return the AWS type of a request and its speeds if ``requested_type`` found no type of this cloud.

    ``Iops`` and ``Throughput`` are stored and shown only with AWS types. They are rejected with Ec2Error if the request
    has no AWS type, because a type of this cloud determines the speed itself.
    """
    given_with = {name: arguments[name] for name in (*SPEEDS, "VolumeType") if arguments.get(name) is not None}
    if given_with.keys() & SPEEDS and (own_type or "VolumeType" not in given_with):
        raise errors.unsupported(
            "The volume type determines the performance of a volume: specify a type, without Iops and Throughput"
        )
    return given_with if given_with and not own_type else None


def store_requested(project_id: uuid.UUID, volume_id: uuid.UUID, requested: Mapping[str, Any] | None) -> None:
    """Store the result of ``of_amazon``, replacing a previous one."""
    if requested:
        given.keep(project_id, volume_id, {given.VOLUME_TYPE: dict(requested)})
    else:
        given.forget(volume_id, given.VOLUME_TYPE)
