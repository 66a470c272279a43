"""Route tables, which are routers. A router is the main table of the networks that it was created for, or that it was
the first router of.

A router has the same routes for all its subnets. So a VPC has one table, or more if the Network API has attached other
routers to its network.
"""

import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Q

from portal.api.ec2.actions.vpcs.vpcs import subnet_named, table_named
from portal.api.ec2.describe import Column, Described, Narrowed, members, under
from portal.api.ec2.frame import Call, Ec2Error, Shape, action, errors, names, tags
from provisioning.ec2 import given, ids
from provisioning.ec2_services.internet_gateways import EVERYWHERE
from provisioning.network import services
from provisioning.network.addressing import network_of
from provisioning.network.models import InternetGateway, Port, Router
from provisioning.network.records.owners import COMPUTE
from provisioning.network.selectors import vpcs as selectors

LOCAL = "local"
ASSOCIATED = {"State": "associated"}


@dataclass(frozen=True, slots=True)
class Related:
    """The EC2 ids of route tables and their related resources, and the ports that routes use."""

    ids: names.Ids
    associations: Mapping[uuid.UUID, str]
    """Network → the id of its association with the main table; subnet → the id of its association with an explicit
    table.
    """
    gateways: Mapping[uuid.UUID, str]
    """Router → its internet gateway."""
    routed: Mapping[uuid.UUID, Sequence[str]]
    """Router → the destinations that are routed through its gateway."""
    hops: Mapping[tuple[uuid.UUID, str], Port]
    """Network and address → the port."""
    tags: Mapping[uuid.UUID, Sequence[Mapping[str, str]]]


def _routers_of_vpcs(specified: Sequence[str]) -> Q:
    vpcs = [each for each in specified if ids.is_id(names.VPC.prefix, each)]
    return Q(pk__in=selectors.routers_of_networks(ids.resources_of(names.VPC.prefix, vpcs).values()))


def _shapes(call: Call, routers: Sequence[Router]) -> list[Shape]:
    """Return routers as route tables; whether a router is the main table depends on the routers of its networks."""
    networks = selectors.networks_of_routers([router.id for router in routers])
    tables = {table.router.id: table for table in selectors.tables_of(selectors.vpcs_for(call.context, networks))}
    every = [tables[router.id] for router in routers]
    related = _related(call, every)
    return [_shape(table, related) for table in every]


def _related(call: Call, every: Sequence[selectors.Table]) -> Related:
    keys = [table.router.id for table in every]
    networks = {vpc.network.id for table in every for vpc in table.vpcs}
    subnets = {subnet for table in every for subnet in table.subnets}
    side = {subnet for table in every if not table.main_of for subnet in table.subnets}
    rows = selectors.gateways_for(call.context, keys)
    gateways = {gateway.router_id: gateway.id for gateway in rows if gateway.router_id}
    ports = selectors.hops(
        call.context, {route["nexthop"] for table in every for route in table.router.routes}, networks
    )
    ec2_ids = names.ids_of(
        {
            names.ROUTE_TABLE: keys,
            names.VPC: networks,
            names.SUBNET: subnets,
            names.ROUTE_ASSOCIATION: networks | side,
            names.GATEWAY: gateways.values(),
            names.INTERFACE: [port.id for port in ports.values()],
            names.INSTANCE: [_instance_of(port) for port in ports.values()],
        }
    )
    association = names.ROUTE_ASSOCIATION
    return Related(
        ec2_ids,
        {**ids.given(association.prefix, subnets), **ec2_ids[association]},
        {router: ec2_ids[names.GATEWAY][gateway] for router, gateway in gateways.items()},
        routed(rows),
        ports,
        tags.shapes(names.ROUTE_TABLE, keys),
    )


def _instance_of(port: Port) -> uuid.UUID | None:
    return port.device_id if port.device_owner.startswith(COMPUTE) else None


def _shape(table: selectors.Table, related: Related) -> Shape:
    ec2_id = related.ids[names.ROUTE_TABLE][table.router.id]
    return {
        "RouteTableId": ec2_id,
        "VpcId": related.ids[names.VPC][table.vpcs[0].network.id],
        "_VpcIds": [related.ids[names.VPC][vpc.network.id] for vpc in table.vpcs],
        "OwnerId": table.router.project_id.hex,
        "Associations": [
            {"RouteTableId": ec2_id, "AssociationState": ASSOCIATED, **each} for each in _associations(table, related)
        ],
        "Routes": [{"State": "active", **each} for each in _routes(table, related)],
        "PropagatingVgws": [],
        "Tags": related.tags[table.router.id],
    }


def _associations(table: selectors.Table, related: Related) -> Iterator[Shape]:
    for vpc in table.main_of:
        yield {"Main": True, "RouteTableAssociationId": related.associations[vpc.network.id]}
    for subnet in sorted(table.subnets):
        if subnet in related.associations:
            association = related.associations[subnet]
            yield {"Main": False, "RouteTableAssociationId": association, "SubnetId": related.ids[names.SUBNET][subnet]}


