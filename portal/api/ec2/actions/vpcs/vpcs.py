"""VPCs: networks, each created with its own router; networks of the Network API are shown as well. Networks, subnets
and routers by EC2 id, with the policy check for changes.

Network ACLs: each VPC has only its default ACL, which allows everything and is read-only; security groups filter
traffic.
"""

import hashlib
import uuid
from collections.abc import Sequence

import netaddr
from django.conf import settings

from portal.api.ec2.describe import Column, Described, members, nothing, under
from portal.api.ec2.frame import Call, Ec2Error, Shape, action, errors, names, tags
from provisioning.ec2 import ids
from provisioning.ec2_services import vpcs as services
from provisioning.hosts import selectors as hosts
from provisioning.hosts.models import DEFAULT_ZONE
from provisioning.network import addressing
from provisioning.network.models import Network, Subnet
from provisioning.network.selectors import vpcs as selectors

LONGEST_PREFIX, SHORTEST_PREFIX = 28, 16
"""Prefix lengths of VPCs and subnets, as in EC2."""


def vpc_named(call: Call, ec2_id: str) -> selectors.VpcNetwork:
    """Return a VPC that the caller may see. Raises Ec2Error."""
    vpcs = selectors.vpcs_for(call.context, [names.resource(names.VPC, ec2_id)])
    if not vpcs:
        raise names.not_found(names.VPC, [ec2_id])
    return vpcs[0]


def vpc_to_change(call: Call, ec2_id: str, *rules: str) -> selectors.VpcNetwork:
    """Return a VPC if the policy allows the caller to change it. Raises ForbiddenError for a VPC that another project
    shares.
    """
    vpc = vpc_named(call, ec2_id)
    call.enforce(*rules, target=owner_of(vpc.network))
    return vpc


def subnet_named(call: Call, ec2_id: str) -> Subnet:
    """Return a subnet that the caller may see. Raises Ec2Error."""
    return names.one(names.SUBNET, ec2_id, selectors.vpc_subnets_for(call.context))


def table_named(call: Call, ec2_id: str) -> selectors.Table:
    """Return a router on a network that the caller may see, as a route table. Raises Ec2Error."""
    requested = names.resource(names.ROUTE_TABLE, ec2_id)
    table = next(
        (table for table in selectors.tables_of(selectors.vpcs_for(call.context)) if table.router.id == requested), None
    )
    if table is None:
        raise names.not_found(names.ROUTE_TABLE, [ec2_id])
    return table


def owner_of(network: Network) -> dict[str, object]:
    """Return the policy target of a resource on a network."""
    owner = network.project_id
    return {"project_id": owner, "network:project_id": owner, "network:tenant_id": owner}


def subnet_zone() -> str:
    """Return the zone in which subnets are shown: EC2 shows one zone for each subnet, although the subnets exist in
    every zone.
    """
    default, zones = settings.SCHEDULER_DEFAULT_ZONE or DEFAULT_ZONE, hosts.availability_zones()
    return default if default in zones or not zones else zones[0]


def read_range(parameter: str, text: str, code: str) -> netaddr.IPNetwork:
    """Read an IPv4 range from /16 to /28; host bits are cleared. Raises Ec2Error, with ``code`` for a wrong size."""
    try:
        network = addressing.read_prefix(text).cidr
    except ValueError:
        raise errors.invalid_value(parameter, text, "This is not a valid CIDR block.") from None
    if network.version != 4:
        raise errors.invalid_value(parameter, text, "This is not a valid IPv4 CIDR block.")
    if not SHORTEST_PREFIX <= network.prefixlen <= LONGEST_PREFIX:
        raise Ec2Error(code, f"The CIDR '{text}' is invalid: the prefix length must be from 16 to 28.")
    addressing.parse_cidr(str(network))
    return network


def range_id(kind: names.Kind, resource: uuid.UUID, cidr: str) -> str:
    """Return the id of the association of a range with a VPC or a subnet, which is stable as long as both exist."""
    digits = hashlib.sha256(f"{resource.hex} {cidr}".encode()).hexdigest()[: ids.DIGITS]
    return f"{kind.prefix}-cidr-assoc-{digits}"


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
def create_vpc(call: Call) -> Shape:
    """Create a network and a router, both named by the tag ``Name``."""
    cidr = call.get("CidrBlock")
    if not cidr:
        raise errors.missing_parameter("CidrBlock")
    whole = read_range("CidrBlock", cidr, "InvalidVpc.Range")
    call.allow_only("InstanceTenancy", value="default", why="hosts are shared by all projects")
    call.allow_only("AmazonProvidedIpv6CidrBlock", value=False, why="create a subnet with an IPv6 range of your own")
    specified = tags.specified(call, names.VPC)
    name = specified.get(names.VPC.resource_type, {}).get(NAME) or f"vpc {whole}"
    made = services.create_vpc(call.project_id, str(whole), name)
    tags.write(call, names.VPC, [made.network_id], specified)
    return {"Vpc": shapes(call, selectors.vpcs_for(call.context, [made.network_id]))[0]}


