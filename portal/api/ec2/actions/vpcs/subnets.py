"""Subnets: ranges of a VPC, attached to its router when they are created; internet gateways: the connection of a VPC's
router to the external network.
"""

import uuid
from collections.abc import Sequence

import netaddr

from portal.api.ec2.actions.vpcs.vpcs import owner_of, range_id, read_range, subnet_named, subnet_zone, vpc_to_change
from portal.api.ec2.describe import Column, Described, members, under
from portal.api.ec2.frame import Call, Ec2Error, Shape, action, errors, names, tags
from provisioning.ec2_services import internet_gateways as gateway_services
from provisioning.ec2_services import vpcs as services
from provisioning.hosts import selectors as hosts
from provisioning.network import addressing
from provisioning.network import services as network
from provisioning.network.models import InternetGateway, Network, Router, Subnet
from provisioning.network.selectors import vpcs as selectors
from provisioning.network.selectors.routing import external_networks_for
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
def create_subnet(call: Call) -> Shape:
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
    return {"Subnet": shapes(call, [subnet_named(call, names.SUBNET.id_of(subnet.id))])[0]}


def _range(call: Call, vpc: selectors.VpcNetwork) -> netaddr.IPNetwork:
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
        raise Ec2Error(RANGE, f"The CIDR '{cidr}' is invalid: it is not an IPv6 /64.")
    return whole


def _check_zone(call: Call) -> None:
    """Reject an unknown zone, and a zone in which the subnet would not be shown."""
    for parameter in ("AvailabilityZone", "AvailabilityZoneId"):
        zone = call.get(parameter)
        if zone is None:
            continue
        if zone not in hosts.availability_zones():
            raise errors.invalid_value(parameter, zone, "There is no availability zone of this name.")
        if zone != subnet_zone():
            raise errors.unsupported("A subnet is in every availability zone here: do not specify one")


@action(
    "DeleteSubnet",
    "delete_subnet",
    "remove_router_interface",
    takes="SubnetId",
    missing=names.SUBNET.missing,
    conflict="DependencyViolation",
)
def delete_subnet(call: Call) -> Shape:
    """Delete a subnet without interfaces."""
    services.delete_routed_subnet(_to_change(call, "delete_subnet"))
    return {}


def _to_change(call: Call, rule: str) -> Subnet:
    """Return the subnet of the request if the policy allows the caller to change it."""
    subnet = subnet_named(call, call.arguments["SubnetId"])
    call.enforce(rule, target=owner_of(subnet.network) | {"project_id": subnet.project_id})
    return subnet


