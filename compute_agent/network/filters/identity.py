"""The bridge's table: who a frame comes from, what a guest may send as, and what never crosses a network."""

import functools
import ipaddress
from collections.abc import Sequence

from compute_agent.network.filters.plan import FilteredPort, Plan, Source
from compute_agent.network.filters.tables import Chain, Elements, Table

TABLE = "novella_filters"
ND_TARGET = "@th,64,128"
"""Whose address a neighbour message is about (RFC 4861); nft 1.0 has no name for it."""
NOBODYS = "ether saddr @shared drop"
"""Hardware addresses of services and routers are no guest's."""
METADATA_V4, METADATA_V6 = "169.254.169.254", "fe80::a9fe:a9fe"
TAGGED = "ether type { 8021q, 8021ad } drop"
"""Frames with a VLAN tag: the kernel does not show them to the filters of IP, and receivers may take the tag off."""
OUTSIDE = ("vx", "nvp")
"""What names of bridges' ports towards other hosts and physical networks begin with."""
BASE = {
    "prerouting": Chain(
        hook="type filter hook prerouting priority -300; policy accept;",
        rules=(
            *(f'iifname "{name}*" {TAGGED}' for name in ("tap", *OUTSIDE)),
            *(f'iifname "{name}*" jump from-hosts' for name in OUTSIDE),
            "meta mark set 0",
            "meta mark set iifname map @ports",
            "iifname vmap @taps",
            'iifname "tap*" drop',
        ),
    ),
    "from-hosts": Chain((f"ip daddr {METADATA_V4} drop", f"ip6 daddr {METADATA_V6} drop")),
    "forward": Chain(
        hook="type filter hook forward priority -300; policy accept;",
        rules=("meta mark set 0", "meta mark set oifname map @ports"),
    ),
}


def table(plan: Plan) -> Table:
    """Return the table of family bridge that drops what a port is not allowed to send as its own."""
    taps = {q(port.tap): port.number for port in plan.ports}
    sets = {
        "shared": Elements("ether_addr", dict.fromkeys(plan.shared_macs, "")),
        "ports": Elements("ifname : mark", {tap: str(number) for tap, number in taps.items()}),
        "taps": Elements("ifname : verdict", {tap: f"jump from-{number}" for tap, number in taps.items()}),
    }
    chains = {f"from-{port.number}": Chain(_from(port)) for port in plan.ports}
    return Table("bridge", TABLE, sets, chains | BASE)


def q(name: str) -> str:
    """Return a name between quotes, for nft."""
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
        *(line for source in port.sources for line in _as(source, asks=source.mac == port.mac)),
        "drop",
    ]


def _number_range(text: str) -> str:
    """Return an IPv6 address or range as numbers, as raw payload is compared."""
    network = ipaddress.IPv6Network(text)
    first, last = int(network.network_address), int(network.broadcast_address)
    return f"{first:#034x}" if first == last else f"{first:#034x}-{last:#034x}"


def _not_in(field: str, addresses: Sequence[str]) -> str:
    """Match what is none of the addresses; everything when there are none."""
    return f"{field} != {{ {', '.join(addresses)} }}" if addresses else ""


def _as(source: Source, *, asks: bool) -> list[str]:
    """Let through what is sent with one hardware address; ``asks``: it may ask for an address."""
    mac = f"ether saddr {source.mac}"
    v4, v6 = ", ".join(source.v4), ", ".join(source.v6)
    targets = ", ".join(_number_range(each) for each in source.v6)
    lines = [
        # An announcement or answer names whose address it is about: only one's own.
        f"{mac} icmpv6 type nd-neighbor-advert {ND_TARGET} != {{ {targets} }} drop",
        f"{mac} ip6 saddr {{ {v6} }} accept",
        f"{mac} ip6 saddr :: icmpv6 type nd-neighbor-solicit {ND_TARGET} {{ {targets} }} accept",
        f"{mac} ip6 saddr :: icmpv6 type {{ mld2-listener-report, mld-listener-report }} accept",
        f"{mac} arp saddr ether {source.mac} arp saddr ip {{ 0.0.0.0{', ' if v4 else ''}{v4} }} accept",
    ]
    if v4:
        lines.append(f"{mac} ip saddr {{ {v4} }} accept")
    if asks:
        lines.append(f"{mac} ip saddr 0.0.0.0 ip daddr 255.255.255.255 udp sport 68 udp dport 67 accept")
    return lines
