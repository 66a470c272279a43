"""Neutron's view of hosts: agents, availability zones and service providers.

The agent of a host does the work of four Neutron agents, and the Networking API shows it as these four.
"""

import uuid
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.db.models import Count
from django.utils import timezone

from compute_agent.contract.network import FLOATING_IP, NETWORK, ROUTER
from provisioning.common.context import RequestContext
from provisioning.common.values.ids import read_id
from provisioning.hosts.models import Host
from provisioning.hosts.selectors import is_alive
from provisioning.network import addressing
from provisioning.network.errors import AgentNotFoundError
from provisioning.network.models import Delivery, FixedIP, Network, Port, Subnet
from provisioning.network.selectors.records import network_for, networks_for
from provisioning.network.selectors.zones import zoned_hosts

_NAMES = uuid.UUID("0d3c6f0e-6b5f-4a5a-8d77-6f0a3d6f7c11")


@dataclass(frozen=True, slots=True)
class AgentType:
    """One of Neutron's agents: its type, program and topic, and whether it has an availability zone."""

    agent_type: str
    binary: str
    topic: str
    zoned: bool


TYPES = (
    AgentType("DHCP agent", "neutron-dhcp-agent", "dhcp_agent", zoned=True),
    AgentType("L3 agent", "neutron-l3-agent", "l3_agent", zoned=True),
    AgentType("Linux bridge agent", "neutron-linuxbridge-agent", "N/A", zoned=False),
    AgentType("Metadata agent", "neutron-metadata-agent", "N/A", zoned=False),
)


@dataclass(frozen=True, slots=True)
class Agent:
    """One of the four Neutron agents of a host; ``configurations`` counts the resources that were sent to the host."""

    id: uuid.UUID
    agent_type: str
    binary: str
    topic: str
    host: str
    availability_zone: str | None
    alive: bool
    admin_state_up: bool
    created_at: datetime
    heartbeat_timestamp: datetime | None
    configurations: dict[str, Any]

    @property
    def pk(self) -> uuid.UUID:
        return self.id


def agents(context: RequestContext, *, all_projects: bool = False) -> list[Agent]:
    """Return the agents of all hosts, for operators; three queries."""
    hosts, now = list(Host.objects.exclude(credential_digest="").order_by("name")), timezone.now()
    counters: dict[uuid.UUID, Counter[str]] = {}
    rows = Delivery.objects.exclude(digest="").values_list("host_id", "kind").annotate(many=Count("pk")).order_by()
    for host_id, kind, many in rows:
        counters.setdefault(host_id, Counter())[kind] = many
    bound = Port.objects.exclude(host="").values_list("host").annotate(many=Count("pk")).order_by()
    ports = dict(bound)
    return [
        Agent(
            id=uuid.uuid5(_NAMES, f"{host.id} {kind.agent_type}"),
            agent_type=kind.agent_type,
            binary=kind.binary,
            topic=kind.topic,
            host=host.name,
            availability_zone=host.availability_zone if kind.zoned else None,
            alive=is_alive(host, now),
            admin_state_up=host.enabled,
            created_at=host.created_at,
            heartbeat_timestamp=host.last_seen_at,
            configurations=_configurations(kind, counters.get(host.id, Counter()), ports.get(host.name, 0)),
        )
        for host in hosts
        for kind in TYPES
    ]


def agent(context: RequestContext, identity: str, *, all_projects: bool = False) -> Agent:
    """Return one agent. Raises AgentNotFoundError."""
    requested = read_id(identity)
    for each in agents(context):
        if each.id == requested:
            return each
    raise AgentNotFoundError(f"Agent {identity} could not be found.")


def _configurations(kind: AgentType, counter: Counter[str], ports: int) -> dict[str, Any]:
    """Return the ``configurations`` of the Neutron agent of this type, with the keys that apply to Novella."""
    match kind.agent_type:
        case "DHCP agent":
            return {"dhcp_driver": "dnsmasq", "networks": counter[NETWORK]}
        case "L3 agent":
            return {"agent_mode": "dvr", "routers": counter[ROUTER], "floating_ips": counter[FLOATING_IP]}
        case "Linux bridge agent":
            return {"tunnel_types": ["vxlan"], "devices": ports}
        case _:
            return {}


@dataclass(frozen=True, slots=True)
class Zone:
    """An availability zone of hosts, for networks or for routers."""

    name: str
    resource: str
    state: str

    @property
    def pk(self) -> str:
        return f"{self.name} {self.resource}"


def zones(context: RequestContext, *, all_projects: bool = False) -> list[Zone]:
    """Return the zones of hosts for networks and for routers; a zone is available while one of its hosts is enabled."""
    states: dict[str, bool] = {}
    for zone, enabled in zoned_hosts().values_list("availability_zone", "enabled"):
        states[zone] = states.get(zone, False) or enabled
    return [
        Zone(name, resource, "available" if enabled else "unavailable")
        for name, enabled in states.items()
        for resource in ("network", "router")
    ]


@dataclass(frozen=True, slots=True)
class Provider:
    """The provider of a service of the Networking API."""

    service_type: str
    name: str
    default: bool

    @property
    def pk(self) -> str:
        return self.name


PROVIDERS = (Provider("L3_ROUTER_NAT", "novella", default=True),)
"""All routers are of one type, distributed to every host that needs them."""


def providers(context: RequestContext, *, all_projects: bool = False) -> list[Provider]:
    return list(PROVIDERS)


@dataclass(frozen=True, slots=True)
class SubnetAvailability:
    """Addresses of one subnet: the addresses in its allocation pools, and the addresses in use by ports."""

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
