"""Plans of the namespaces of a router and of an external network on this host, derived from documents.

A pair of interfaces connects the two namespaces. Its link-local addresses contain a number for each router
(``Numbers``), by which the external namespace distinguishes routers with equal ranges.
"""

import hashlib
import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace

from compute_agent.contract.network import (
    ExternalGateway,
    FloatingIpDocument,
    NetworkDocument,
    PortForward,
    RouterDocument,
    RouterInterface,
    ServicePort,
)
from compute_agent.network.bridges.shared_macs import alias
from compute_agent.network.kernel import names
from compute_agent.network.routers.forwards import Answer, answers_of, whole
from compute_agent.network.routers.words import mac_address, of_version
from compute_agent.network.state.desired import DesiredState

LINKS = ipaddress.IPv4Network("169.254.64.0/18")
"""Addresses of the pairs between routers and external networks: two for each router."""
DETOURS = ipaddress.IPv4Network("169.254.128.0/17")
"""Placeholders for other hosts' routers as next hops; no packet is ever sent to such an address."""
LINK_SIX = {"external": "fe80::1", "router": "fe80::2"}
DEFAULTS = ("0.0.0.0/0", "::/0")
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
        found = of_version(4, self.leg.addresses)
        return found[0].partition("/")[0] if found else None


def networks_of(addresses: Iterable[str]) -> list[ipaddress.IPv4Network | ipaddress.IPv6Network]:
    """Return the ranges of addresses with prefix length."""
    return [ipaddress.ip_interface(address).network for address in addresses]


def router_plan(desired: DesiredState, router: RouterDocument, number: int, underlay: str) -> RouterPlan:
    """Plan a router. ``number`` is its link's number, ``underlay`` this host's own underlay address.

    Subjects whose documents this host has not received yet are omitted. Raises ValueError for an invalid address.
    """
    legs = tuple(
        _inner_leg(interface, network, _ranges_beyond(desired, router, interface.network_id))
        for interface in router.interfaces
        if (network := desired.networks.get(interface.network_id)) is not None
    )
    by_network = [(leg, interface.network_id) for leg, interface in zip(legs, _known(desired, router), strict=True)]
    external = router.external
    network = desired.networks.get(external.network_id) if external is not None else None
    associated = [each for each in desired.floating_ips.values() if each.router_id == router.id]
    neighbours = frozenset(_neighbours(desired, by_network))
    if external is None or network is None:
        return RouterPlan(
            id=router.id, enabled=router.enabled, legs=legs, neighbours=neighbours,
            routes=tuple(_extra_routes(router, legs)),
        )  # fmt: skip
    link = link_of(router.id, number, network)
    away = [each for each in associated if each.bearer not in ("", underlay)]
    gateway = _own_leg(external, network) if external.here else None
    return RouterPlan(
        id=router.id,
        enabled=router.enabled,
        legs=legs,
        gateway=gateway,
        link=link,
        enable_snat=external.enable_snat,
        outside=tuple(subnet.cidr for subnet in network.subnets),
        source=_source(gateway, network),
        routes=(*_extra_routes(router, (*legs, *([gateway] if gateway else []))), *_ways_out(external, gateway, link)),
        neighbours=neighbours,
        floating=tuple(sorted((each for each in associated if each not in away), key=lambda each: each.id)),
        detours=tuple(_detours(legs, away)),
        elsewhere=frozenset(each.id for each in away),
        network_id=network.id,
    )


