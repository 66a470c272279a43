"""Internet gateways: the connection of a VPC's router to the external network."""

import uuid
from collections.abc import Collection, Sequence
from typing import Any

from portal.api.ec2 import names, owned, tags
from portal.api.ec2.actions.vpcs.lookups import enforce, vpc_to_change
from portal.api.ec2.filters import Filterable
from portal.api.ec2.paging import page
from portal.api.ec2.protocol import errors
from portal.api.ec2.protocol.errors import Ec2Error
from portal.api.ec2.registry import Call, action
from provisioning.common.context import RequestContext
from provisioning.ec2 import ids
from provisioning.ec2 import tags as tag_records
from provisioning.network import services as network
from provisioning.network.models import InternetGateway, Network, Router
from provisioning.network.selectors.routing import external_networks_for
from provisioning.network.selectors.vpcs import (
    VpcNetwork,
    gateways_for,
    vpcs_for,
)
from provisioning.network.services.routing import internet_gateways as services

Shape = dict[str, Any]
NOT_ATTACHED = "Gateway.NotAttached"


@action(
    "CreateInternetGateway",
    "update_router",
    takes="TagSpecifications",
    over_quota={"internet gateways": "InternetGatewayLimitExceeded"},
)
def create_internet_gateway(call: Call) -> dict[str, Any]:
    """Create a detached gateway."""
    given = tags.specified(call, names.GATEWAY)
    gateway = services.create_internet_gateway(call.project_id)
    tags.write(call, names.GATEWAY, [gateway.id], given)
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
    """Disconnect the VPC's router; the gateway is kept and can be attached to another VPC."""
    gateway = _named(call)
    vpc = vpc_to_change(call, call.arguments["VpcId"], "update_router")
    if gateway.router_id not in {router.id for router in vpc.routers}:
        words = f"resource {call.arguments['InternetGatewayId']} is not attached to network {call.arguments['VpcId']}"
        raise Ec2Error(NOT_ATTACHED, words)
    services.detach_internet_gateway(gateway)
    return {}


@action("DeleteInternetGateway", "update_router", takes="InternetGatewayId", conflict="DependencyViolation")
def delete_internet_gateway(call: Call) -> dict[str, Any]:
    """Delete a detached gateway."""
    services.delete_internet_gateway(_named(call))
    return {}


def _named(call: Call) -> InternetGateway:
    """Return the gateway of the request. Raises Ec2Error."""
    given = call.arguments["InternetGatewayId"]
    (gateway,) = names.chosen(names.GATEWAY, [given], gateways_for(call.context), lambda each: each.id)
    return to_change(gateway)


def to_change(gateway: InternetGateway) -> InternetGateway:
    """Return the gateway as a stored row. A gateway that is derived from a router is stored first."""
    if gateway._state.adding and gateway.router_id is not None:
        services.stand_for_routers(gateway.project_id, [gateway.router_id])
    return gateway


@action(
    "DescribeInternetGateways",
    "get_router",
    takes="InternetGatewayIds Filters MaxResults NextToken",
    missing=names.GATEWAY.missing,
)
def describe_internet_gateways(call: Call) -> dict[str, Any]:
    """List the project's gateways; an attached gateway has the VPCs of its router."""
    wanted = call.get("InternetGatewayIds", [])
    every = names.chosen(names.GATEWAY, wanted, gateways_for(call.context), lambda gateway: gateway.id)
    found = shapes(every, vpcs_for(call.context))
    places = {
        shape["InternetGatewayId"]: (gateway.created_at.isoformat(), str(gateway.id))
        for gateway, shape in zip(every, found, strict=True)
    }
    found = _FILTERS.passing(found, call.get("Filters", []))
    shown, token = page(call, found, lambda shape: places[shape["InternetGatewayId"]])
    return {"InternetGateways": shown, "NextToken": token}


def shapes(every: Sequence[InternetGateway], vpcs: Sequence[VpcNetwork]) -> list[Shape]:
    """Return the representations of gateways."""
    keys = [gateway.id for gateway in every]
    own, tagged = ids.ids_of(names.GATEWAY.prefix, keys), tag_records.tags_of(names.GATEWAY.prefix, keys)
    led: dict[uuid.UUID, list[uuid.UUID]] = {}
    for vpc in vpcs:
        for router in vpc.routers:
            led.setdefault(router.id, []).append(vpc.network.id)
    known = ids.ids_of(names.VPC.prefix, {network_id for each in led.values() for network_id in each})
    return [
        {
            "InternetGatewayId": own[gateway.id],
            "OwnerId": gateway.project_id.hex,
            "Attachments": [
                {"State": "available", "VpcId": known[network_id]}
                for network_id in (led.get(gateway.router_id, []) if gateway.router_id else [])
            ],
            "Tags": tags.shape(tagged.get(gateway.id, {})),
        }
        for gateway in every
    ]


_FILTERS: Filterable[Shape] = Filterable(
    {
        "attachment.state": lambda shape: [each["State"] for each in shape["Attachments"]],
        "attachment.vpc-id": lambda shape: [each["VpcId"] for each in shape["Attachments"]],
        "internet-gateway-id": lambda shape: shape["InternetGatewayId"],
        "owner-id": lambda shape: shape["OwnerId"],
    },
    tags=tags.of_shape,
)


def _owned(context: RequestContext, wanted: Collection[uuid.UUID]) -> list[uuid.UUID]:
    return [gateway.id for gateway in gateways_for(context) if gateway.id in wanted]


owned.register(names.GATEWAY, _owned)