def _routes(table: selectors.Table, related: Related) -> Iterator[Shape]:
    for cidr in local_ranges(table):
        yield {destination_of(cidr): cidr, "GatewayId": LOCAL, "Origin": "CreateRouteTable"}
    for cidr in related.routed.get(table.router.id, ()):
        yield {destination_of(cidr): cidr, "GatewayId": related.gateways[table.router.id], "Origin": "CreateRoute"}
    for route in table.router.routes:
        cidr = network_of(route["destination"])
        shape = {destination_of(cidr): cidr, "Origin": "CreateRoute"}
        hops = (related.hops.get((vpc.network.id, route["nexthop"])) for vpc in table.vpcs)
        port = next((each for each in hops if each is not None), None)
        if port is not None:
            shape["NetworkInterfaceId"] = related.ids[names.INTERFACE][port.id]
            instance = _instance_of(port)
            if instance is not None:
                shape |= {"InstanceId": related.ids[names.INSTANCE][instance], "InstanceOwnerId": port.project_id.hex}
        yield shape


def destination_of(cidr: str) -> str:
    """Return the name of the member for a route's destination."""
    return "DestinationIpv6CidrBlock" if ":" in cidr else "DestinationCidrBlock"


def local_ranges(table: selectors.Table) -> list[str]:
    """Return the ranges of the router's networks."""
    return [cidr for vpc in table.vpcs for cidr in (*vpc.cidrs, *vpc.cidrs6)]


def routed(gateways: Sequence[InternetGateway]) -> dict[uuid.UUID, list[str]]:
    """Return router → the destinations routed through its gateway.

    These are the routes created by EC2, or the default route of each IP version if the Network API has connected the
    router.
    """
    requested, result = given.values_of([gateway.id for gateway in gateways]), {}
    for gateway in gateways:
        if gateway.router is not None and gateway.router_id is not None:
            there = reachable(gateway.router)
            named = requested.get(gateway.id, {}).get(given.ROUTES)
            result[gateway.router_id] = there if named is None else [each for each in there if each in named]
    return result


def reachable(router: Router) -> list[str]:
    """Return the default routes of the router's IP versions on the external network."""
    port = router.gateway_port
    versions = {":" in fixed.address for fixed in port.fixed_ips.all()} if port is not None else set()
    return [EVERYWHERE[is_ipv6] for is_ipv6 in sorted(versions)]


DESCRIBE_ROUTE_TABLES = Described(
    action="DescribeRouteTables",
    rule="get_router",
    member="RouteTables",
    kind=names.ROUTE_TABLE,
    ids="RouteTableIds",
    rows=lambda call: selectors.table_routers_for(call.context),
    shape=_shapes,
    filters={
        **under(
            "Associations[]",
            members("Main RouteTableAssociationId RouteTableId SubnetId"),
            prefix="association.",
        ),
        "owner-id": Column("OwnerId", "project_id"),
        "route-table-id": Column("RouteTableId", "pk", names.ROUTE_TABLE),
        **under(
            "Routes[]",
            members("DestinationCidrBlock DestinationIpv6CidrBlock GatewayId InstanceId Origin State"),
            prefix="route.",
        ),
        "vpc-id": Narrowed("_VpcIds", _routers_of_vpcs, exact=True),
    },
)


@action(
    "AssociateRouteTable",
    "add_router_interface",
    takes="RouteTableId SubnetId",
    conflict="Resource.AlreadyAssociated",
)
def associate_route_table(call: Call) -> Shape:
    """Attach a table's router to a subnet that has no router. If the router is already attached, only the association
    is stored.
    """
    if not call.get("SubnetId"):
        raise errors.missing_parameter("SubnetId")
    table, subnet = table_named(call, call.arguments["RouteTableId"]), subnet_named(call, call.arguments["SubnetId"])
    call.enforce("add_router_interface", target={"project_id": table.router.project_id})
    if subnet.network_id not in {vpc.network.id for vpc in table.vpcs}:
        msg = "The route table and the subnet belong to different networks"
        raise Ec2Error("InvalidParameterValue", msg)
    if subnet.id not in table.subnets:
        others = [
            other for other in selectors.tables_of(selectors.vpcs_for(call.context)) if subnet.id in other.subnets
        ]
        if others:
            raise errors.unsupported("The subnet is behind another router, and a subnet has one here")
        services.add_interface_by_subnet(table.router, subnet)
    return {
        "AssociationId": ids.keep(names.ROUTE_ASSOCIATION.prefix, [subnet.id])[subnet.id],
        "AssociationState": ASSOCIATED,
    }


@action("DisassociateRouteTable", "remove_router_interface", takes="AssociationId")
def disassociate_route_table(call: Call) -> Shape:
    """Remove the explicit association of a subnet, so that it uses the main table of its VPC."""
    specified = call.arguments["AssociationId"]
    names.check_form(names.ROUTE_ASSOCIATION, [specified])
    tables = selectors.tables_of(selectors.vpcs_for(call.context))
    association = names.ROUTE_ASSOCIATION.prefix
    always = {vpc.network.id for table in tables for vpc in table.main_of}
    always |= {subnet for table in tables if not table.main_of for subnet in table.subnets}
    subnets = {subnet for table in tables for subnet in table.subnets}  # a subnet without an id has no association
    associations = {**ids.given(association, subnets), **ids.ids_of(association, always)}
    requested = next((each for each, ec2_id in associations.items() if ec2_id == specified), None)
    if any(vpc.network.id == requested for table in tables for vpc in table.main_of):
        raise errors.invalid_value("AssociationId", specified, "The main route table cannot be disassociated.")
    table = next((table for table in tables if requested in table.subnets), None)
    if table is None or requested is None:
        raise names.not_found(names.ROUTE_ASSOCIATION, [specified])
    call.enforce("remove_router_interface", target={"project_id": table.router.project_id})
    if not table.main_of:
        raise errors.unsupported(
            "The subnet is connected to a router that is not the VPC's main router, and cannot be moved"
        )
    ids.forget(association, requested)
    return {}
