"""EC2's view of networks: VPCs with subnets, a main router, and internet gateways."""

import uuid
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.db.models import Count, F, Q, QuerySet

from provisioning.common.context import RequestContext
from provisioning.network import addressing
from provisioning.network.models import (
    FixedIP,
    GroupVpc,
    InternetGateway,
    Network,
    Port,
    Router,
    SecurityGroup,
    Subnet,
    Vpc,
)
from provisioning.network.records.owners import ROUTER_INTERFACE
from provisioning.network.selectors.records import networks_for, ports_for, subnets_for, usable_networks_for
from provisioning.network.selectors.routing import routers_for
from provisioning.network.selectors.visibility import own


@dataclass(slots=True)
class VpcNetwork:
    """A network with the attributes of a VPC."""

    network: Network
    cidr: str | None
    """The range that EC2 created the network with; None for a network of the Networking API."""
    subnets: Sequence[Subnet]
    """The network's subnets, the oldest first."""
    routers: list[Router] = field(default_factory=list)
    """The caller's routers on the network, the main router first."""

    @property
    def cidrs(self) -> list[str]:
        """The IPv4 ranges: the range that EC2 specified, or the ranges of the subnets."""
        return [self.cidr] if self.cidr else [each.cidr for each in self.subnets if each.ip_version == 4]

    @property
    def cidrs6(self) -> list[str]:
        return [each.cidr for each in self.subnets if each.ip_version == 6]

    @property
    def main(self) -> Router | None:
        """The router that new subnets are attached to."""
        return self.routers[0] if self.routers else None


@dataclass(slots=True)
class Table:
    """EC2's route table: a router with the networks and subnets that it is attached to."""

    router: Router
    vpcs: list[VpcNetwork] = field(default_factory=list)
    subnets: set[uuid.UUID] = field(default_factory=set)

    @property
    def main_of(self) -> list[VpcNetwork]:
        """The VPCs whose main route table this is."""
        return [vpc for vpc in self.vpcs if vpc.main is not None and vpc.main.id == self.router.id]


def vpc_networks_for(context: RequestContext) -> QuerySet[Network]:
    """Return the networks that are VPCs to the caller: its own and shared ones, except external networks."""
    return networks_for(context).filter(external=False)


def vpc_subnets_for(context: RequestContext) -> QuerySet[Subnet]:
    """Return the subnets that the caller sees on its VPCs."""
    return subnets_for(context).filter(network__in=vpc_networks_for(context)).select_related("network")


def vpcs_for(context: RequestContext, network_ids: Collection[uuid.UUID] | None = None) -> list[VpcNetwork]:
    """Return the VPCs that the caller sees, or those with these ids, the oldest first; five queries."""
    rows = vpc_networks_for(context).prefetch_related("subnets").order_by("created_at", "id")
    networks = list(rows if network_ids is None else rows.filter(pk__in=network_ids))
    made = {row.network_id: row for row in Vpc.objects.filter(network__in=networks)}
    legs = _legs(networks)
    needed = {router for each in legs.values() for router in each} | {row.router_id for row in made.values()}
    routers = {row.id: row for row in _routers(context, needed)}
    result = []
    for network in networks:
        row = made.get(network.id)
        first = row.router_id if row is not None else None
        there = {first, *legs.get(network.id, ())} & routers.keys()
        ordered = sorted(there, key=lambda key: (key != first, routers[key].created_at, key))
        result.append(
            VpcNetwork(
                network,
                row.cidr if row is not None else None,
                sorted(network.subnets.all(), key=lambda subnet: (subnet.created_at, subnet.id)),
                [routers[key] for key in ordered if key],
            )
        )
    return result


def tables_of(vpcs: Sequence[VpcNetwork]) -> list[Table]:
    """Return the routers of VPCs as route tables, the oldest first; one query."""
    result: dict[uuid.UUID, Table] = {}
    for vpc in vpcs:
        for router in vpc.routers:
            result.setdefault(router.id, Table(router)).vpcs.append(vpc)
    rows = FixedIP.objects.filter(port__device_id__in=list(result), port__device_owner=ROUTER_INTERFACE)
    for router_id, subnet_id in rows.values_list("port__device_id", "subnet_id"):
        if router_id is not None:
            result[router_id].subnets.add(subnet_id)
    return sorted(result.values(), key=lambda table: (table.router.created_at, table.router.id))


def _routers(context: RequestContext, ids: Iterable[uuid.UUID | None]) -> QuerySet[Router]:
    rows = routers_for(context).filter(pk__in=[each for each in ids if each])
    return rows.select_related("gateway_port__network").prefetch_related("gateway_port__fixed_ips")


def _legs(networks: Sequence[Network]) -> dict[uuid.UUID, set[uuid.UUID]]:
    result: dict[uuid.UUID, set[uuid.UUID]] = {}
    legs = Port.objects.filter(device_owner=ROUTER_INTERFACE, network__in=networks, device_id__isnull=False)
    for network_id, router_id in legs.values_list("network_id", "device_id"):
        if router_id is not None:
            result.setdefault(network_id, set()).add(router_id)
    return result


