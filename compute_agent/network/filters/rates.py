"""How many packets a second an interface may send of those that cost the host more than to pass them on.

The host itself answers DHCP, names and metadata; ARP and neighbour discovery reach every guest of a network, as all
that is sent to a group does, and each other host by a copy of its own; fragments take memory until their packets are
whole.  The limits are for each interface, far above what guests need.
"""

from collections.abc import Sequence

from compute_agent.network.filters.plan import Plan
from compute_agent.network.filters.tables import Chain, Elements

ASKS, FLOODS, FRAGMENTS = "asks", "floods", "fragments"
LIMITS = {ASKS: (1_000, 2_000), FLOODS: (5_000, 10_000), FRAGMENTS: (2_000, 4_000)}
"""Packets a second, and at once."""
METADATA_V4 = "169.254.169.254"
NEIGHBOURS = "{ nd-router-solicit, nd-neighbor-solicit, nd-neighbor-advert }"


def rules(plan: Plan) -> Sequence[str]:
    """Return the rules that send packets of a guest's interface, known by their mark, to its limits."""
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
    """Return for each kind of packets the map from interfaces to their limits."""
    numbers = [port.number for port in plan.ports]
    return {
        kind: Elements("mark : verdict", {str(number): f"jump rate-{kind}-{number}" for number in numbers})
        for kind in LIMITS
    }


def chains(plan: Plan) -> dict[str, Chain]:
    """Return a chain for each limit: what is counted is lost when a chain is written again."""
    return {
        f"rate-{kind}-{port.number}": Chain((f"limit rate over {many}/second burst {burst} packets drop",))
        for kind, (many, burst) in LIMITS.items()
        for port in plan.ports
    }
