"""Filters and address translation of the namespaces of a router and an external network, as nftables rulesets.

Outgoing traffic of a guest with a floating IP has that address as its source. Other guests share the router's external
address, or this host's own external address if the router's is on another host. Incoming traffic must be for a floating
IP, or a reply; without address translation (IPv6, and IPv4 if ``enable_snat`` is off) it may be for any guest. Guests
can reach neither networks that the host blocks (``reach``), except the ranges of the external network, nor the internal
addresses of this package. They cannot spoof addresses of another network of the router (``sources``), or of the
external network.
"""

import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from compute_agent.network.kernel.reach import Reach
from compute_agent.network.routers.forwards import ALL, KEY, PORTED, Maps, maps_of
from compute_agent.network.routers.records import LINKS, ExternalPlan, Leg, RouterPlan, networks_of
from compute_agent.network.routers.words import nft_map, nft_set, of_version, replaced

TABLE = "novella"
ERRORS = "icmp type { destination-unreachable, time-exceeded, parameter-problem } accept"
ERRORS_SIX = "icmpv6 type { destination-unreachable, packet-too-big, time-exceeded, parameter-problem } accept"
ASKED = (
    "    icmp type echo-request accept",
    f"    {ERRORS}",
    "    icmpv6 type { echo-request, nd-neighbor-solicit, nd-neighbor-advert, nd-router-solicit } accept",
    f"    {ERRORS_SIX}",
)
"""Packets that a namespace answers itself."""

Range = ipaddress.IPv4Network | ipaddress.IPv6Network
FAMILIES = ((4, "ip", "ipv4_addr", ""), (6, "ip6", "ipv6_addr", "6"))
"""IP version, nft's family and address type, and suffix of the sets' names."""
CHAIN = "sources"


def router_ruleset(plan: RouterPlan, reach: Reach, share: int = 0) -> str:
    """Render a router's table. Raises ValueError for an invalid address.

    ``share``: the number of tracked connections that each guest may begin, and that may be begun with each guest from
    outside; 0: no limit. Replacing the table restarts the counting.
    """
    outer = [*([plan.gateway.name] if plan.gateway else []), *([plan.link.router_end] if plan.link else [])]
    inside = [str(network) for leg in plan.legs for network in networks_of(leg.addresses)]
    with_guest = {each.address: each.fixed_address for each in plan.floating if each.fixed_address}
    lines = [*replaced("inet", TABLE), f"table inet {TABLE} {{"]
    lines += nft_set("inner", "ifname", [f'"{leg.name}"' for leg in plan.legs])
    lines += nft_set("outer", "ifname", [f'"{name}"' for name in outer])
    for version, kind, suffix, blocked, reachable in (
        (4, "ipv4_addr", "", reach.blocked, reach.reachable),
        (6, "ipv6_addr", "6", reach.blocked_six, reach.reachable_six),
    ):
        lines += nft_set("inside" + suffix, kind, of_version(version, inside), ranges=True)
        lines += nft_set("outside" + suffix, kind, of_version(version, plan.outside), ranges=True)
        lines += nft_set("blocked" + suffix, kind, blocked, ranges=True)
        lines += nft_set("reachable" + suffix, kind, reachable, ranges=True)
    lines += source_sets(plan)
    lines += _shares(share)
    lines += nft_map("floating", "ipv4_addr : ipv4_addr", {a: f for a, f in with_guest.items() if f})
    lines += nft_map("fixed", "ipv4_addr : ipv4_addr", {f: a for a, f in with_guest.items() if f})
    forwards = maps_of(plan.floating)
    lines += forwards.declared()
    lines += [
        "  chain untracked {",
        "    type filter hook prerouting priority raw; policy accept;",
        # Both directions pass through routers on different hosts, so no host sees the whole connection.
        "    iifname @inner ip saddr @inside ip daddr @inside notrack",
        "    iifname @inner ip6 saddr @inside6 ip6 daddr @inside6 notrack",
        "  }",
        *_detours(plan),
        *_translation(plan, forwards),
        *source_chain(plan),
        *_forward(plan, share),
        *_input(plan, share),
    ]
    return "\n".join([*lines, "}", ""])


def external_ruleset(plan: ExternalPlan, share: int = 0) -> str:
    """Render an external network's table. ``share``: the number of tracked connections that each router may begin; 0:
    no limit.
    """
    ends = [f'"{link.external_end}"' for _, link in plan.links]
    source = plan.source
    return "\n".join(
        [
            *replaced("inet", TABLE),
            f"table inet {TABLE} {{",
            *nft_set("routers", "ifname", ends),
            *nft_set("floating", "ipv4_addr", plan.floating),
            "  chain forward {",
            "    type filter hook forward priority filter; policy drop;",
            *([f"    iifname {end} ct state new ct count over {share} drop" for end in ends] if share else []),
            f'    iifname @routers oifname "{plan.leg.name}" accept',
            "    oifname @routers ip daddr @floating accept",
            "    oifname @routers ct state established,related accept",
            "  }",
            "  chain postrouting {",
            "    type nat hook postrouting priority srcnat; policy accept;",
            *([f"    ip saddr {LINKS} snat ip to {source}"] if source else []),
            "  }",
            "  chain input {",
            "    type filter hook input priority filter; policy drop;",
            "    ct state established,related accept",
            *ASKED,
            "  }",
            "}",
            "",
        ]
    )


