"""Networks that guests may not reach through this host: by default link-local addresses and the host's own networks.

If the machine runs in a cloud, that cloud may serve credentials at 169.254.169.254. A host's own networks contain the
operator's systems: portal, database, other hosts.
"""

import ipaddress
from collections.abc import Collection, Iterable
from dataclasses import dataclass

from compute_agent.network.kernel import links, namespace
from compute_agent.settings import CONNECTED, NETWORKS_BY_NAME, AgentSettings

LINK_SCOPE = 253
"""The scope of addresses that are valid only on their own link (rtnetlink's ``rt_scope``)."""


@dataclass(frozen=True)
class Reach:
    """Networks in CIDR notation, separately for IPv4 and IPv6."""

    blocked: tuple[str, ...] = ()
    reachable: tuple[str, ...] = ()
    """Networks that guests can reach although they are inside a blocked network."""
    blocked_six: tuple[str, ...] = ()
    reachable_six: tuple[str, ...] = ()


def reach_of(settings: AgentSettings, original: int | None, bridges: Collection[str]) -> Reach:
    """Return the blocked and reachable networks of the settings. Names of networks are resolved at each call, because
    the host's addresses may change.

    ``original`` is the machine's own network namespace if the agent has left it. ``bridges`` are Novella's own bridges.
    Raises RetryableHostError.
    """

    def resolve(words: Iterable[str]) -> list[tuple[str, ...]]:
        collected: set[str] = set()
        for word in words:
            if word == CONNECTED:
                collected |= connected(bridges)
                if original is not None:
                    collected |= namespace.open_in(original, lambda: connected(()))
            else:
                collected |= set(NETWORKS_BY_NAME.get(word, (word,)))
        networks = [ipaddress.ip_network(text) for text in sorted(collected)]
        four = [each for each in networks if isinstance(each, ipaddress.IPv4Network)]
        six = [each for each in networks if isinstance(each, ipaddress.IPv6Network)]
        return [
            tuple(map(str, ipaddress.collapse_addresses(four))),
            tuple(map(str, ipaddress.collapse_addresses(six))),
        ]

    (blocked, blocked_six), (reachable, reachable_six) = map(
        resolve, (settings.blocked_networks, settings.reachable_networks)
    )
    return Reach(blocked, reachable, blocked_six, reachable_six)


def connected(bridges: Collection[str]) -> set[str]:
    """Return the networks of the interfaces in the calling thread's namespace, without loopback and ``bridges``."""
    with links.netlink("list its addresses") as route:
        names = {link["index"]: link.get_attr("IFLA_IFNAME") for link in route.get_links()}
        addresses = [
            (row["index"], row.get_attr("IFA_ADDRESS"), row["prefixlen"])
            for row in route.get_addr()
            if row["scope"] != LINK_SCOPE
        ]
    return {
        str(ipaddress.ip_network((address, length), strict=False))
        for index, address, length in addresses
        if names.get(index) not in {"lo", None, *bridges} and length > 0
    }
