"""Which sources a router takes from which interface: nobody passes itself off as a guest of another of its networks.

Security groups admit members of a group by their addresses, also those that come by a router, so a router must carry no
source from where it cannot be.  What lies on a network of the router comes by its interface there and by no other.
Other sources pass: those behind guests that route.

A network may have ranges that the router has no address in.  They count as the network's too, unless they overlap with
a range of another network of the router, which the portal refuses only for ranges that the router has an address in.
From a range that overlaps so nobody sends; and a guest of the other network who has an address in it is not heard on
networks where the router is not the gateway: there the address may be somebody else's.
"""

import ipaddress
from collections.abc import Iterator
from dataclasses import dataclass

from compute_agent.network.routers.plan import Leg, RouterPlan, networks_of
from compute_agent.network.routers.words import nft_set, of_version

Range = ipaddress.IPv4Network | ipaddress.IPv6Network
FAMILIES = ((4, "ip", "ipv4_addr", ""), (6, "ip6", "ipv6_addr", "6"))
"""IP version, its word for packets, its type of addresses, and what names of its sets end with."""
CHAIN = "sources"


@dataclass(frozen=True)
class _Side:
    """One network of the router."""

    names: tuple[str, ...]
    """Of the interfaces there."""
    own: frozenset[Range]
    """The ranges that they have addresses in."""
    further: frozenset[Range]


def source_sets(plan: RouterPlan) -> Iterator[str]:
    """Render the sets of the chain ``sources``."""
    sides = _sides(plan)
    contested = _contested(sides)
    further = {each for side in sides for each in side.further}
    yield from nft_set("visited", "ifname", [f'"{leg.name}"' for leg in plan.legs if not leg.is_gateway])
    for version, _, kind, suffix in FAMILIES:
        for name, ranges in (
            ("further", further),
            ("contested", contested),
            *((f"from{number}_", side.own | side.further - contested) for number, side in enumerate(sides)),
        ):
            yield from nft_set(name + suffix, kind, of_version(version, map(str, ranges)), ranges=True)


def source_chain(plan: RouterPlan) -> Iterator[str]:
    """Render the chain that drops what claims to come from a network of the router and does not."""
    yield f"  chain {CHAIN} {{"
    for _, family, _, suffix in FAMILIES:
        yield f"    oifname @visited {family} saddr @contested{suffix} drop"
        for number, side in enumerate(_sides(plan)):
            names = ", ".join(f'"{name}"' for name in side.names)
            yield f"    iifname {{ {names} }} {family} saddr @from{number}_{suffix} return"
        yield f"    {family} saddr @inside{suffix} drop"
        # From outside they may come: another router has an address in them.
        yield f"    iifname @inner {family} saddr @further{suffix} drop"
    yield "  }"


def _sides(plan: RouterPlan) -> list[_Side]:
    by_bridge: dict[str, list[Leg]] = {}
    for leg in plan.legs:
        by_bridge.setdefault(leg.bridge, []).append(leg)
    sides = []
    for legs in by_bridge.values():
        own = frozenset(each for leg in legs for each in networks_of(leg.addresses))
        every = frozenset(ipaddress.ip_network(text) for leg in legs for text in leg.ranges)
        sides.append(_Side(tuple(leg.name for leg in legs), own, every - own))
    return sides


def _contested(sides: list[_Side]) -> frozenset[Range]:
    """Return the further ranges that overlap with a range of another network."""
    return frozenset(
        each
        for side in sides
        for each in side.further
        if any(
            each.version == other.version and each.overlaps(other)
            for another in sides
            if another is not side
            for other in another.own | another.further
        )
    )