def _detours(plan: RouterPlan) -> Iterator[str]:
    """Render the sets that identify replies, then the chain that marks them."""
    rules = []
    for detour in plan.detours:
        for protocol in sorted({each[0] for each in detour.answers}):
            name = f"answers-{detour.number}-{protocol}"
            answers = [each[1:] for each in detour.answers if each[0] == protocol]
            if protocol in PORTED:
                listed = [f"{address} . {first}-{last}" for address, first, last in answers]
                yield f"  set {name} {{ type {KEY}; flags interval; elements = {{ {', '.join(listed)} }}; }}"
                match = f"ip saddr . {protocol} sport @{name}"
            else:
                yield from nft_set(name, "ipv4_addr", [address for address, _, _ in answers])
                match = f"ip saddr @{name}" if protocol == ALL else f"meta l4proto {protocol} ip saddr @{name}"
            rules.append(f'    iifname "{detour.leg}" {match} meta mark set {detour.number}')
    if not plan.detours:
        return
    yield "  chain answers {"
    yield "    type filter hook prerouting priority mangle; policy accept;"
    yield "    iifname != @inner return"
    yield "    ip daddr @inside return"
    yield from rules
    yield "  }"


def _translation(plan: RouterPlan, forwards: Maps) -> Iterator[str]:
    yield "  chain prerouting {"
    yield "    type nat hook prerouting priority dstnat; policy accept;"
    yield from forwards.rules()
    yield "    dnat ip to ip daddr map @floating"
    yield "  }"
    yield "  chain postrouting {"
    yield "    type nat hook postrouting priority srcnat; policy accept;"
    yield "    iifname @inner oifname @outer snat ip to ip saddr map @fixed"
    yield "    iifname @inner oifname @inner ct status dnat snat ip to ip saddr map @fixed"
    if plan.link is not None:
        source = plan.source or plan.link.router_address
        yield f"    iifname @inner oifname @inner ct status dnat snat ip to {source}"
        if plan.enable_snat:
            yield f'    iifname @inner oifname "{plan.link.router_end}" snat ip to {plan.link.router_address}'
        if plan.enable_snat and plan.gateway is not None and plan.source is not None:
            yield f'    iifname @inner oifname "{plan.gateway.name}" snat ip to {plan.source}'
    yield "  }"


def _shares(share: int) -> Iterator[str]:
    """Render the sets in which the kernel counts connections, and the chain that drops those over the share."""
    if not share:
        return
    for version, kind in ((4, "ipv4_addr"), (6, "ipv6_addr")):
        yield f"  set begun{version} {{ type ifname . {kind}; size 65535; flags dynamic; }}"
        yield f"  set received{version} {{ type {kind}; size 65535; flags dynamic; }}"
    yield "  chain shares {"
    for version, family in ((4, "ip"), (6, "ip6")):
        yield f"    iifname @inner add @begun{version} {{ iifname . {family} saddr ct count over {share} }} drop"
        yield f"    iifname @outer add @received{version} {{ {family} daddr ct count over {share} }} drop"
    yield "  }"


def _forward(plan: RouterPlan, share: int) -> list[str]:
    lines = [
        "  chain forward {",
        f"    type filter hook forward priority filter; policy {'accept' if plan.enabled else 'drop'};",
    ]
    if plan.enabled:
        lines += [
            "    ip daddr 169.254.0.0/16 drop",
            "    iifname @inner ip saddr 169.254.0.0/16 drop",
            f"    jump {CHAIN}",
            *(["    ct state new jump shares"] if share else []),
            *_from_inside(),
            "    iifname @outer oifname @outer drop",
            "    iifname @outer ct state established,related accept",
            "    iifname @outer ct status dnat accept",
            *(["    iifname @outer meta nfproto ipv4 drop"] if plan.enable_snat else []),
        ]
    return [*lines, "  }"]


def _from_inside() -> Sequence[str]:
    """Render the restrictions of guests: no blocked networks, and no spoofed external addresses."""
    lines = []
    for family, suffix in (("ip", ""), ("ip6", "6")):
        new = f"iifname @inner oifname @outer ct state != {{ established, related }} {family}"
        lines += [
            f"    iifname @inner oifname @inner {family} saddr @outside{suffix} drop",
            f"    {new} saddr @outside{suffix} drop",
            f"    {new} daddr @outside{suffix} accept",
            f"    {new} daddr @reachable{suffix} accept",
            f"    {new} daddr @blocked{suffix} drop",
        ]
    return lines


def _input(plan: RouterPlan, share: int) -> Iterable[str]:
    yield "  chain input {"
    yield "    type filter hook input priority filter; policy drop;"
    if plan.enabled:
        yield "    iifname @inner ip daddr 169.254.0.0/16 drop"
        if share:
            yield "    ct state new jump shares"
        yield from ASKED
    yield "  }"


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
    """Render the chain that drops spoofed sources of the router's networks.

    Security groups identify members by their addresses, even behind a router, so a router must not forward a source
    address that comes from an impossible direction. Addresses of one of the router's networks are accepted only from
    the interface on that network. Other routers may connect a network to additional networks. A packet with a source in
    such an additional network is not forwarded to the network, because it should arrive through the other router.
    Packets with any other source are forwarded: the source may be behind a guest that routes.

    A network may have ranges in which the router has no address. Such ranges also belong to the network, unless they
    overlap a range of another network of the router: the portal prevents overlaps only of ranges with an address of the
    router. Addresses of an overlapping range are not accepted as sources. A guest of the other network with an address
    in that range is not forwarded to networks where the router is not the gateway, because the address may belong to
    another guest there.
    """
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
