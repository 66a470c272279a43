"""Limits of packets per second for traffic that costs the host more than forwarding.

The host itself answers DHCP, DNS and metadata; ARP, neighbour discovery and other multicast reach every guest of a
network, with one copy for each other host; fragments take memory until their packets are complete. The limits apply to
each interface, and are far above the needs of guests.
"""

from collections.abc import Sequence

from compute_agent.network.filters.plan import Plan
from compute_agent.network.filters.tables import Chain, Elements

ASKS, FLOODS, FRAGMENTS = "asks", "floods", "fragments"
LIMITS = {ASKS: (1_000, 2_000), FLOODS: (5_000, 10_000), FRAGMENTS: (2_000, 4_000)}
"""Kind of traffic → packets per second, and burst in packets."""
METADATA_V4 = "169.254.169.254"
NEIGHBOURS = "{ nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert }"


def rules(plan: Plan) -> Sequence[str]:
    """Return the rules that apply an interface's limits to its packets, which are identified by their mark."""
    services = ", ".join(plan.service_macs)
    matches = [
        (ASKS, "ether type arp"),
        (ASKS, f"icmpv6 type {NEIGHBOURS}"),
        (ASKS, f"ip daddr {METADATA_V4}"),
        *([(ASKS, f"ether daddr {{ {services} }}")] if services else []),
        (FLOODS, "meta pkttype { broadcast, multicast }"),
        (FRAGMENTS, "ip frag-off & 0x3fff != 0"),
        (FRAGMENTS, "exthdr frag exists"),
    ]
    return [f"{match} meta mark vmap @{kind}" for kind, match in matches]


def sets(plan: Plan) -> dict[str, Elements]:
    """Return for each kind of packets a map from interfaces to their limits."""
    numbers = [port.number for port in plan.ports]
    return {
        kind: Elements("mark : verdict", {str(number): f"jump rate-{kind}-{number}" for number in numbers})
        for kind in LIMITS
    }


def chains(plan: Plan) -> dict[str, Chain]:
    """Return a chain for each limit, because rewriting a chain resets its counters."""
    return {
        f"rate-{kind}-{port.number}": Chain((f"limit rate over {many}/second burst {burst} packets drop",))
        for kind, (many, burst) in LIMITS.items()
        for port in plan.ports
    }
