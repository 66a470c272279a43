"""Uses of networks and subnets, and free ranges."""

import secrets
import uuid
from collections.abc import Collection, Iterable

import netaddr
from django.db.models import Count, Exists, OuterRef, QuerySet

from provisioning.common.context import RequestContext
from provisioning.network.models import FixedIP, FloatingIP, Network, Port, SecurityGroup
from provisioning.network.records.owners import OF_THE_NETWORK, ROUTER_INTERFACE
from provisioning.network.selectors.records import ports_for, subnets_for
from provisioning.network.selectors.visibility import own

PRIVATE = netaddr.IPNetwork("10.0.0.0/8")
SIZE = 256
"""Number of addresses of a /24."""


def free_range(context: RequestContext) -> str:
    """Return a private /24 that does not overlap a subnet that the project sees; empty if there is no such range.

    10.0.0.0/24 is never returned, because home networks often use it.
    """
    cidrs = subnets_for(context).filter(ip_version=4).values_list("cidr", flat=True)
    taken = sorted((each.first, each.last) for each in map(netaddr.IPNetwork, cidrs))
    free = PRIVATE.first + SIZE
    for first, last in taken:
        if first >= free + SIZE:
            break
        if last >= free:
            free = (last // SIZE + 1) * SIZE
    return f"{netaddr.IPAddress(free)}/24" if free <= PRIVATE.last else ""


def free_range_ipv6() -> str:
    """Return a random unique local /64 (RFC 4193)."""
    number = (0xFD << 120) | (secrets.randbits(56) << 64)
    return str(netaddr.IPNetwork((number, 64), version=6))


def addresses_used(subnet_ids: Iterable[uuid.UUID]) -> dict[uuid.UUID, int]:
    """Return subnet → number of its addresses in use by ports; one query."""
    rows = FixedIP.objects.filter(subnet__in=list(subnet_ids))
    return dict(rows.values_list("subnet_id").annotate(Count("pk")))


def ports_on(context: RequestContext, network: Network) -> QuerySet[Port]:
    """Return the project's ports on a network, the oldest first.

    On a network of the project, the ports that the cloud has created are included.
    """
    mine = Port.objects.filter(own(context), network=network)
    if network.project_id == context.project_id:
        mine = mine | Port.objects.filter(network=network, device_owner__startswith="network:")
    return mine.prefetch_related("fixed_ips", "security_groups").order_by("created_at", "id")


def blocking_ports(context: RequestContext, network: Network, limit: int) -> tuple[list[Port], int]:
    """Return the project's first ports that prevent a network's deletion, and the number of other projects' ports."""
    every = _blocking().filter(network=network)
    mine = list(every.filter(own(context)).prefetch_related("fixed_ips").order_by("created_at", "id")[:limit])
    return mine, every.exclude(own(context)).count()


def networks_in_use(ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Return the networks whose ports prevent their deletion."""
    return set(_blocking().filter(network__in=ids).values_list("network_id", flat=True))


def _blocking() -> QuerySet[Port]:
    """Return the ports that prevent the deletion of their network. Unassociated floating IPs are deleted with an
    external network.
    """
    free = unassociated().filter(port=OuterRef("pk"), network__external=True)
    return Port.objects.exclude(device_owner__in=OF_THE_NETWORK).exclude(Exists(free))


def unassociated() -> QuerySet[FloatingIP]:
    """Return the floating IPs of no port and without port forwardings."""
    return FloatingIP.objects.filter(fixed_port=None, port_forwardings=None)


def connected_routers(ids: Collection[uuid.UUID]) -> set[uuid.UUID | None]:
    """Return the routers that have interfaces."""
    legs = Port.objects.filter(device_owner=ROUTER_INTERFACE, device_id__in=ids)
    return set(legs.values_list("device_id", flat=True))


def security_groups_in_use(ids: Collection[uuid.UUID]) -> set[uuid.UUID]:
    """Return the security groups that ports are in."""
    return set(SecurityGroup.objects.filter(pk__in=ids, ports__isnull=False).values_list("pk", flat=True))


def ports_of_subnet(context: RequestContext, subnet_id: uuid.UUID, limit: int) -> list[Port]:
    """Return the first of the project's ports with an address of a subnet."""
    rows = ports_for(context).filter(fixed_ips__subnet=subnet_id).exclude(device_owner__in=OF_THE_NETWORK)
    return list(rows.distinct().order_by("created_at", "id")[:limit])
