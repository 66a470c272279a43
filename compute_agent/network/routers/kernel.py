"""Applies planned interfaces, addresses, routes and neighbours to a namespace. Unchanged objects are left unchanged."""

import errno
import ipaddress
import logging
import os
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from compute_agent.network.kernel import links, namespace, tracking
from compute_agent.network.kernel.reach import LINK_SCOPE
from compute_agent.network.routers.plan import DEFAULTS, LINK_SIX
from compute_agent.network.routers.records import Detour, Leg, Link, Route
from compute_agent.virt.errors import RetryableHostError

log = logging.getLogger(__name__)

PROTOCOL = 78
"""Marks our routes, to distinguish them from the kernel's (rtnetlink's ``rtm_protocol``)."""
RULE_PRIORITY = 100
SETTINGS = {
    "net.ipv4.ip_forward": "1",
    "net.ipv6.conf.all.disable_ipv6": "0",
    "net.ipv6.conf.default.disable_ipv6": "0",
    "net.ipv6.conf.all.forwarding": "1",
    "net.ipv6.conf.default.accept_ra": "0",
    # The same addresses exist on other hosts: no duplicate detection.
    "net.ipv6.conf.default.accept_dad": "0",
    "net.ipv6.conf.all.accept_redirects": "0",
    "net.ipv6.conf.default.accept_redirects": "0",
    # Packets of a connection may arrive on one interface and leave by another.
    "net.ipv4.conf.all.rp_filter": "0",
    "net.ipv4.conf.default.rp_filter": "0",
    "net.ipv4.conf.all.accept_redirects": "0",
    "net.ipv4.conf.all.send_redirects": "0",
    "net.ipv4.conf.default.send_redirects": "0",
    # Each interface answers and sends requests only with its own addresses, even if two are in one network.
    "net.ipv4.conf.all.arp_ignore": "1",
    "net.ipv4.conf.all.arp_announce": "2",
    "net.netfilter.nf_conntrack_tcp_be_liberal": "1",
    tracking.ESTABLISHED: tracking.IDLE,
}
"""Settings of a namespace that routes."""


@contextmanager
def within(space: str, action: str) -> Iterator[Any]:
    """Open netlink in a namespace, which the calling thread enters while the block runs. Errors are converted as in
    ``links.netlink``.
    """
    try:
        with namespace.inside(space), links.netlink(action) as route:
            yield route
    except OSError as error:
        raise RetryableHostError(f"The host could not {action}.", detail=f"{space}: {error}") from error


def ensure_namespace(name: str) -> None:
    """Create a namespace that routes packets. Raises RetryableHostError."""
    try:
        namespace.ensure(name)
    except OSError as error:
        raise RetryableHostError("The host could not create a router.", detail=f"{name}: {error}") from error
    with within(name, "start a router") as route:
        for setting, value in SETTINGS.items():
            links.write_sysctl(setting, value)
        tracking.prepare_fragments()
        route.link("set", index=links.LOOPBACK, state="up")


def ensure_leg(space: str, leg: Leg) -> None:
    """Connect a namespace to a bridge of the calling thread's namespace.

    Learning and flooding are disabled on the bridge's port. The leg's MAC address is entered into the bridge's table.
    """
    with links.netlink("join a router with its network") as route:
        found, bridges = route.link_lookup(ifname=leg.name), route.link_lookup(ifname=leg.bridge)
        if not bridges:
            raise RetryableHostError("The host has not created the network of a router yet.", detail=leg.bridge)
        if not found or not _has(space, leg.name):
            if found:  # its other end is in a deleted namespace, which a process keeps alive
                route.link("del", index=found[0])
            _make_pair(route, leg.name, space, leg.name)
            found = route.link_lookup(ifname=leg.name)
        port = route.get_links(found[0])[0]
        if port.get_attr("IFLA_MASTER") != bridges[0] or port.get_attr("IFLA_MTU") != leg.mtu:
            links.write_sysctl(f"net/ipv6/conf/{leg.name}/disable_ipv6", "1")
            route.link("set", index=found[0], master=bridges[0], mtu=leg.mtu, state="up")
        route.brport("set", index=found[0], learning=0, unicast_flood=0)
        links.hold_address(route, found[0], leg.mac)
    with within(space, "join a router with its network") as route:
        index = links.index_of(route, leg.name)
        own = route.get_links(index)[0]
        if own.get_attr("IFLA_ADDRESS") != leg.mac or own.get_attr("IFLA_MTU") != leg.mtu or not _is_up(own):
            route.link("set", index=index, address=leg.mac, mtu=leg.mtu, state="up")
        bring_addresses(route, index, leg.addresses)


