"""The topology of a project: its networks, routers and guests, and their connections."""

import uuid
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from provisioning.common.context import RequestContext
from provisioning.common.values.ids import NOBODY
from provisioning.network.models import FixedIP, FloatingIP, Network, Port, Router
from provisioning.network.records.owners import GUESTS, ROUTER_GATEWAY, ROUTER_INTERFACE
from provisioning.network.selectors.records import named_first, networks_for


@dataclass(frozen=True, slots=True)
class Leg:
    """The port of a router or guest on a network: its addresses, and the floating IP associated with one of them."""

    network_id: uuid.UUID
    addresses: tuple[str, ...]
    floating: str = ""
    gateway: bool = False


@dataclass(frozen=True, slots=True)
class Topology:
    """A project's networks with their subnets, its routers, and ports by the ids of their routers and guests."""

    networks: list[Network]
    routers: list[Router]
    legs: dict[uuid.UUID, list[Leg]]


def topology_for(context: RequestContext, guest_ids: Iterable[uuid.UUID]) -> Topology:
    """Return the topology of the caller's project, with the ports of these guests; five queries, whatever its size.

    Includes networks of other projects that are shared with the project or that it uses; external networks come first.
    """
    project = context.project_id or NOBODY
    guests = set(guest_ids)
    routers = list(named_first(Router.objects.filter(project_id=project).select_related("gateway_port")))
    of_routers = Port.objects.filter(
        device_id__in=[router.id for router in routers], device_owner__in=(ROUTER_INTERFACE, ROUTER_GATEWAY)
    )
    ports = list(of_routers.order_by("id"))
    ports += list(Port.objects.filter(GUESTS, device_id__in=guests).order_by("device_index"))
    addresses: defaultdict[uuid.UUID | None, list[str]] = defaultdict(list)
    for port_id, address in FixedIP.objects.filter(port__in=ports).order_by("id").values_list("port_id", "address"):
        addresses[port_id].append(address)
    floating = dict(FloatingIP.objects.filter(fixed_port__in=ports).values_list("fixed_port_id", "address"))
    legs: defaultdict[uuid.UUID, list[Leg]] = defaultdict(list)
    for port in ports:
        if port.device_id is not None:
            gateway = port.device_owner == ROUTER_GATEWAY
            leg = Leg(port.network_id, tuple(addresses[port.id]), floating.get(port.id, ""), gateway)
            legs[port.device_id].append(leg)
    used = {port.network_id for port in ports}
    seen = named_first(networks_for(context).prefetch_related("subnets"))
    networks = [row for row in seen if row.project_id == project or row.shared_with_caller or row.id in used]
    missing = used - {network.id for network in networks}
    networks += named_first(Network.objects.filter(id__in=missing).prefetch_related("subnets"))
    networks.sort(key=lambda network: not network.external)
    return Topology(networks, routers, dict(legs))


def may_have_topology(project_id: uuid.UUID) -> bool:
    """Whether a network and a router can be auto-allocated for a project, and it has no router yet."""
    if Router.objects.filter(project_id=project_id).exists():
        return False
    return Network.objects.filter(external=True, is_default=True, admin_state_up=True, subnets__ip_version=4).exists()