def external_plan(
    desired: DesiredState, network: NetworkDocument, numbers: Mapping[str, int], host: str, underlay: str
) -> ExternalPlan:
    """Plan an external network. ``numbers``: router id → number of its link. ``host`` is this host's name."""
    port = network.gateway_port
    leg = Leg(
        name=_port_name("fg-", port.id) if port else names.interface("fg-", network.id),
        bridge=network.bridge,
        mac=mac_address(port.mac_address) if port else names.own_mac("external", host, network.id),
        mtu=network.mtu,
        addresses=_with_lengths(port, network) if port else (),
    )
    routers = [each for each in desired.routers.values() if is_external(each, network.id)]
    links = {each.id: link_of(each.id, numbers[each.id], network) for each in routers}
    floating = [
        each
        for each in desired.floating_ips.values()
        if each.network_id == network.id and each.router_id in links and each.bearer in ("", underlay)
    ]
    ways = [
        Route(f"{_four(each.address)}/32", links[each.router_id].external_end, links[each.router_id].router_address)
        for each in floating
    ]
    gateways = [str(ipaddress.ip_address(subnet.gateway)) for subnet in network.subnets if subnet.gateway]
    for version, destination in zip((4, 6), DEFAULTS, strict=True):
        # With several ranges, prefer the gateway of the range of this host's own address.
        found = sorted(of_version(version, gateways), key=lambda gateway: not leg.reaches(gateway))
        if found and (version == 6 or leg.reaches(found[0])):
            ways.append(Route(destination, leg.name, found[0]))
    return ExternalPlan(
        id=network.id,
        leg=leg,
        links=tuple(sorted(links.items())),
        routes=(*_on_link(network, leg), *ways),
        floating=frozenset(each.address for each in floating),
    )


def legs_of(plan: RouterPlan) -> list[Leg]:
    """Return all interfaces of a router that are ports of bridges."""
    return [*plan.legs, *([plan.gateway] if plan.gateway else [])]


def is_external(router: RouterDocument, network_id: str) -> bool:
    """Return whether this network is the router's external network."""
    return router.external is not None and router.external.network_id == network_id


def link_of(router_id: str, number: int, network: NetworkDocument) -> Link:
    """Return the link of a router and its external network, with the network's MTU."""
    return Link(
        number=number,
        router_end=names.interface("rfp", router_id, network.id),
        external_end=names.interface("fpr", router_id, network.id),
        mtu=network.mtu,
    )


def _known(desired: DesiredState, router: RouterDocument) -> list[RouterInterface]:
    return [each for each in router.interfaces if each.network_id in desired.networks]


def _port_name(prefix: str, port_id: str) -> str:
    """Return an interface's name as Neutron does: a prefix and the first 11 characters of the port's id."""
    return prefix + port_id[:11]


def _leg(prefix: str, interface: RouterInterface, network: NetworkDocument) -> Leg:
    return Leg(
        name=_port_name(prefix, interface.port_id),
        bridge=network.bridge,
        mac=mac_address(interface.mac_address),
        mtu=network.mtu,
        addresses=tuple(sorted(str(ipaddress.ip_interface(address)) for address in interface.addresses)),
    )


def beyond(desired: DesiredState, router: RouterDocument, network_id: str) -> set[str]:
    """Return the networks that other routers connect to the network ``network_id``, except networks that this router
    connects itself.
    """
    own = {each.network_id for each in router.interfaces}
    result: set[str] = set()
    for other in desired.routers.values():
        joined = {each.network_id for each in other.interfaces}
        if other.id != router.id and network_id in joined:
            result |= joined
    return result - own


def _ranges_beyond(desired: DesiredState, router: RouterDocument, network_id: str) -> tuple[str, ...]:
    networks = [desired.networks[each] for each in beyond(desired, router, network_id) if each in desired.networks]
    return tuple(sorted({str(ipaddress.ip_network(subnet.cidr)) for each in networks for subnet in each.subnets}))


def _inner_leg(interface: RouterInterface, network: NetworkDocument, beyond: tuple[str, ...]) -> Leg:
    leg = _leg("qr-", interface, network)
    return replace(
        leg,
        ranges=tuple(sorted(str(ipaddress.ip_network(subnet.cidr)) for subnet in network.subnets)),
        beyond=beyond,
        is_gateway=any(subnet.gateway is not None and leg.has(subnet.gateway) for subnet in network.subnets),
    )