def shapes(call: Call, every: Sequence[Subnet]) -> list[Shape]:
    """Return the representations of subnets; their networks must be prefetched."""
    keys, networks = [subnet.id for subnet in every], {subnet.network_id for subnet in every}
    ec2_ids = names.ids_of({names.SUBNET: keys, names.VPC: networks})
    tagged, free = tags.shapes(names.SUBNET, keys), selectors.free_addresses(every)
    default, zone, public = (
        selectors.default_network(call.context),
        subnet_zone(),
        with_automatic_floating_ips(networks),
    )
    return [
        {
            "SubnetId": ec2_ids[names.SUBNET][subnet.id],
            "VpcId": ec2_ids[names.VPC][subnet.network_id],
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
    rows=lambda call: selectors.vpc_subnets_for(call.context),
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
def modify_subnet_attribute(call: Call) -> Shape:
    """Accept attribute values that equal the current values, and reject all others."""
    (shape,) = shapes(call, [_to_change(call, "update_subnet")])
    specified = call.arguments.keys() - {"SubnetId"}
    if len(specified) != 1:
        raise errors.combination("Exactly one attribute of a subnet is changed at a time")
    for name in specified:
        call.allow_only(name, value=shape[name], why="it depends on the operator's settings and the subnet's range")
    return {}


NOT_ATTACHED = "Gateway.NotAttached"


@action(
    "CreateInternetGateway",
    "update_router",
    takes="TagSpecifications",
    over_quota={"internet gateways": "InternetGatewayLimitExceeded"},
)
def create_internet_gateway(call: Call) -> Shape:
    """Create a detached gateway."""
    specified = tags.specified(call, names.GATEWAY)
    gateway = gateway_services.create_internet_gateway(call.project_id)
    tags.write(call, names.GATEWAY, [gateway.id], specified)
    return {"InternetGateway": gateway_shapes([gateway], [])[0]}


@action(
    "AttachInternetGateway",
    "update_router",
    takes="InternetGatewayId VpcId",
    conflict="Resource.AlreadyAssociated",
)
def attach_internet_gateway(call: Call) -> Shape:
    """Connect the VPC's router to the external network.

    Elastic IPs work from then on; other traffic is routed there by ``CreateRoute``. A network without a router gets
    one.
    """
    gateway = _named(call)
    vpc = vpc_to_change(call, call.arguments["VpcId"], "update_router")
    gateway_services.attach_internet_gateway(gateway, vpc.main or _router_for(call, vpc), outside(call))
    return {}


def _router_for(call: Call, vpc: selectors.VpcNetwork) -> Router:
    """Create the router of a network that has no router."""
    call.enforce("create_router", "add_router_interface", target={"project_id": call.project_id})
    subnets = [subnet for subnet in vpc.subnets if subnet.gateway_ip is not None]
    return network.create_connected_router(call.project_id, subnets, name=vpc.network.name)


def outside(call: Call) -> Network:
    """Return the external network for gateways. Raises Ec2Error if there is none."""
    networks = external_networks_for(call.context)
    if not networks:
        raise errors.unsupported("This cloud has no external network that a router could be connected to")
    return networks[0]


@action("DetachInternetGateway", "update_router", takes="InternetGatewayId VpcId", conflict="DependencyViolation")
def detach_internet_gateway(call: Call) -> Shape:
    """Disconnect the VPC's router; the gateway is kept and can be attached to another VPC.

    A gateway without a VPC is not attached, also if the VPC has been deleted: clients ignore that when they clean up.
    """
    gateway, specified = _named(call), call.arguments["VpcId"]
    vpc = vpc_to_change(call, specified, "update_router") if gateway.router_id else None
    if vpc is None or gateway.router_id not in {router.id for router in vpc.routers}:
        message = f"resource {call.arguments['InternetGatewayId']} is not attached to network {specified}"
        raise Ec2Error(NOT_ATTACHED, message)
    gateway_services.detach_internet_gateway(gateway)
    return {}


@action("DeleteInternetGateway", "update_router", takes="InternetGatewayId", conflict="DependencyViolation")
def delete_internet_gateway(call: Call) -> Shape:
    """Delete a detached gateway."""
    gateway_services.delete_internet_gateway(_named(call))
    return {}


def _named(call: Call) -> InternetGateway:
    """Return the gateway of the request. Raises Ec2Error."""
    specified = call.arguments["InternetGatewayId"]
    return to_change(gateway_named(call, specified))


def gateway_named(call: Call, ec2_id: str) -> InternetGateway:
    """Return a gateway of the project, which may not be stored. Raises Ec2Error."""
    return selectors.gateway_of(names.one(names.GATEWAY, ec2_id, selectors.gateway_rows_for(call.context)))


def to_change(gateway: InternetGateway) -> InternetGateway:
    """Return the gateway as a stored row. A gateway that is derived from a router is stored first."""
    if gateway._state.adding and gateway.router_id is not None:
        gateway_services.stand_for_routers(gateway.project_id, [gateway.router_id])
    return gateway


def _shapes(call: Call, rows: Sequence[InternetGateway | Router]) -> list[Shape]:
    gateways = [selectors.gateway_of(row) for row in rows]
    routers = [gateway.router_id for gateway in gateways if gateway.router_id]
    return gateway_shapes(
        gateways, selectors.vpcs_for(call.context, selectors.networks_of_routers(routers)) if routers else []
    )


def gateway_shapes(every: Sequence[InternetGateway], vpcs: Sequence[selectors.VpcNetwork]) -> list[Shape]:
    """Return the representations of gateways."""
    keys = [gateway.id for gateway in every]
    tagged = tags.shapes(names.GATEWAY, keys)
    attached: dict[uuid.UUID, list[uuid.UUID]] = {}
    for vpc in vpcs:
        for router in vpc.routers:
            attached.setdefault(router.id, []).append(vpc.network.id)
    ec2_ids = names.ids_of(
        {names.GATEWAY: keys, names.VPC: [network for each in attached.values() for network in each]}
    )
    return [
        {
            "InternetGatewayId": ec2_ids[names.GATEWAY][gateway.id],
            "OwnerId": gateway.project_id.hex,
            "Attachments": [
                {"State": "available", "VpcId": ec2_ids[names.VPC][network_id]}
                for network_id in (attached.get(gateway.router_id, []) if gateway.router_id else [])
            ],
            "Tags": tagged[gateway.id],
        }
        for gateway in every
    ]


DESCRIBE_INTERNET_GATEWAYS = Described(
    action="DescribeInternetGateways",
    rule="get_router",
    member="InternetGateways",
    kind=names.GATEWAY,
    ids="InternetGatewayIds",
    rows=lambda call: selectors.gateway_rows_for(call.context),
    shape=_shapes,
    filters={
        "attachment.state": "Attachments[].State",
        "attachment.vpc-id": "Attachments[].VpcId",
        "internet-gateway-id": Column("InternetGatewayId", "pk", names.GATEWAY),
        "owner-id": Column("OwnerId", "project_id"),
    },
)
