"""Sets the addresses and on-link ranges of an interface inside a namespace."""

import contextlib
import ipaddress
from collections.abc import Collection
from pathlib import Path
from typing import Any

from compute_agent.network.kernel import links
from compute_agent.virt.errors import RetryableHostError

IPV6 = Path("/proc/sys/net/ipv6")
QUIET_V6 = {"disable_ipv6": "0", "addr_gen_mode": "1", "accept_ra": "0", "dad_transmits": "0", "accept_dad": "0"}
"""Settings of an interface whose addresses are the same on every host: no autoconfiguration, no duplicate detection."""
IFA_F_NODAD = 0x02
"""Use an address without duplicate address detection (linux/if_addr.h)."""
SCOPE_LINK = 253
RTPROT_BOOT = 3


def ensure_addresses(
    interface: str, mac: str, mtu: int, addresses: Collection[str], on_link: Collection[str], *, new: bool = False
) -> None:
    """Bring up an interface of the calling thread's namespace, and loopback, with exactly these addresses.

    ``addresses`` have prefix lengths. ``on_link``: ranges that get a route through the interface, even if the interface
    has no address in them. ``new``: the interface has no address yet. Raises RetryableHostError.
    """
    with_v6 = IPV6.exists()
    desired = {each for each in addresses if with_v6 or ":" not in each}
    ranges = {each for each in on_link if with_v6 or ":" not in each}
    with links.netlink("assign the addresses of the network's services") as route:
        (link,) = route.link("get", ifname=interface)
        index = link["index"]
        if link.get_attr("IFLA_OPERSTATE") == "DOWN" or not link["flags"] & links.IFF_UP:
            if with_v6:
                for setting, value in QUIET_V6.items():
                    with contextlib.suppress(RetryableHostError):
                        links.write_sysctl(f"net/ipv6/conf/{interface}/{setting}", value)
            route.link("set", index=links.LOOPBACK, state="up")
            route.link("set", index=index, state="up")
        if link.get_attr("IFLA_ADDRESS") != mac or link.get_attr("IFLA_MTU") != mtu:
            route.link("set", index=index, address=mac, mtu=mtu)
        _bring_addresses(route, index, set() if new else _addresses(route, index), desired)
        ranges -= {str(ipaddress.ip_interface(each).network) for each in desired}
        _bring_ranges(route, index, set() if new else _ranges(route, index), ranges)


def _addresses(route: Any, index: int) -> set[str]:
    return {f"{row.get_attr('IFA_ADDRESS')}/{row['prefixlen']}" for row in route.get_addr(index=index)}


def _bring_addresses(route: Any, index: int, have: set[str], desired: set[str]) -> None:
    for each in sorted(have - desired):
        address, _, length = each.partition("/")
        route.addr("del", index=index, address=address, prefixlen=int(length))
    for each in sorted(desired - have):
        address, _, length = each.partition("/")
        at_once = {"flags": IFA_F_NODAD} if ":" in address else {}
        route.addr("add", index=index, address=address, prefixlen=int(length), **at_once)


def _ranges(route: Any, index: int) -> set[str]:
    return {
        f"{row.get_attr('RTA_DST')}/{row['dst_len']}"
        for family in (2, 10)
        for row in route.get_routes(family=family, oif=index)
        if row["proto"] == RTPROT_BOOT and row.get_attr("RTA_DST") and not row.get_attr("RTA_GATEWAY")
    }


def _bring_ranges(route: Any, index: int, have: set[str], desired: set[str]) -> None:
    for each in have - desired:
        route.route("del", dst=each, oif=index)
    for each in desired - have:
        route.route("add", dst=each, oif=index, scope=SCOPE_LINK, proto=RTPROT_BOOT)
