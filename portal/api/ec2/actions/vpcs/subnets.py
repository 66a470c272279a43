"""Subnets: ranges of a VPC, attached to its router when they are created."""

from collections.abc import Sequence
from typing import Any

import netaddr

from portal.api.ec2 import names, tags
from portal.api.ec2.actions.vpcs.lookups import (
    enforce,
    owner_of,
    range_id,
    read_range,
    subnet_named,
    unless,
    vpc_to_change,
    zone_of_networks,
)
from portal.api.ec2.describe import Column, Described, Shape, members, under
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call, action
from provisioning.ec2 import ids
from provisioning.ec2_services import vpcs as services
from provisioning.hosts import selectors as hosts
from provisioning.network import addressing
from provisioning.network.models import Subnet
from provisioning.network.selectors.vpcs import VpcNetwork, default_network, free_addresses, vpc_subnets_for
from provisioning.network.services.addressing.ipam import is_stateless
from provisioning.network.services.floating_ips.automatic_floating_ips import with_automatic_floating_ips
from provisioning.network.services.networks.subnets import SubnetFields

RANGE, CONFLICT = "InvalidSubnet.Range", "InvalidSubnet.Conflict"
NAME = "Name"
SLAAC = "slaac"


@action(
    "CreateSubnet",
    "create_subnet",
    "add_router_interface",
    takes="VpcId CidrBlock Ipv6CidrBlock Ipv6Native AvailabilityZone AvailabilityZoneId TagSpecifications",
    missing=names.VPC.missing,
    conflict=CONFLICT,
)
def create_subnet(call: Call) -> dict[str, Any]:
    """Create an IPv4 subnet, or an IPv6 one (``Ipv6Native``), and attach it to the VPC's router."""
    vpc = vpc_to_change(call, call.arguments["VpcId"], "create_subnet")
    _check_zone(call)
    specified = tags.specified(call, names.SUBNET)
    fields: SubnetFields = {"name": specified.get(names.SUBNET.resource_type, {}).get(NAME, "")[:255]}
    whole = _range6(call) if call.get("Ipv6Native") else _range(call, vpc)
    if addressing.overlapping(whole, vpc.subnets) is not None:
        raise Ec2Error(CONFLICT, f"The CIDR '{whole}' conflicts with another subnet")
    if whole.version == 6:
        fields |= {"ipv6_ra_mode": SLAAC, "ipv6_address_mode": SLAAC}
    subnet = services.create_routed_subnet(vpc.network, str(whole), vpc.main, fields)
    tags.write(call, names.SUBNET, [subnet.id], specified)
    return {"Subnet": shapes(call, [subnet_named(call, ids.id_of(names.SUBNET.prefix, subnet.id))])[0]}


def _range(call: Call, vpc: VpcNetwork) -> netaddr.IPNetwork:
    cidr = call.get("CidrBlock")
    if not cidr:
        raise errors.missing_parameter("CidrBlock")
    if call.get("Ipv6CidrBlock"):
        raise errors.unsupported("A subnet has one range here: create a second one with Ipv6Native")
    whole = read_range("CidrBlock", cidr, RANGE)
    if vpc.cidr is not None and whole not in netaddr.IPNetwork(vpc.cidr):
        raise Ec2Error(RANGE, f"The CIDR '{cidr}' is invalid: it is not within {vpc.cidr}, the range of the VPC.")
    return whole


def _range6(call: Call) -> netaddr.IPNetwork:
    cidr = call.get("Ipv6CidrBlock")
    if not cidr:
        raise errors.missing_parameter("Ipv6CidrBlock")
    if call.get("CidrBlock"):
        raise errors.combination("A subnet with Ipv6Native has no CidrBlock")
    try:
        whole = addressing.read_prefix(cidr).cidr
    except ValueError:
        raise errors.invalid_value("Ipv6CidrBlock", cidr, "This is not a valid CIDR block.") from None
    if whole.version != 6 or whole.prefixlen != 64:
        raise Ec2Error(RANGE, f"The CIDR '{cidr}' is invalid: it is no /64 of IPv6.")
    return whole


def _check_zone(call: Call) -> None:
    """Reject an unknown zone, and a zone in which the subnet would not be shown."""
    for parameter in ("AvailabilityZone", "AvailabilityZoneId"):
        zone = call.get(parameter)
        if zone is None:
            continue
        if zone not in hosts.availability_zones():
            raise errors.invalid_value(parameter, zone, "There is no availability zone of this name.")
        if zone != zone_of_networks():
            raise errors.unsupported("A subnet is in every availability zone here: name none")