def _has(space: str, interface: str) -> bool:
    with within(space, "read a router's interfaces") as route:
        return bool(route.link_lookup(ifname=interface))


def ensure_link(router: str, external: str, link: Link) -> None:
    """Connect a router's namespace to the namespace of its external network."""
    with within(router, "join a router with its external network") as route:
        indexes = route.link_lookup(ifname=link.router_end)
        if not indexes or not _has(external, link.external_end):
            if indexes:
                route.link("del", index=indexes[0])
            with within(external, "join a router with its external network") as outer:
                for left in outer.link_lookup(ifname=link.external_end):
                    outer.link("del", index=left)
            _make_pair(route, link.router_end, external, link.external_end)
        _bring_end(route, link.router_end, link.mtu, link.router_address, LINK_SIX["router"])
    with within(external, "join a router with its external network") as route:
        _bring_end(route, link.external_end, link.mtu, link.external_address, LINK_SIX["external"])


def keep_only(names: Collection[str]) -> None:
    """Remove all interfaces except ``names`` from the calling thread's namespace."""
    with links.netlink("remove a router from a network") as route:
        for link in route.get_links():
            if link.get_attr("IFLA_IFNAME") not in {"lo", *names}:
                with gone():
                    route.link("del", index=link["index"])


def answer_for_others(interface: str) -> None:
    """Enable proxy ARP on this interface: the namespace answers for addresses that it routes elsewhere."""
    links.write_sysctl(f"net/ipv4/conf/{interface}/proxy_arp", "1")
    links.write_sysctl(f"net/ipv4/neigh/{interface}/proxy_delay", "0")


def bring_addresses(route: Any, index: int, desired: Iterable[str]) -> None:
    """Set the interface's addresses (with prefix length). Its own link-local address is kept."""
    have = {f"{row.get_attr('IFA_ADDRESS')}/{row['prefixlen']}": row["scope"] for row in route.get_addr(index=index)}
    planned = set(desired)
    for text in planned - set(have):
        address = ipaddress.ip_interface(text)
        route.addr("add", index=index, address=str(address.ip), prefixlen=address.network.prefixlen)
    for text, scope in have.items():
        if text not in planned and scope != LINK_SCOPE:
            old, _, length = text.partition("/")
            route.addr("del", index=index, address=old, prefixlen=int(length))


def bring_own(addresses: Iterable[str]) -> None:
    """Set the IPv4 addresses that the namespace itself answers for."""
    with links.netlink("answer for its floating addresses") as route:
        bring_addresses(route, links.LOOPBACK, {"127.0.0.1/8", "::1/128", *(f"{address}/32" for address in addresses)})


def bring_routes(ways: Iterable[Route]) -> list[str]:
    """Set this package's routes in the namespace. Return the destinations of the routes that the kernel rejects."""
    refused = []
    with links.netlink("set a router's routes") as route:
        indexes = {link.get_attr("IFLA_IFNAME"): link["index"] for link in route.get_links()}
        desired = {}
        for way in ways:
            if way.interface in indexes:
                desired[_key(way, indexes)] = way
            else:
                refused.append(way.destination)
        have = {key for family in links.FAMILIES.values() for key in _routes(route, family)}
        for key in have - set(desired):
            with gone():
                route.route("del", proto=PROTOCOL, **_arguments(key))
        for key in sorted(set(desired) - have, key=str):
            try:
                route.route("replace", proto=PROTOCOL, **_arguments(key))
            except NetlinkError as error:
                log.warning("the route %s is refused: %s", desired[key], error)
                refused.append(desired[key].destination)
    return refused


def bring_neighbours(desired: frozenset[tuple[str, str, str]]) -> None:
    """Set the namespace's permanent neighbours (interface, address, MAC address)."""
    with links.netlink("set a router's neighbours") as route:
        by_index = {link["index"]: link.get_attr("IFLA_IFNAME") for link in route.get_links()}
        indexes = {name: index for index, name in by_index.items()}
        have = {
            (by_index.get(row["ifindex"], ""), row.get_attr("NDA_DST"), row.get_attr("NDA_LLADDR"))
            for family in links.FAMILIES.values()
            for row in route.get_neighbours(family=family)
            if row["state"] & links.NUD_PERMANENT
        }
        desired = frozenset(each for each in desired if each[0] in indexes)
        kept = {(name, address) for name, address, _ in desired}
        for name, address, _ in have - desired:
            if (name, address) not in kept:
                with gone():
                    route.neigh("del", family=_family(address), ifindex=indexes[name], dst=address)
        for name, address, mac in desired - have:
            route.neigh("replace", family=_family(address), ifindex=indexes[name], dst=address, lladdr=mac,
                        state="permanent")  # fmt: skip


