"""Total and used addresses of networks, for operators."""

import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.db.models import Count

from provisioning.common.context import RequestContext
from provisioning.network import addressing
from provisioning.network.models import FixedIP, Network, Subnet
from provisioning.network.selectors.records import network_for, networks_for


@dataclass(frozen=True, slots=True)
class SubnetAvailability:
    """Addresses of one subnet: those of its allocation pools, and those in use by ports."""

    subnet: Subnet
    total: int
    used: int


@dataclass(frozen=True, slots=True)
class Availability:
    """Addresses of one network."""

    network: Network
    subnets: Sequence[SubnetAvailability]

    @property
    def pk(self) -> uuid.UUID:
        return self.network.id

    @property
    def total(self) -> int:
        return sum(each.total for each in self.subnets)

    @property
    def used(self) -> int:
        return sum(each.used for each in self.subnets)


def availabilities(
    context: RequestContext, *, all_projects: bool = False, versions: Sequence[int] = (4, 6)
) -> list[Availability]:
    """Return the addresses of each network that the caller sees, for subnets of these IP versions; three queries."""
    rows = networks_for(context, all_projects=all_projects).prefetch_related("subnets").distinct()
    fetched = list(rows)
    used = _used([network.id for network in fetched])
    return [_of(network, used, versions) for network in fetched]


def availability(context: RequestContext, identity: str, *, all_projects: bool = False) -> Availability:
    """Return the addresses of one network. Raises NetworkNotFoundError."""
    network = network_for(context, identity, all_projects=all_projects)
    return _of(network, _used([network.id]), (4, 6))


def _used(network_ids: Sequence[uuid.UUID]) -> Mapping[uuid.UUID, int]:
    """Return subnet → number of addresses in use by ports."""
    rows = FixedIP.objects.filter(subnet__network__in=network_ids).values_list("subnet_id").annotate(many=Count("pk"))
    return dict(rows.order_by())


def _of(network: Network, used: Mapping[uuid.UUID, int], versions: Sequence[int]) -> Availability:
    subnets = sorted(network.subnets.all(), key=lambda subnet: (subnet.created_at, subnet.id))
    shown = [
        SubnetAvailability(subnet, addressing.size_of(subnet.allocation_pools), used.get(subnet.id, 0))
        for subnet in subnets
        if subnet.ip_version in versions
    ]
    return Availability(network, shown)