@action(
    "DeleteSubnet",
    "delete_subnet",
    "remove_router_interface",
    takes="SubnetId",
    missing=names.SUBNET.missing,
    conflict="DependencyViolation",
)
def delete_subnet(call: Call) -> dict[str, Any]:
    """Delete a subnet without interfaces."""
    subnet = subnet_named(call, call.arguments["SubnetId"])
    enforce(call, owner_of(subnet.network) | {"project_id": subnet.project_id}, "delete_subnet")
    services.delete_routed_subnet(subnet)
    return {}


def shapes(call: Call, every: Sequence[Subnet]) -> list[Shape]:
    """Return the representations of subnets; their networks must be prefetched."""
    keys, networks = [subnet.id for subnet in every], {subnet.network_id for subnet in every}
    known = names.known({names.SUBNET: keys, names.VPC: networks})
    tagged, free = tags.shapes(names.SUBNET, keys), free_addresses(every)
    default, zone, public = default_network(call.context), zone_of_networks(), with_automatic_floating_ips(networks)
    return [
        {
            "SubnetId": known[names.SUBNET][subnet.id],
            "VpcId": known[names.VPC][subnet.network_id],
            "OwnerId": subnet.network.project_id.hex,
            "State": "available",
            "AvailabilityZone": zone,
            "AvailabilityZoneId": zone,
            "DefaultForAz": default is not None and default.id == subnet.network_id,
            "MapPublicIpOnLaunch": subnet.ip_version == 4 and subnet.network_id in public,
            "AssignIpv6AddressOnCreation": is_stateless(subnet),
            "EnableDns64": False,
            "MapCustomerOwnedIpOnLaunch": False,
            "Tags": tagged[subnet.id],
            **_of_version(subnet, free[subnet.id]),
        }
        for subnet in every
    ]


def _of_version(subnet: Subnet, free: int) -> Shape:
    if subnet.ip_version == 4:
        return {
            "CidrBlock": subnet.cidr,
            "AvailableIpAddressCount": free,
            "Ipv6Native": False,
            "Ipv6CidrBlockAssociationSet": [],
        }
    block = {
        "AssociationId": range_id(names.SUBNET, subnet.id, subnet.cidr),
        "Ipv6CidrBlock": subnet.cidr,
        "Ipv6CidrBlockState": {"State": "associated"},
    }
    return {"AvailableIpAddressCount": 0, "Ipv6Native": True, "Ipv6CidrBlockAssociationSet": [block]}


DESCRIBE_SUBNETS = Described(
    action="DescribeSubnets",
    rule="get_subnet",
    member="Subnets",
    kind=names.SUBNET,
    ids="SubnetIds",
    rows=lambda call: vpc_subnets_for(call.context),
    shape=shapes,
    filters={
        **members(
            "AvailabilityZone AvailabilityZoneId AvailableIpAddressCount DefaultForAz Ipv6Native "
            "MapPublicIpOnLaunch State"
        ),
        "availabilityZone": "AvailabilityZone",
        "cidr": Column("CidrBlock", "cidr"),
        "cidr-block": Column("CidrBlock", "cidr"),
        "cidrBlock": Column("CidrBlock", "cidr"),
        "defaultForAz": "DefaultForAz",
        **under(
            "Ipv6CidrBlockAssociationSet[]",
            {"ipv6-cidr-block": Column("Ipv6CidrBlock", "cidr")},
            prefix="ipv6-cidr-block-association.",
        ),
        "owner-id": Column("OwnerId", "network__project_id"),
        "subnet-id": Column("SubnetId", "pk", names.SUBNET),
        "vpc-id": Column("VpcId", "network_id", names.VPC),
    },
)


@action(
    "ModifySubnetAttribute",
    "update_subnet",
    takes="SubnetId MapPublicIpOnLaunch AssignIpv6AddressOnCreation",
    missing=names.SUBNET.missing,
)
def modify_subnet_attribute(call: Call) -> dict[str, Any]:
    """Accept attribute values that equal the current values, and reject all others."""
    subnet = subnet_named(call, call.arguments["SubnetId"])
    enforce(call, owner_of(subnet.network) | {"project_id": subnet.project_id}, "update_subnet")
    (shape,) = shapes(call, [subnet])
    specified = call.arguments.keys() - {"SubnetId"}
    if len(specified) != 1:
        raise errors.combination("Exactly one attribute of a subnet is changed at a time")
    for name in specified:
        unless(call, name, present=shape[name], why="it depends on the operator's settings and the subnet's range")
    return {}
