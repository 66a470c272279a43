"""VPCs: networks, each created with its own router. Networks of the Network API are shown as well."""

from collections.abc import Sequence
from typing import Any

from portal.api.ec2 import names, tags
from portal.api.ec2.actions.vpcs.lookups import range_id, read_range, unless, vpc_named, vpc_to_change
from portal.api.ec2.describe import Column, Described, Shape, members
from portal.api.ec2.protocol import errors
from portal.api.ec2.registry import Call, action
from provisioning.ec2 import ids
from provisioning.ec2_services import vpcs as services
from provisioning.network.models import Network
from provisioning.network.selectors.vpcs import VpcNetwork, default_network, vpc_networks_for, vpcs_for

NAME = "Name"
"""The tag that AWS tools show as the name."""
ATTRIBUTES = {"EnableDnsSupport": True, "EnableDnsHostnames": True, "EnableNetworkAddressUsageMetrics": False}
"""VPC attribute → its value for every VPC. Guests can resolve names, and have a host name in the domain of their
network.
"""
AVAILABLE, ASSOCIATED = "available", "associated"


@action(
    "CreateVpc",
    "create_network",
    "create_router",
    takes="CidrBlock InstanceTenancy AmazonProvidedIpv6CidrBlock TagSpecifications",
    over_quota={"routers": "VpcLimitExceeded"},
)
def create_vpc(call: Call) -> dict[str, Any]:
    """Create a network and a router, both named by the tag ``Name``."""
    cidr = call.get("CidrBlock")
    if not cidr:
        raise errors.missing_parameter("CidrBlock")
    whole = read_range("CidrBlock", cidr, "InvalidVpc.Range")
    unless(call, "InstanceTenancy", present="default", why="hosts are shared by all projects")
    unless(call, "AmazonProvidedIpv6CidrBlock", present=False, why="create a subnet with an IPv6 range of your own")
    specified = tags.specified(call, names.VPC)
    name = specified.get(names.VPC.resource_type, {}).get(NAME) or f"vpc {whole}"
    made = services.create_vpc(call.project_id, str(whole), name)
    tags.write(call, names.VPC, [made.network_id], specified)
    return {"Vpc": shapes(call, vpcs_for(call.context, [made.network_id]))[0]}


@action("DeleteVpc", "delete_network", takes="VpcId", missing=names.VPC.missing, conflict="DependencyViolation")
def delete_vpc(call: Call) -> dict[str, Any]:
    """Delete a network without subnets, and the router that was created with it."""
    services.delete_vpc(vpc_to_change(call, call.arguments["VpcId"], "delete_network").network)
    return {}


def _shapes(call: Call, networks: Sequence[Network]) -> list[Shape]:
    known = {vpc.network.id: vpc for vpc in vpcs_for(call.context, [network.id for network in networks])}
    return shapes(call, [known[network.id] for network in networks])


def shapes(call: Call, every: Sequence[VpcNetwork]) -> list[Shape]:
    """Return the representations of VPCs."""
    keys = [vpc.network.id for vpc in every]
    own, tagged = ids.ids_of(names.VPC.prefix, keys), tags.shapes(names.VPC, keys)
    default = default_network(call.context)
    return [
        {
            "VpcId": own[vpc.network.id],
            "OwnerId": vpc.network.project_id.hex,
            "State": AVAILABLE,
            "CidrBlock": next(iter(vpc.cidrs), None),
            "CidrBlockAssociationSet": [
                {
                    "AssociationId": range_id(names.VPC, vpc.network.id, cidr),
                    "CidrBlock": cidr,
                    "CidrBlockState": {"State": ASSOCIATED},
                }
                for cidr in vpc.cidrs
            ],
            "Ipv6CidrBlockAssociationSet": [
                {
                    "AssociationId": range_id(names.VPC, vpc.network.id, cidr),
                    "Ipv6CidrBlock": cidr,
                    "Ipv6CidrBlockState": {"State": ASSOCIATED},
                    "NetworkBorderGroup": call.region,
                }
                for cidr in vpc.cidrs6
            ],
            "InstanceTenancy": "default",
            "IsDefault": default is not None and default.id == vpc.network.id,
            "DhcpOptionsId": "default",
            "Tags": tagged[vpc.network.id],
        }
        for vpc in every
    ]


DESCRIBE_VPCS = Described(
    action="DescribeVpcs",
    rule="get_network",
    member="Vpcs",
    kind=names.VPC,
    ids="VpcIds",
    rows=lambda call: vpc_networks_for(call.context),
    shape=_shapes,
    filters={
        "cidr": "CidrBlock",
        **members("CidrBlock DhcpOptionsId IsDefault State"),
        "cidrBlock": "CidrBlock",
        "cidr-block-association.association-id": "CidrBlockAssociationSet[].AssociationId",
        "cidr-block-association.cidr-block": "CidrBlockAssociationSet[].CidrBlock",
        "cidr-block-association.state": "CidrBlockAssociationSet[].CidrBlockState.State",
        "ipv6-cidr-block-association.association-id": "Ipv6CidrBlockAssociationSet[].AssociationId",
        "ipv6-cidr-block-association.ipv6-cidr-block": "Ipv6CidrBlockAssociationSet[].Ipv6CidrBlock",
        "isDefault": "IsDefault",
        "owner-id": Column("OwnerId", "project_id"),
        "vpc-id": Column("VpcId", "pk", names.VPC),
    },
)


@action("DescribeVpcAttribute", "get_network", takes="VpcId Attribute", missing=names.VPC.missing)
def describe_vpc_attribute(call: Call) -> dict[str, Any]:
    """Return VPC attributes, which are the same for every VPC."""
    vpc = vpc_named(call, call.arguments["VpcId"])
    requested = call.arguments["Attribute"]
    name = f"{requested[0].upper()}{requested[1:]}"
    return {"VpcId": ids.id_of(names.VPC.prefix, vpc.network.id), name: {"Value": ATTRIBUTES[name]}}


@action("ModifyVpcAttribute", "update_network", takes=f"VpcId {' '.join(ATTRIBUTES)}", missing=names.VPC.missing)
def modify_vpc_attribute(call: Call) -> dict[str, Any]:
    """Accept attribute values that equal the current values, and reject all others."""
    vpc_to_change(call, call.arguments["VpcId"], "update_network")
    if not call.arguments.keys() & ATTRIBUTES.keys():
        raise errors.missing_parameter("EnableDnsSupport")
    for name, present in ATTRIBUTES.items():
        unless(call, name, present=present, why=f"it is {str(present).lower()} of every VPC of this cloud")
    return {}