def bring_rules(detours: Iterable[Detour]) -> None:
    """Route packets with the mark of a detour through the detour's routing table."""
    with links.netlink("set a router's rules") as route:
        desired = {detour.number for detour in detours}
        have = {row.get_attr("FRA_FWMARK") for row in route.get_rules(family=socket.AF_INET)} - {None}
        for number in have - desired:
            route.rule("del", priority=RULE_PRIORITY, fwmark=number, table=table_of(number))
        for number in desired - have:
            route.rule("add", priority=RULE_PRIORITY, fwmark=number, table=table_of(number))


def table_of(number: int) -> int:
    """Return the number of a detour's routing table. The kernel's own tables have numbers up to 255."""
    return 1000 + number


def ways_back(detours: Iterable[Detour]) -> list[Route]:
    """Return the route of each detour, in its own routing table."""
    return [Route(DEFAULTS[0], detour.leg, detour.next_hop, table_of(detour.number)) for detour in detours]


def neighbours_back(detours: Iterable[Detour]) -> frozenset[tuple[str, str, str]]:
    """Return the neighbour entry of the next hop of each detour."""
    return frozenset((detour.leg, detour.next_hop, detour.mac) for detour in detours)


def _make_pair(route: Any, name: str, space: str, other_end: str) -> None:
    there = os.open(namespace.FOLDER / space, os.O_RDONLY | os.O_CLOEXEC)
    try:
        route.link("add", ifname=name, kind="veth", peer={"ifname": other_end, "net_ns_fd": there})
    finally:
        os.close(there)


def _bring_end(route: Any, name: str, mtu: int, address: str, six: str) -> None:
    index = links.index_of(route, name)
    link = route.get_links(index)[0]
    if link.get_attr("IFLA_MTU") != mtu or not _is_up(link):
        route.link("set", index=index, mtu=mtu, state="up")
    bring_addresses(route, index, (f"{address}/31",))
    have = {row.get_attr("IFA_ADDRESS") for row in route.get_addr(family=socket.AF_INET6, index=index)}
    if six not in have:
        route.addr("add", family=socket.AF_INET6, index=index, address=six, prefixlen=64)


def _is_up(link: Any) -> bool:
    return bool(link["flags"] & links.IFF_UP)


def _family(address: str) -> int:
    return links.FAMILIES[ipaddress.ip_address(address).version]


Key = tuple[int, str, int, str, int]
"""Family, destination, index of the interface, next hop, table."""


def _key(way: Route, indexes: Mapping[str, int]) -> Key:
    network = ipaddress.ip_network(way.destination)
    return (links.FAMILIES[network.version], str(network), indexes[way.interface], way.next_hop, way.table)


def _routes(route: IPRoute, family: int) -> Iterator[Key]:
    everywhere = "0.0.0.0/0" if family == socket.AF_INET else "::/0"
    for row in route.get_routes(family=family):
        if row["proto"] == PROTOCOL:
            target = row.get_attr("RTA_DST")
            destination = f"{target}/{row['dst_len']}" if target else everywhere
            table = row.get_attr("RTA_TABLE") or row["table"]
            yield (family, destination, row.get_attr("RTA_OIF"), row.get_attr("RTA_GATEWAY") or "", table)


def _arguments(key: Key) -> dict[str, Any]:
    family, destination, index, next_hop, table = key
    result: dict[str, Any] = {"family": family, "dst": destination, "oif": index, "table": table}
    if next_hop:
        result |= {"gateway": next_hop, **({"flags": "onlink"} if family == socket.AF_INET else {})}
    else:
        result["scope"] = LINK_SCOPE
    return result


@contextmanager
def gone() -> Iterator[None]:
    """Ignore errors for objects that no longer exist."""
    try:
        yield
    except NetlinkError as error:
        if error.code not in (errno.ENOENT, errno.ESRCH, errno.ENODEV, errno.EADDRNOTAVAIL):
            raise
