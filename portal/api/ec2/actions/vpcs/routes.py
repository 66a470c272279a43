"""Routes of a router: the default route through its internet gateway, and routes through interfaces of instances."""

from portal.api.ec2.actions.instances.shapes import instances_named
from portal.api.ec2.actions.vpcs.route_tables import LOCAL, local_ranges, reachable, routed
from portal.api.ec2.actions.vpcs.subnets import gateway_named, outside, to_change
from portal.api.ec2.actions.vpcs.vpcs import table_named
from portal.api.ec2.frame import Call, Ec2Error, Shape, action, errors, names
from provisioning.ec2_services.internet_gateways import EVERYWHERE, route_through
from provisioning.network import addressing, selectors, services
from provisioning.network.errors import RoutesExhaustedError
from provisioning.network.models import InternetGateway, Port
from provisioning.network.selectors.vpcs import Table, gateways_for

RULES = ("update_router", "add_extraroutes", "remove_extraroutes")
DESTINATIONS = ("DestinationCidrBlock", "DestinationIpv6CidrBlock")
TARGETS = ("GatewayId", "InstanceId", "NetworkInterfaceId")
TAKES = " ".join(("RouteTableId", *DESTINATIONS, *TARGETS))
NO_ROUTE = "InvalidRoute.NotFound"


@action("CreateRoute", *RULES, takes=TAKES, conflict="RouteAlreadyExists")
def create_route(call: Call) -> Shape:
    """Create a route for a range through an interface, or a default route through the internet gateway."""
    table = _table(call)
    destination = _destination(call)
    gateway = _gateway(call, table)
    if gateway is not None and destination in _through_gateway(call, table):
        return {"Return": True}
    if destination in _there(call, table) or destination in local_ranges(table):
        raise Ec2Error("RouteAlreadyExists", f"The route identified by {destination} already exists.")
    _add(call, table, destination, gateway)
    return {"Return": True}


@action("ReplaceRoute", *RULES, takes=TAKES, conflict="DependencyViolation")
def replace_route(call: Call) -> Shape:
    """Change the target of a route."""
    table = _table(call)
    destination = _destination(call)
    gateway = _gateway(call, table)
    if destination not in _there(call, table):
        raise Ec2Error(NO_ROUTE, f"no route with destination-cidr-block {destination} in route table")
    if gateway is not None and destination in _through_gateway(call, table):
        return {}
    _remove(call, table, destination)
    _add(call, _table(call), destination, gateway)
    return {}


@action(
    "DeleteRoute",
    *RULES,
    takes=f"RouteTableId {' '.join(DESTINATIONS)}",
    conflict="DependencyViolation",
)
def delete_route(call: Call) -> Shape:
    """Delete a route. After deletion of the default route the internet gateway stays attached, for elastic IPs."""
    table = _table(call)
    destination = _destination(call)
    if destination in local_ranges(table):
        raise errors.invalid_value("DestinationCidrBlock", destination, "The local route cannot be deleted.")
    if destination not in _there(call, table):
        raise Ec2Error(NO_ROUTE, f"no route with destination-cidr-block {destination} in route table")
    _remove(call, table, destination)
    return {}


def _table(call: Call) -> Table:
    table = table_named(call, call.arguments["RouteTableId"])
    call.enforce(*RULES, target={"project_id": table.router.project_id})
    return table


def _destination(call: Call) -> str:
    """Return the destination. Raises Ec2Error unless the request specifies it in exactly one form, as an IPv4 or an
    IPv6 range.
    """
    specified = [(name, call.arguments[name]) for name in DESTINATIONS if call.get(name)]
    if len(specified) != 1:
        if specified:
            raise errors.combination(f"Only one of {' and '.join(DESTINATIONS)} is given")
        raise errors.missing_parameter(DESTINATIONS[0])
    ((name, text),) = specified
    try:
        destination = addressing.read_prefix(text).cidr
    except ValueError:
        raise errors.invalid_value(name, text, "This is not a valid CIDR block.") from None
    if (destination.version == 6) != (name == DESTINATIONS[1]):
        raise errors.invalid_value(name, text, "This is a range of the other IP version.")
    return str(destination)


