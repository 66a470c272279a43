"""Plans of the namespaces of a router and of an external network on this host, derived from documents.

A pair of interfaces connects the two namespaces. Its link-local addresses contain a number for each router
(``Numbers``), by which the external namespace distinguishes routers with equal ranges.
"""

import hashlib
import ipaddress
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from compute_agent.contract.network import (
    ExternalGateway,
    FloatingIpDocument,
    NetworkDocument,
    PortForward,
    RouterDocument,
    RouterInterface,
    ServicePort,
)
from compute_agent.network.bridges.segments import alias
from compute_agent.network.kernel import names
from compute_agent.network.routers.forwards import answers_of, whole
from compute_agent.network.routers.records import (
    DETOURS,
    Detour,
    ExternalPlan,
    Leg,
    Link,
    Route,
    RouterPlan,
    networks_of,
)
from compute_agent.network.routers.words import mac_address, of_version
from compute_agent.network.state.desired import DesiredState

LINK_SIX = {"external": "fe80::1", "router": "fe80::2"}
DEFAULTS = ("0.0.0.0/0", "::/0")


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
        ordered = sorted(of_version(version, gateways), key=lambda gateway: not leg.reaches(gateway))
        if ordered and (version == 6 or leg.reaches(ordered[0])):
            ways.append(Route(destination, leg.name, ordered[0]))
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
