"""Connections of a guest's port to external networks, for floating IPs, and the obstacles to a connection."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Q

from provisioning.common.context import RequestContext
from provisioning.common.values.ids import NOBODY, read_id
from provisioning.network.models import FixedIP, FloatingIP, Network, Port, Router, Subnet
from provisioning.network.records.owners import GUESTS, ROUTER_INTERFACE
from provisioning.network.selectors.records import networks_for
from provisioning.network.selectors.routing import external_networks_for, floating_ips_for, routers_for


@dataclass(frozen=True, slots=True)
class Missing:
    """The first obstacle to a floating IP of a port. ``what`` is one of these:

    * ``address``: the port has no IPv4 address.
    * ``external``: there is no external network.
    * ``gateway``: the router on the subnet has no external gateway.
    * ``gateway_ip``: the subnet has neither a router nor a gateway address.
    * ``interface``: the subnet has no router, but the project has a router with an external gateway.
    * ``router``: the subnet has no router, and the project has no router with an external gateway.

    ``subnet`` and ``router``: the affected ones; ``mine``: whether the project may remove the obstacle.
    """

    what: str
    subnet: Subnet | None = None
    router: Router | None = None
    mine: bool = False


@dataclass(frozen=True, slots=True)
class WaysOut:
    """The external networks that routers connect to a port's IPv4 addresses, and the project's floating IPs on them.

    ``free`` are not associated; ``taken`` are associated with other ports; ``missing``: the obstacle if there are no
    networks.
    """

    addresses: Sequence[str]
    networks: Sequence[Network]
    free: Sequence[FloatingIP]
    taken: Sequence[FloatingIP]
    missing: Missing | None = None


def ways_out_of(context: RequestContext, port: Port) -> WaysOut:
    """Return the networks and floating IPs that can be associated with a port of the project."""
    fixed = list(port.fixed_ips.select_related("subnet").filter(subnet__ip_version=4).order_by("id"))
    routed = _routed(Q(subnet__in=[row.subnet_id for row in fixed]))
    needed = {network for networks in routed.values() for network in networks}
    networks = list(networks_for(context).filter(id__in=needed, external=True).order_by("-is_default", "name", "id"))
    if not networks:
        return WaysOut(
            [row.address for row in fixed], [], [], [], _missing(context, port, [row.subnet for row in fixed])
        )
    rows = floating_ips_for(context).filter(network__in=networks, project_id=port.project_id)
    there = [row for row in rows.order_by("created_at", "id") if not row.port_forwardings.all()]
    reached = [row.address for row in fixed if routed.get(row.subnet_id)]
    return WaysOut(
        reached,
        networks,
        [row for row in there if row.fixed_port_id is None],
        [row for row in there if row.fixed_port_id not in {None, port.id}],
    )


def external_network_for(context: RequestContext, requested: Sequence[Mapping[str, str | None]]) -> Network | None:
    """Return the external network from which a server with these interfaces can get a floating IP; None: there is none.

    ``requested``: the interfaces, as in ``ports.allocate``. Of several, the default network is preferred.
    """
    return next(iter(reachable_external_networks(context, requested)), None)


def reachable_external_networks(
    context: RequestContext, requested: Sequence[Mapping[str, str | None]]
) -> list[Network]:
    """Return the external networks that routers connect to the networks or ports of these interfaces."""
    networks = [key for entry in requested if (key := read_id(entry.get("network_id")))]
    ports = [key for entry in requested if (key := read_id(entry.get("port_id")))]
    if ports:
        networks += Port.objects.filter(pk__in=ports).values_list("network_id", flat=True)
    routed = _routed(Q(subnet__network__in=networks, subnet__ip_version=4))
    needed = {outside for each in routed.values() for outside in each}
    if not needed:
        return []
    rows = networks_for(context).filter(id__in=needed, external=True, subnets__ip_version=4).distinct()
    return list(rows.order_by("-is_default", "name", "id"))


def reachable_addresses(context: RequestContext, network_id: uuid.UUID) -> list[FixedIP]:
    """Return the IPv4 addresses of the project's guests that an external network's floating IPs can reach."""
    gateways = Router.objects.filter(gateway_port__network_id=network_id)
    legs = Port.objects.filter(device_owner=ROUTER_INTERFACE, device_id__in=gateways.values("id"))
    subnets = FixedIP.objects.filter(port__in=legs, subnet__ip_version=4).values("subnet_id")
    guests = Port.objects.filter(GUESTS, project_id=context.project_id or NOBODY, device_id__isnull=False)
    rows = FixedIP.objects.filter(subnet__in=subnets, port__in=guests).select_related("port__network")
    return list(rows.order_by("port__created_at", "id"))


def _routed(where: Q) -> dict[uuid.UUID, set[uuid.UUID]]:
    """Return subnet → the external networks that its routers are connected to, for the fixed IPs ``where``."""
    rows = FixedIP.objects.filter(where, port__device_owner=ROUTER_INTERFACE)
    legs = [(device, subnet) for device, subnet in rows.values_list("port__device_id", "subnet_id") if device]
    if not legs:
        return {}
    ids = [device for device, _ in legs]
    ways = dict(
        Router.objects.filter(id__in=ids, gateway_port__isnull=False).values_list("id", "gateway_port__network_id")
    )
    result: dict[uuid.UUID, set[uuid.UUID]] = {}
    for device, subnet in legs:
        if device in ways:
            result.setdefault(subnet, set()).add(ways[device])
    return result


def _missing(context: RequestContext, port: Port, subnets: Sequence[Subnet]) -> Missing:
    if not subnets:
        return Missing("address", mine=True)
    if not external_networks_for(context):
        return Missing("external")
    subnet = subnets[0]
    legs = Port.objects.filter(device_owner=ROUTER_INTERFACE, fixed_ips__subnet=subnet)
    router = Router.objects.filter(id__in=legs.values("device_id")).order_by("created_at").first()
    if router is not None:
        return Missing("gateway", subnet, router, mine=router.project_id == context.project_id)
    if subnet.gateway_ip is None:
        return Missing("gateway_ip", subnet, mine=subnet.network.project_id == context.project_id)
    own = routers_for(context).filter(gateway_port__isnull=False).order_by("created_at", "id").first()
    return Missing("interface" if own else "router", subnet, own, mine=True)