def _own_leg(external: ExternalGateway, network: NetworkDocument) -> Leg:
    interface = RouterInterface(
        port_id=external.port_id,
        network_id=network.id,
        mac_address=external.mac_address,
        addresses=external.addresses,
    )
    return _leg("qg-", interface, network)


def _with_lengths(port: ServicePort, network: NetworkDocument) -> tuple[str, ...]:
    """Return the port's addresses with prefix length; by default the prefix length of their subnet."""
    ranges = [ipaddress.ip_network(subnet.cidr) for subnet in network.subnets]
    result = []
    for text in port.addresses:
        if "/" in text:
            result.append(str(ipaddress.ip_interface(text)))
            continue
        address = ipaddress.ip_address(text)
        length = next((each.prefixlen for each in ranges if address in each), address.max_prefixlen)
        result.append(f"{address}/{length}")
    return tuple(sorted(result))


def _four(address: str) -> str:
    return str(ipaddress.IPv4Address(address))


def _source(gateway: Leg | None, network: NetworkDocument) -> str | None:
    own = gateway.addresses if gateway else network.gateway_port.addresses if network.gateway_port else ()
    return next((address.partition("/")[0] for address in of_version(4, own)), None)


def _neighbours(desired: DesiredState, legs: Iterable[tuple[Leg, str]]) -> Iterator[tuple[str, str, str]]:
    for leg, network_id in legs:
        pairs = [(each.port.mac_address, each.addresses) for each in desired.ports_on(network_id)]
        pairs += [(each.mac_address, each.addresses) for each in desired.networks[network_id].remote_ports]
        for mac, addresses in pairs:
            for address in addresses:
                if leg.reaches(address):
                    yield leg.name, str(ipaddress.ip_address(address)), mac_address(mac)


def _extra_routes(router: RouterDocument, legs: Iterable[Leg]) -> Iterator[Route]:
    for route in router.routes:
        leg = next((leg for leg in legs if leg.reaches(route.next_hop)), None)
        if leg is not None:
            yield Route(
                str(ipaddress.ip_network(route.destination)), leg.name, str(ipaddress.ip_address(route.next_hop))
            )


def _ways_out(external: ExternalGateway, gateway: Leg | None, link: Link) -> Iterator[Route]:
    hops = [str(ipaddress.ip_address(hop)) for hop in external.next_hops]
    other_ends = (link.external_address, LINK_SIX["external"])
    for version, destination, other_end in zip((4, 6), DEFAULTS, other_ends, strict=True):
        hop = next(iter(of_version(version, hops)), None)
        if gateway is None:
            yield Route(destination, link.router_end, other_end)
        elif hop is not None and gateway.reaches(hop):
            yield Route(destination, gateway.name, hop)


def _on_link(network: NetworkDocument, leg: Leg) -> Iterator[Route]:
    """Yield on-link routes to the network's ranges in which this host has no address."""
    for subnet in network.subnets:
        subnet_range = ipaddress.ip_network(subnet.cidr)
        if subnet_range not in networks_of(leg.addresses):
            yield Route(str(subnet_range), leg.name)


def _detours(legs: Iterable[Leg], elsewhere: Iterable[FloatingIpDocument]) -> Iterator[Detour]:
    collected: dict[tuple[str, str], list[PortForward]] = {}
    macs = {}
    for floating in elsewhere:
        for forward in (*floating.forwards, *whole(floating)):
            leg = next((leg for leg in legs if leg.reaches(forward.internal_address)), None)
            if leg is not None:
                macs[leg.name] = leg.mac
                collected.setdefault((leg.name, floating.bearer), []).append(forward)
    for (name, bearer), forwards in sorted(collected.items(), key=lambda each: each[0]):
        digest = hashlib.sha256(f"{name} {bearer}".encode()).digest()
        number = int.from_bytes(digest[:4]) % (DETOURS.num_addresses - 2) + 1
        yield Detour(number, name, alias(macs[name], bearer), answers_of(forwards))
