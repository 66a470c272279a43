"""The bridge's table: the origin of frames, anti-spoofing, and traffic that must never leave its network's bridge.

It sees each fragment of a packet separately, and the target of a neighbour message may be in a later fragment.
Therefore fragments of ICMPv6 messages other than echo messages are dropped (RFC 6980 forbids fragments of neighbour
discovery), and ``reassembled`` checks fields that are visible only in the whole packet.
"""

import functools
import ipaddress
from collections.abc import Sequence

from compute_agent.network.filters import rates
from compute_agent.network.filters.plan import FilteredPort, Plan, Source
from compute_agent.network.filters.tables import Chain, Elements, Table

TABLE = "novella_filters"
ND_TARGET = "@th,64,128"
"""The target address of a neighbour message (RFC 4861), for which nft 1.0 has no name."""
NOBODYS = "ether saddr @shared drop"
"""Drops frames whose source MAC address belongs to a service or router: no guest may use such an address."""
METADATA_V4, METADATA_V6 = "169.254.169.254", "fe80::a9fe:a9fe"
TAGGED = "ether type { 8021q, 8021ad } drop"
"""Drops frames with a VLAN tag. The kernel does not show them to IP filters, and receivers may remove the tag."""
OUTSIDE = ("vx", "nvp")
"""Name prefixes of bridge ports towards other hosts and physical networks."""
ECHO = "{ echo-request, echo-reply }"
"""The only ICMPv6 messages that may be fragmented. Error messages do not exceed the minimum MTU (RFC 4443)."""
PARSED = "meta l4proto != ipv6-frag"
"""Matches packets in which the kernel has found an upper-layer protocol behind the extension headers."""
BASE = {
    "prerouting": Chain(
        hook="type filter hook prerouting priority -300; policy accept;",
        rules=(
            *(f'iifname "{name}*" {TAGGED}' for name in ("tap", *OUTSIDE)),
            *(f'iifname "{name}*" jump from-hosts' for name in OUTSIDE),
            "meta mark set 0",
            "meta mark set iifname map @ports",
            "meta mark != 0 jump rates",
            "iifname vmap @taps",
            'iifname "tap*" drop',
        ),
    ),
    "from-hosts": Chain((f"ip daddr {METADATA_V4} drop", f"ip6 daddr {METADATA_V6} drop")),
    "fragments": Chain(
        (
            f"frag frag-off 0 icmpv6 type {ECHO} return",
            "frag frag-off 0 meta l4proto icmpv6 drop",
        )
    ),
    "forward": Chain(
        hook="type filter hook forward priority -300; policy accept;",
        rules=("meta mark set 0", "meta mark set oifname map @ports"),
    ),
}


def table(plan: Plan) -> Table:
    """Return the table of family bridge that drops spoofed frames."""
    taps = {q(port.tap): port.number for port in plan.ports}
    sets = {
        "shared": Elements("ether_addr", dict.fromkeys(plan.shared_macs, "")),
        "ports": Elements("ifname : mark", {tap: str(number) for tap, number in taps.items()}),
        "taps": Elements("ifname : verdict", {tap: f"jump from-{number}" for tap, number in taps.items()}),
    }
    chains = {f"from-{port.number}": Chain(_from(port)) for port in plan.ports}
    chains |= {"rates": Chain(rates.rules(plan)), **rates.chains(plan)}
    return Table("bridge", TABLE, sets | rates.sets(plan), chains | BASE)


def q(name: str) -> str:
    """Return a name in quotes, for nft."""
    return f'"{name}"'


@functools.lru_cache(maxsize=1 << 12)
def _from(port: FilteredPort) -> list[str]:
    if not port.enabled:
        return ["drop"]
    own = port.own
    metadata = [
        f"ip daddr {METADATA_V4} ether saddr != {port.mac} drop",
        f"ip daddr {METADATA_V4} {_not_in('ip saddr', own.v4)} drop".replace("  ", " "),
        f"ip6 daddr {METADATA_V6} ether saddr != {port.mac} drop",
        f"ip6 daddr {METADATA_V6} {_not_in('ip6 saddr', own.v6)} drop",
        f"ip daddr {METADATA_V4} ether daddr set {port.service_mac}",
    ]
    if not port.secured:
        return [NOBODYS, *metadata, "accept"]
    return [
        NOBODYS,  # an allowed pair may name such an address
        *metadata,
        "ether type ip udp sport 67 drop",
        "ether type ip6 udp sport 547 drop",
        "icmpv6 type { nd-router-advert, nd-redirect } drop",
        "exthdr frag exists jump fragments",
        *(line for source in port.sources for line in _as(source, asks=source.mac == port.mac)),
        "drop",
    ]


@functools.lru_cache(maxsize=1 << 12)
def reassembled(port: FilteredPort) -> list[str]:
    """Return the rules that drop spoofed packets in a table that sees whole packets.

    A check that cannot read a field drops the packet.
    """
    about = [
        f"ether saddr {source.mac} icmpv6 type nd-neighbor-advert {ND_TARGET} {{ {_targets(source)} }} return"
        for source in port.sources
    ]
    return [
        "meta nfproto ipv4 udp sport 67 drop",
        "meta nfproto ipv4 return",
        # A fragment header inside a reassembled packet: some systems reassemble it again, the kernel does not.
        "exthdr frag exists drop",
        "udp sport 547 drop",
        *about,
        "icmpv6 type { nd-router-advert, nd-neighbor-advert, nd-redirect } drop",
        f"{PARSED} return",
        "drop",
    ]


def _targets(source: Source) -> str:
    return ", ".join(_number_range(each) for each in source.v6)


def _number_range(text: str) -> str:
    """Return an IPv6 address or range as numbers, for the comparison with raw payload."""
    network = ipaddress.IPv6Network(text)
    first, last = int(network.network_address), int(network.broadcast_address)
    return f"{first:#034x}" if first == last else f"{first:#034x}-{last:#034x}"


def _not_in(field: str, addresses: Sequence[str]) -> str:
    """Return a match for all addresses except these. An empty match, which matches every address, if there are no
    ``addresses``.
    """
    return f"{field} != {{ {', '.join(addresses)} }}" if addresses else ""


def _as(source: Source, *, asks: bool) -> list[str]:
    """Return rules that allow packets with one source MAC address. ``asks``: the interface may request an address by
    DHCP.
    """
    mac = f"ether saddr {source.mac}"
    v4, v6 = ", ".join(source.v4), ", ".join(source.v6)
    targets = _targets(source)
    lines = [
        # The target of an advertisement must be one of the sender's own addresses.
        f"{mac} icmpv6 type nd-neighbor-advert {ND_TARGET} != {{ {targets} }} drop",
        f"{mac} ip6 saddr {{ {v6} }} accept",
        f"{mac} ip6 saddr :: icmpv6 type nd-neighbor-solicit {ND_TARGET} {{ {targets} }} accept",
        f"{mac} ip6 saddr :: icmpv6 type {{ mld2-listener-report, mld-listener-report }} accept",
    ]
    if v4:
        own = f"{mac} arp saddr ether {source.mac} arp saddr ip"
        lines += [
            f"{own} {{ {v4} }} accept",
            # A probe (RFC 5227) for another address makes its owner release it.
            f"{own} 0.0.0.0 arp daddr ip {{ {v4} }} accept",
            f"{mac} ip saddr {{ {v4} }} accept",
        ]
    if asks:
        lines.append(f"{mac} ip saddr 0.0.0.0 ip daddr 255.255.255.255 udp sport 68 udp dport 67 accept")
    return lines