@action("DeleteVpc", "delete_network", takes="VpcId", missing=names.VPC.missing, conflict="DependencyViolation")
def delete_vpc(call: Call) -> Shape:
    """Delete a network without subnets, and the router that was created with it."""
    services.delete_vpc(vpc_to_change(call, call.arguments["VpcId"], "delete_network").network)
    return {}


def _shapes(call: Call, networks: Sequence[Network]) -> list[Shape]:
    vpcs = {vpc.network.id: vpc for vpc in selectors.vpcs_for(call.context, [network.id for network in networks])}
    return shapes(call, [vpcs[network.id] for network in networks])


def shapes(call: Call, every: Sequence[selectors.VpcNetwork]) -> list[Shape]:
    """Return the representations of VPCs."""
    keys = [vpc.network.id for vpc in every]
    own, tagged = names.VPC.ids_of(keys), tags.shapes(names.VPC, keys)
    default = selectors.default_network(call.context)
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
    rows=lambda call: selectors.vpc_networks_for(call.context),
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
def describe_vpc_attribute(call: Call) -> Shape:
    """Return VPC attributes, which are the same for every VPC."""
    vpc = vpc_named(call, call.arguments["VpcId"])
    requested = call.arguments["Attribute"]
    name = f"{requested[0].upper()}{requested[1:]}"
    return {"VpcId": names.VPC.id_of(vpc.network.id), name: {"Value": ATTRIBUTES[name]}}


@action("ModifyVpcAttribute", "update_network", takes=f"VpcId {' '.join(ATTRIBUTES)}", missing=names.VPC.missing)
def modify_vpc_attribute(call: Call) -> Shape:
    """Accept attribute values that equal the current values, and reject all others."""
    vpc_to_change(call, call.arguments["VpcId"], "update_network")
    if not call.arguments.keys() & ATTRIBUTES.keys():
        raise errors.missing_parameter("EnableDnsSupport")
    for name, present in ATTRIBUTES.items():
        call.allow_only(name, value=present, why=f"it is {str(present).lower()} of every VPC of this cloud")
    return {}


ENTRIES = [
    {"RuleNumber": number, "RuleAction": verdict, "Protocol": "-1", "Egress": egress, place: everywhere}
    for egress in (True, False)
    for number, verdict, place, everywhere in (
        (100, "allow", "CidrBlock", "0.0.0.0/0"),
        (101, "allow", "Ipv6CidrBlock", "::/0"),
        (32767, "deny", "CidrBlock", "0.0.0.0/0"),
        (32768, "deny", "Ipv6CidrBlock", "::/0"),
    )
]


def _acl_shapes(call: Call, every: Sequence[Network]) -> list[Shape]:
    keys = [network.id for network in every]
    subnets = [subnet.id for network in every for subnet in network.subnets.all()]
    ec2_ids = names.ids_of({names.ACL: keys, names.VPC: keys, names.SUBNET: subnets})
    tagged = tags.shapes(names.ACL, keys)
    own, vpcs, of_subnets = (ec2_ids[kind] for kind in (names.ACL, names.VPC, names.SUBNET))
    return [
        {
            "NetworkAclId": own[network.id],
            "VpcId": vpcs[network.id],
            "OwnerId": network.project_id.hex,
            "IsDefault": True,
            "Entries": ENTRIES,
            "Associations": [
                {
                    "NetworkAclAssociationId": f"aclassoc-{of_subnets[subnet.id].partition('-')[2]}",
                    "NetworkAclId": own[network.id],
                    "SubnetId": of_subnets[subnet.id],
                }
                for subnet in network.subnets.all()
            ],
            "Tags": tagged[network.id],
        }
        for network in every
    ]


DESCRIBE_NETWORK_ACLS = Described(
    action="DescribeNetworkAcls",
    rule="get_network",
    member="NetworkAcls",
    kind=names.ACL,
    ids="NetworkAclIds",
    rows=lambda call: selectors.vpc_networks_for(call.context).prefetch_related("subnets"),
    shape=_acl_shapes,
    filters={
        **under(
            "Associations[]",
            {
                "association-id": "NetworkAclAssociationId",
                "network-acl-id": "NetworkAclId",
                "subnet-id": Column("SubnetId", "subnets__pk", names.SUBNET),
            },
            prefix="association.",
        ),
        "default": "IsDefault",
        **under(
            "Entries[]",
            {
                "cidr": "CidrBlock",
                **members("Egress Protocol RuleAction RuleNumber"),
                "ipv6-cidr": "Ipv6CidrBlock",
                **nothing("icmp.code icmp.type port-range.from port-range.to"),
            },
            prefix="entry.",
        ),
        "network-acl-id": Column("NetworkAclId", "pk", names.ACL),
        "owner-id": Column("OwnerId", "project_id"),
        "vpc-id": Column("VpcId", "pk", names.VPC),
    },
)
