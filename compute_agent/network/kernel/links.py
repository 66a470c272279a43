"""Bridges and interfaces of the kernel, by netlink; every function is idempotent."""

import errno
import hashlib
import re
import socket
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from compute_agent.virt.errors import RetryableHostError

IPV6 = Path("/proc/sys/net/ipv6/conf")
IFF_UP = 1
FAMILIES = {4: socket.AF_INET, 6: socket.AF_INET6}
"""IP version → address family."""
LOOPBACK = 1
"""The index of each namespace's loopback interface (linux/net_namespace.h)."""
NTF_SELF, NTF_MASTER, NTF_STICKY = 2, 4, 64
NUD_NOARP, NUD_PERMANENT = 0x40, 0x80
DEAF = (
    ("net/ipv4/conf/{}/forwarding", "0"),
    ("net/ipv4/conf/{}/arp_ignore", "8"),  # answers for none of this host's addresses
    ("net/ipv4/conf/{}/rp_filter", "1"),  # no return route uses the bridge, so its packets are dropped
)
"""Settings of a bridge that only forwards frames between its ports."""
INTERFACE = re.compile(r"^[A-Za-z0-9_.-]{1,15}$")


@contextmanager
def netlink(action: str) -> Iterator[Any]:
    """Open netlink in the calling thread's namespace. Errors become RetryableHostError with ``action`` in
    the message.
    """
    try:
        with IPRoute() as route:
            yield route
    except (NetlinkError, OSError) as error:
        raise RetryableHostError(f"The host could not {action}.", detail=str(error)) from error


def index_of(route: Any, name: str) -> int:
    """Return the index of an interface. Raises NetlinkError if it does not exist, as if it had been deleted
    concurrently.
    """
    indexes = route.link_lookup(ifname=name)
    if not indexes:
        raise NetlinkError(errno.ENODEV, f"there is no {name}")
    return int(indexes[0])


def interface_name(name: str) -> str:
    """Return ``name`` if it is valid for the kernel and the filters; raises RetryableHostError."""
    if not INTERFACE.fullmatch(name) or name in (".", ".."):
        raise RetryableHostError("The host cannot use the name of a network interface.", detail=repr(name))
    return name


def bridge_mac(bridge: str) -> str:
    """Return the bridge's own MAC address, which never changes, because guests may cache it."""
    digest = hashlib.sha256(bridge.encode()).digest()
    return "fa:16:3f:" + ":".join(f"{byte:02x}" for byte in digest[:3])


def ensure_plain_bridge(bridge: str, mtu: int, *, up: bool = True) -> None:
    """Create a bridge without an address, on which the host itself neither answers, routes nor accepts packets."""
    interface_name(bridge)
    with netlink("create the network's bridge") as route:
        indexes = route.link_lookup(ifname=bridge)
        if not indexes:
            route.link(
                "add", ifname=bridge, kind="bridge", br_stp_state=0, br_forward_delay=0, address=bridge_mac(bridge)
            )
        index = index_of(route, bridge)
        silence(bridge)
        for name, value in DEAF:
            write_sysctl(name.format(bridge), value)
        for address in route.get_addr(index=index):  # of an older version
            route.addr("del", index=index, address=address.get_attr("IFA_ADDRESS"), prefixlen=address["prefixlen"])
        link = route.get_links(index)[0]
        if link.get_attr("IFLA_MTU") != mtu or (link["flags"] & IFF_UP != 0) != up:
            route.link("set", index=index, mtu=mtu, state="up" if up else "down")


def join(bridge: str, interfaces: Collection[str]) -> None:
    """Attach the interfaces that exist to the bridge. Interfaces lose a bridge that is recreated."""
    with netlink("add an interface to the network's bridge") as route:
        links = {link.get_attr("IFLA_IFNAME"): link for link in route.get_links()} if interfaces else {}
        for link in (links[name] for name in interfaces if name in links and bridge in links):
            if link.get_attr("IFLA_MASTER") == links[bridge]["index"]:
                continue
            try:
                route.link("set", index=link["index"], master=links[bridge]["index"], state="up")
            except NetlinkError as error:
                if error.code != errno.ENODEV:  # deleted concurrently
                    raise


def silence(interface: str) -> None:
    """Prevent the kernel from sending its own packets (IPv6 router and group queries) from a bridge or its port.

    An interface whose MTU is too small for IPv6 has no such setting and sends none.
    """
    if (IPV6 / interface).exists():
        write_sysctl(f"net/ipv6/conf/{interface}/disable_ipv6", "1")


def attach(route: Any, interface: str, bridge: str, mac: str, mtu: int) -> None:
    """Attach one end of a veth pair to a bridge. ``mac`` is the only address behind it, so learning and flooding are
    disabled.

    ``route`` is an open ``netlink``.
    """
    (link,), master = route.link("get", ifname=interface), index_of(route, bridge)
    index = link["index"]
    if link.get_attr("IFLA_MASTER") == master and link.get_attr("IFLA_MTU") == mtu and link["flags"] & IFF_UP:
        return
    silence(interface)
    route.link("set", index=index, master=master, mtu=mtu, state="up")
    route.brport("set", index=index, learning=0, unicast_flood=0)
    hold_address(route, index, mac)


def hold_address(route: Any, index: int, mac: str) -> None:
    """Enter an address into the bridge's table for a port that does not learn.

    Without the flag, a frame of another host with this address, such as a router that was here and comes back there,
    would move the entry to the port on which it arrives, for ever.
    """
    route.fdb("replace", ifindex=index, lladdr=mac, flags=NTF_MASTER | NTF_STICKY, state=NUD_NOARP)


def names() -> list[str]:
    """Return the interfaces and bridges of the calling thread's namespace."""
    with netlink("list its network interfaces") as route:
        return sorted(link.get_attr("IFLA_IFNAME") for link in route.get_links())


def masters() -> dict[str, str]:
    """Return interface → bridge, for each interface that is a port of a bridge."""
    with netlink("list its network interfaces") as route:
        links = {link["index"]: link for link in route.get_links()}
        named = {index: link.get_attr("IFLA_IFNAME") for index, link in links.items()}
        return {
            named[index]: named[link.get_attr("IFLA_MASTER")]
            for index, link in links.items()
            if link.get_attr("IFLA_MASTER") in named
        }


def delete(name: str) -> bool:
    """Remove a bridge or interface; return whether it existed."""
    with netlink("remove a network interface") as route:
        indexes = route.link_lookup(ifname=name)
        if indexes:
            try:
                route.link("del", index=indexes[0])
            except NetlinkError as error:
                if error.code != errno.ENODEV:  # deleted concurrently
                    raise
    return bool(indexes)


def write_sysctl(name: str, value: str) -> None:
    """Set a kernel setting of the calling thread's network namespace; raises RetryableHostError.

    Parts of ``name`` are separated by dots, or by slashes if a part may contain a dot.
    """
    path = Path("/proc/sys") / (name if "/" in name else name.replace(".", "/"))
    try:
        if path.read_text().strip() != value:
            path.write_text(value)
    except OSError as error:
        raise RetryableHostError("The host's network could not be prepared.", detail=f"{name}: {error}") from error
