"""Source address checks of a router: no guest can spoof the address of a guest on another of the router's networks.

Security groups identify members by their addresses, even behind a router, so a router must not forward a source address
that comes from an impossible direction. Addresses of one of the router's networks are accepted only from the interface
on that network. Other routers may connect a network to additional networks. A packet with a source in such an
additional network is not forwarded to the network, because it should arrive through the other router. Packets with any
other source are forwarded: the source may be behind a guest that routes.

A network may have ranges in which the router has no address. Such ranges also belong to the network, unless they
overlap a range of another network of the router: the portal prevents overlaps only of ranges with an address of the
router. Addresses of an overlapping range are not accepted as sources. A guest of the other network with an address in
that range is not forwarded to networks where the router is not the gateway, because the address may belong to another
guest there.
"""

import ipaddress
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from compute_agent.network.routers.records import Leg, RouterPlan, networks_of
from compute_agent.network.routers.words import nft_set, of_version

Range = ipaddress.IPv4Network | ipaddress.IPv6Network
FAMILIES = ((4, "ip", "ipv4_addr", ""), (6, "ip6", "ipv6_addr", "6"))
"""IP version, nft's family and address type, and suffix of the sets' names."""
CHAIN = "sources"


@dataclass(frozen=True)
class _Side:
    """One network of the router."""

    names: tuple[str, ...]
    """Names of the router's interfaces on the network."""
    own: frozenset[Range]
    """The ranges in which these interfaces have addresses."""
    additional: frozenset[Range]
    beyond: frozenset[Range]
    """Ranges that other routers connect to the network. If the router is the gateway of the network, ranges of its own
    networks are excluded.
    """


def source_sets(plan: RouterPlan) -> Iterator[str]:
    """Render the sets of the chain ``sources``."""
    sides = _sides(plan)
    contested = _contested(sides)
    additional = {each for side in sides for each in side.additional}
    yield from nft_set("visited", "ifname", [f'"{leg.name}"' for leg in plan.legs if not leg.is_gateway])
    for version, _, kind, suffix in FAMILIES:
        for name, ranges in (
            ("additional", additional),
            ("contested", contested),
            *((f"from{number}_", side.own | side.additional - contested) for number, side in enumerate(sides)),
            *((f"beyond{number}_", side.beyond) for number, side in enumerate(sides)),
        ):
            yield from nft_set(name + suffix, kind, of_version(version, map(str, ranges)), ranges=True)


def source_chain(plan: RouterPlan) -> Iterator[str]:
    """Render the chain that drops spoofed sources of the router's networks."""
    yield f"  chain {CHAIN} {{"
    for _, family, _, suffix in FAMILIES:
        yield f"    oifname @visited {family} saddr @contested{suffix} drop"
        for number, side in enumerate(_sides(plan)):
            names = ", ".join(f'"{name}"' for name in side.names)
            yield f"    oifname {{ {names} }} {family} saddr @beyond{number}_{suffix} drop"
        for number, side in enumerate(_sides(plan)):
            names = ", ".join(f'"{name}"' for name in side.names)
            yield f"    iifname {{ {names} }} {family} saddr @from{number}_{suffix} return"
        yield f"    {family} saddr @inside{suffix} drop"
        # These sources may arrive from outside, because another router has an address in their ranges.
        yield f"    iifname @inner {family} saddr @additional{suffix} drop"
    yield "  }"


def _sides(plan: RouterPlan) -> list[_Side]:
    by_bridge: dict[str, list[Leg]] = {}
    for leg in plan.legs:
        by_bridge.setdefault(leg.bridge, []).append(leg)
    sides = []
    for legs in by_bridge.values():
        own = frozenset(each for leg in legs for each in networks_of(leg.addresses))
        every = frozenset(ipaddress.ip_network(text) for leg in legs for text in leg.ranges)
        beyond = frozenset(ipaddress.ip_network(text) for leg in legs for text in leg.beyond)
        sides.append(_Side(tuple(leg.name for leg in legs), own, every - own, beyond))
    inside = {each for side in sides for each in side.own | side.additional}
    visited = {leg.bridge for leg in plan.legs} - {leg.bridge for leg in plan.legs if leg.is_gateway}
    return [
        side if bridge in visited else replace(side, beyond=_without(side.beyond, inside))
        for bridge, side in zip(by_bridge, sides, strict=True)
    ]


def _without(ranges: frozenset[Range], others: Iterable[Range]) -> frozenset[Range]:
    """Return the ranges that overlap none of the others: a source in overlapping ranges does not prove its network."""
    return frozenset(
        each for each in ranges if not any(each.version == other.version and each.overlaps(other) for other in others)
    )


def _contested(sides: list[_Side]) -> frozenset[Range]:
    """Return the additional ranges that overlap a range of another network."""
    return frozenset(
        each
        for side in sides
        for each in side.additional
        if any(
            each.version == other.version and each.overlaps(other)
            for another in sides
            if another is not side
            for other in another.own | another.additional
        )
    )
