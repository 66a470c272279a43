"""Internet gateways: the connection of a VPC's router to the external network."""

import uuid
from collections.abc import Sequence
from typing import Any

from portal.api.ec2 import names, tags
from portal.api.ec2.actions.vpcs.lookups import enforce, vpc_to_change
from portal.api.ec2.describe import Column, Described, Shape
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call, action
from provisioning.ec2_services import internet_gateways as services
from provisioning.network import services as network
from provisioning.network.models import InternetGateway, Network, Router
from provisioning.network.selectors.routing import external_networks_for
from provisioning.network.selectors.vpcs import (
    VpcNetwork,
    gateway_of,
    gateway_rows_for,
    networks_of_routers,
    vpcs_for,
)

NOT_ATTACHED = "Gateway.NotAttached"


@action(
    "CreateInternetGateway",
    "update_router",
    takes="TagSpecifications",
    over_quota={"internet gateways": "InternetGatewayLimitExceeded"},
)
def create_internet_gateway(call: Call) -> dict[str, Any]:
    """Create a detached gateway."""
    specified = tags.specified(call, names.GATEWAY)
    gateway = services.create_internet_gateway(call.project_id)
    tags.write(call, names.GATEWAY, [gateway.id], specified)
    return {"InternetGateway": shapes([gateway], [])[0]}


@action(
    "AttachInternetGateway",
    "update_router",
    takes="InternetGatewayId VpcId",
    conflict="Resource.AlreadyAssociated",
)
def attach_internet_gateway(call: Call) -> dict[str, Any]:
    """Connect the VPC's router to the external network.

    Elastic IPs work from then on; other traffic is routed there by ``CreateRoute``. A network without a router gets
    one.
    """
    gateway = _named(call)
    vpc = vpc_to_change(call, call.arguments["VpcId"], "update_router")
    services.attach_internet_gateway(gateway, vpc.main or _router_for(call, vpc), outside(call))
    return {}


def _router_for(call: Call, vpc: VpcNetwork) -> Router:
    """Create the router of a network that has no router."""
    enforce(call, {"project_id": call.project_id}, "create_router", "add_router_interface")
    subnets = [subnet for subnet in vpc.subnets if subnet.gateway_ip is not None]
    return network.create_connected_router(call.project_id, subnets, name=vpc.network.name)


def outside(call: Call) -> Network:
    """Return the external network for gateways. Raises Ec2Error if there is none."""
    networks = external_networks_for(call.context)
    if not networks:
        raise errors.unsupported("This cloud has no external network that a router could be connected to")
    return networks[0]


@action("DetachInternetGateway", "update_router", takes="InternetGatewayId VpcId", conflict="DependencyViolation")
def detach_internet_gateway(call: Call) -> dict[str, Any]:
    """Disconnect the VPC's router; the gateway is kept and can be attached to another VPC.

    A gateway without a VPC is not attached, also if the VPC has been deleted: clients ignore that when they clean up.
    """
    gateway, specified = _named(call), call.arguments["VpcId"]
    vpc = vpc_to_change(call, specified, "update_router") if gateway.router_id else None
    if vpc is None or gateway.router_id not in {router.id for router in vpc.routers}:
        message = f"resource {call.arguments['InternetGatewayId']} is not attached to network {specified}"
        raise Ec2Error(NOT_ATTACHED, message)
    services.detach_internet_gateway(gateway)
    return {}


@action("DeleteInternetGateway", "update_router", takes="InternetGatewayId", conflict="DependencyViolation")
def delete_internet_gateway(call: Call) -> dict[str, Any]:
    """Delete a detached gateway."""
    services.delete_internet_gateway(_named(call))
    return {}


def _named(call: Call) -> InternetGateway:
    """Return the gateway of the request. Raises Ec2Error."""
    specified = call.arguments["InternetGatewayId"]
    return to_change(gateway_named(call, specified))


def gateway_named(call: Call, ec2_id: str) -> InternetGateway:
    """Return a gateway of the project, which may not be stored. Raises Ec2Error."""
    return gateway_of(names.one(names.GATEWAY, ec2_id, gateway_rows_for(call.context)))


def to_change(gateway: InternetGateway) -> InternetGateway:
    """Return the gateway as a stored row. A gateway that is derived from a router is stored first."""
    if gateway._state.adding and gateway.router_id is not None:
        services.stand_for_routers(gateway.project_id, [gateway.router_id])
    return gateway


def _shapes(call: Call, rows: Sequence[InternetGateway | Router]) -> list[Shape]:
    gateways = [gateway_of(row) for row in rows]
    routers = [gateway.router_id for gateway in gateways if gateway.router_id]
    return shapes(gateways, vpcs_for(call.context, networks_of_routers(routers)) if routers else [])


def shapes(every: Sequence[InternetGateway], vpcs: Sequence[VpcNetwork]) -> list[Shape]:
    """Return the representations of gateways."""
    keys = [gateway.id for gateway in every]
    tagged = tags.shapes(names.GATEWAY, keys)
    attached: dict[uuid.UUID, list[uuid.UUID]] = {}
    for vpc in vpcs:
        for router in vpc.routers:
            attached.setdefault(router.id, []).append(vpc.network.id)
    known = names.known({names.GATEWAY: keys, names.VPC: [network for each in attached.values() for network in each]})
    return [
        {
            "InternetGatewayId": known[names.GATEWAY][gateway.id],
            "OwnerId": gateway.project_id.hex,
            "Attachments": [
                {"State": "available", "VpcId": known[names.VPC][network_id]}
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
    rows=lambda call: gateway_rows_for(call.context),
    shape=_shapes,
    filters={
        "attachment.state": "Attachments[].State",
        "attachment.vpc-id": "Attachments[].VpcId",
        "internet-gateway-id": Column("InternetGatewayId", "pk", names.GATEWAY),
        "owner-id": Column("OwnerId", "project_id"),
    },
)
