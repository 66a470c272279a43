"""Routers and external networks as a host sets them up."""

import ipaddress
from collections.abc import Iterable
from dataclasses import dataclass, field

from compute_agent.contract.network import (
    FloatingIpDocument,
)
from compute_agent.network.routers.forwards import Answer
from compute_agent.network.routers.words import of_version

LINKS = ipaddress.IPv4Network("169.254.64.0/18")
"""Addresses of the pairs between routers and external networks: two for each router."""
DETOURS = ipaddress.IPv4Network("169.254.128.0/17")
"""Placeholders for other hosts' routers as next hops; no packet is ever sent to such an address."""
MAIN = 254
"""The number of the main routing table."""


@dataclass(frozen=True)
class Leg:
    """An interface of a namespace that is a port of a network's bridge."""

    name: str
    """The same at both ends."""
    bridge: str
    mac: str
    mtu: int
    addresses: tuple[str, ...]
    """With prefix length."""
    ranges: tuple[str, ...] = ()
    """All ranges of the network, also those without an address of the leg; empty on an external network."""
    beyond: tuple[str, ...] = ()
    """Ranges of networks that only other routers connect to the leg's network."""
    is_gateway: bool = False
    """Whether the leg has the gateway's address of one of the ranges."""

    def reaches(self, address: str) -> bool:
        """Return whether the address is on the leg's networks."""
        target = ipaddress.ip_address(address)
        return any(target in network for network in networks_of(self.addresses))

    def has(self, address: str) -> bool:
        """Return whether the leg has the address."""
        target = ipaddress.ip_address(address)
        return any(ipaddress.ip_interface(own).ip == target for own in self.addresses)


@dataclass(frozen=True)
class Route:
    """A route. Without ``next_hop`` the destination is on-link."""

    destination: str
    interface: str
    next_hop: str = ""
    table: int = MAIN


@dataclass(frozen=True)
class Link:
    """The pair of interfaces between a router and its external network."""

    number: int
    router_end: str
    external_end: str
    mtu: int

    @property
    def router_address(self) -> str:
        """The router's address on the pair. Packets of its guests have it as source in the external namespace."""
        return str(LINKS[2 * self.number + 1])

    @property
    def external_address(self) -> str:
        """The router's next hop for outgoing traffic."""
        return str(LINKS[2 * self.number])


@dataclass(frozen=True)
class Detour:
    """A route for replies of a local guest: replies through a floating IP on another host are sent to that host."""

    number: int
    """The number of the packet mark, the routing rule and the routing table."""
    leg: str
    mac: str
    """The alias of the other host's router."""
    answers: tuple[Answer, ...]

    @property
    def next_hop(self) -> str:
        """A placeholder for the other host's router, in the form of an address."""
        return str(DETOURS[self.number])


@dataclass(frozen=True)
class RouterPlan:
    """The contents of a router's namespace on this host."""

    id: str
    enabled: bool
    legs: tuple[Leg, ...] = ()
    gateway: Leg | None = None
    """The router's own interface on the external network, which exists on one host only."""
    link: Link | None = None
    enable_snat: bool = True
    outside: tuple[str, ...] = ()
    """Ranges of the external network."""
    source: str | None = None
    """The source of guests without a floating IP: to floating IPs of this router, and outside if it has ``gateway``."""
    routes: tuple[Route, ...] = ()
    neighbours: frozenset[tuple[str, str, str]] = frozenset()
    """Leg, address and hardware address of every known port."""
    floating: tuple[FloatingIpDocument, ...] = ()
    """Floating IPs that are on this host."""
    detours: tuple[Detour, ...] = ()
    elsewhere: frozenset[str] = frozenset()
    """Ids of floating IPs that are on another host and forwarded to guests of this host."""
    network_id: str = ""
    """The external network."""

    @property
    def answering(self) -> frozenset[str]:
        """Floating IPs without a fixed address, for which the router itself answers."""
        return frozenset(each.address for each in self.floating if each.fixed_address is None)


@dataclass(frozen=True)
class ExternalPlan:
    """The contents of an external network's namespace on this host."""

    id: str
    leg: Leg
    links: tuple[tuple[str, Link], ...] = ()
    """Pairs of a router's id and its link."""
    routes: tuple[Route, ...] = ()
    floating: frozenset[str] = field(default_factory=frozenset)

    @property
    def answering(self) -> frozenset[str]:
        """The addresses that are on this host now, for which the namespace answers."""
        return self.floating | {address.partition("/")[0] for address in self.leg.addresses}

    @property
    def source(self) -> str | None:
        """This host's own IPv4 address on the network."""
        addresses = of_version(4, self.leg.addresses)
        return addresses[0].partition("/")[0] if addresses else None


def networks_of(addresses: Iterable[str]) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Return the ranges of addresses with prefix length."""
    return [ipaddress.ip_interface(address).network for address in addresses]