def _through_gateway(call: Call, table: Table) -> list[str]:
    """Return the destinations routed through the table's internet gateway."""
    return routed(gateways_for(call.context)).get(table.router.id, [])


def _there(call: Call, table: Table) -> set[str]:
    """Return the destinations of a table's routes other than the local ones."""
    return {
        *_through_gateway(call, table),
        *(addressing.network_of(route["destination"]) for route in table.router.routes),
    }


def _gateway(call: Call, table: Table) -> InternetGateway | None:
    """Return the internet gateway of a new route, or None if its target is an interface. Raises Ec2Error."""
    specified = [name for name in TARGETS if call.get(name)]
    if len(specified) > 1:
        raise errors.combination(f"Only one of {', '.join(TARGETS)} is given")
    if not specified:
        raise errors.missing_parameter(TARGETS[0])
    target = call.get("GatewayId")
    if target is None:
        return None
    if target == LOCAL:
        raise errors.unsupported("Local routes exist automatically")
    gateway = gateway_named(call, target)
    if gateway.router_id != table.router.id:
        msg = f"route table {call.arguments['RouteTableId']} and network gateway {target} belong to different networks"
        raise Ec2Error("InvalidParameterValue", msg)
    return to_change(gateway)


def _add(call: Call, table: Table, destination: str, gateway: InternetGateway | None) -> None:
    if gateway is None:
        _add_through(call, table, destination, _port(call))
        return
    if destination not in EVERYWHERE:
        raise errors.unsupported("Only default routes may use an internet gateway")
    if destination == EVERYWHERE[1] and destination not in reachable(table.router):
        raise errors.unsupported("The external network has no addresses of IPv6")
    port = table.router.gateway_port
    network = port.network if port is not None else outside(call)
    route_through(gateway, network, {*_through_gateway(call, table), destination})


def _add_through(call: Call, table: Table, destination: str, port: Port) -> None:
    version = 6 if ":" in destination else 4
    own = sorted(port.fixed_ips.all(), key=lambda fixed: fixed.id)
    hop = next(
        (each for each in own if each.subnet_id in table.subnets and (":" in each.address) == (version == 6)), None
    )
    if hop is None:
        msg = f"The interface has no IPv{version} address on a subnet of the route table's router"
        raise Ec2Error("InvalidParameterValue", msg)
    try:
        services.add_routes(table.router, [{"destination": destination, "nexthop": hop.address}])
    except RoutesExhaustedError as error:
        raise Ec2Error("RouteLimitExceeded", error.message) from error


def _port(call: Call) -> Port:
    """Return the interface of a new route: the specified one, or the only interface of an instance. Raises Ec2Error."""
    interface_id, instance_id = call.get("NetworkInterfaceId"), call.get("InstanceId")
    if interface_id:
        return names.one(names.INTERFACE, interface_id, selectors.ports_for(call.context))
    (instance,) = instances_named(call, [instance_id])
    ports = selectors.interfaces_of(instance.id)
    if len(ports) != 1:
        msg = f"The instance '{instance_id}' has {len(ports)} interfaces. Please specify an interface ID."
        raise Ec2Error("InvalidInstanceID", msg)
    return ports[0]


def _remove(call: Call, table: Table, destination: str) -> None:
    extra = [route for route in table.router.routes if addressing.network_of(route["destination"]) == destination]
    if extra:
        services.remove_routes(table.router, extra)
        return
    gateway = next(each for each in gateways_for(call.context) if each.router_id == table.router.id)
    port = table.router.gateway_port
    if port is not None:
        route_through(to_change(gateway), port.network, set(_through_gateway(call, table)) - {destination})