def table_routers_for(context: RequestContext) -> QuerySet[Router]:
    """Return the caller's routers that are route tables: routers that are attached to a VPC or were created with
    one.
    """
    networks = vpc_networks_for(context).values("pk")
    legs = Port.objects.filter(device_owner=ROUTER_INTERFACE, network__in=networks, device_id__isnull=False)
    created = Vpc.objects.filter(network__in=networks).values("router_id")
    return routers_for(context).filter(Q(pk__in=legs.values("device_id")) | Q(pk__in=created))


def networks_of_routers(router_ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Return the networks that routers are attached to or were created with."""
    legs = Port.objects.filter(device_owner=ROUTER_INTERFACE, device_id__in=router_ids)
    created = Vpc.objects.filter(router__in=router_ids)
    return {*legs.values_list("network_id", flat=True), *created.values_list("network_id", flat=True)}


def routers_of_networks(network_ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Return the routers that are attached to networks or were created with them."""
    legs = Port.objects.filter(device_owner=ROUTER_INTERFACE, network__in=network_ids, device_id__isnull=False)
    created = Vpc.objects.filter(network__in=network_ids, router__isnull=False)
    result = {*legs.values_list("device_id", flat=True), *created.values_list("router_id", flat=True)}
    return {each for each in result if each is not None}


def default_network(context: RequestContext) -> Network | None:
    """Return the only network that guests of the project can be attached to, the default of requests, or None."""
    networks = list(usable_networks_for(context)[:2])
    return networks[0] if len(networks) == 1 and not networks[0].external else None


def free_addresses(subnets: Iterable[Subnet]) -> dict[uuid.UUID, int]:
    """Return subnet → number of its addresses that no port uses; one query."""
    every = {subnet.id: subnet for subnet in subnets}
    rows = FixedIP.objects.filter(subnet__in=list(every)).exclude(address=F("subnet__gateway_ip"))
    used = dict(rows.values_list("subnet_id").annotate(Count("pk")).order_by())
    return {
        key: max(0, addressing.size_of(subnet.allocation_pools) - used.get(key, 0)) for key, subnet in every.items()
    }


def gateways_for(context: RequestContext, router_ids: Collection[uuid.UUID] | None = None) -> list[InternetGateway]:
    """Return the project's internet gateways, the oldest first. ``router_ids``: only the gateways of these routers."""
    stored, routers = gateway_rows_for(context)
    if router_ids is not None:
        stored, routers = stored.filter(router__in=router_ids), routers.filter(pk__in=router_ids)
    return sorted(map(gateway_of, [*stored, *routers]), key=lambda each: (each.created_at, each.id))


def gateway_rows_for(context: RequestContext) -> tuple[QuerySet[Any], QuerySet[Any]]:
    """Return the project's internet gateways as stored gateways and as routers.

    EC2 has created some of them. The others represent routers that the Networking API has connected to an external
    network; such a gateway may not be stored; `gateway_of` then uses the id and the time of its router.
    """
    stored = InternetGateway.objects.filter(own(context)).filter(Q(made=True) | Q(router__gateway_port__isnull=False))
    known = InternetGateway.objects.filter(router__isnull=False).values("router_id")
    routers = routers_for(context).filter(own(context), gateway_port__isnull=False).exclude(pk__in=known)
    return (
        stored.select_related("router__gateway_port__network").prefetch_related("router__gateway_port__fixed_ips"),
        routers.select_related("gateway_port__network").prefetch_related("gateway_port__fixed_ips"),
    )


def gateway_of(row: InternetGateway | Router) -> InternetGateway:
    """Return the gateway of a row of ``gateway_rows_for``."""
    if isinstance(row, InternetGateway):
        return row
    return InternetGateway(pk=row.id, project_id=row.project_id, router=row, made=False, created_at=row.created_at)


def hops(
    context: RequestContext, addresses: Collection[str], networks: Collection[uuid.UUID]
) -> dict[tuple[uuid.UUID, str], Port]:
    """Return network and address → the project's port with this address on the network."""
    rows = ports_for(context).filter(network__in=networks, fixed_ips__address__in=addresses).distinct()
    return {
        (port.network_id, fixed.address): port
        for port in rows
        for fixed in port.fixed_ips.all()
        if fixed.address in addresses
    }


def default_group_of(network_id: uuid.UUID) -> SecurityGroup | None:
    """Return the default group of a VPC; None for networks that were not created as a VPC."""
    row = GroupVpc.objects.filter(network=network_id, is_default=True).select_related("group").first()
    return row.group if row is not None else None


def is_default_of_vpc(group: SecurityGroup) -> bool:
    return GroupVpc.objects.filter(group=group, is_default=True).exists()


def default_group_ids(network_ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, uuid.UUID]:
    """Return network → its own default group, for networks that have one."""
    rows = GroupVpc.objects.filter(network__in=network_ids, is_default=True)
    return dict(rows.values_list("network_id", "group_id"))


def vpc_of_groups(group_ids: Collection[uuid.UUID]) -> Mapping[uuid.UUID, uuid.UUID]:
    """Return group → the network in whose VPC the group was created, for groups that were created in a VPC."""
    rows = GroupVpc.objects.filter(group__in=group_ids)
    return dict(rows.values_list("group_id", "network_id"))
