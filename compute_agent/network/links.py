"""Bridges and interfaces of the kernel, through netlink; every function is idempotent."""

import hashlib
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pyroute2 import IPRoute
from pyroute2.netlink.exceptions import NetlinkError

from compute_agent.virt.errors import RetryableHostError

IPV6 = Path("/proc/sys/net/ipv6/conf")
INTERFACE = re.compile(r"^[A-Za-z0-9_.-]{1,15}$")


@contextmanager
def netlink(action: str) -> Iterator[Any]:
    """Open netlink in the calling thread's namespace; its errors become RetryableHostError, ``action`` in the text."""
    try:
        with IPRoute() as route:
            yield route
    except (NetlinkError, OSError) as error:
        raise RetryableHostError(f"The host could not {action}.", detail=str(error)) from error


def interface_name(name: str) -> str:
    """Return ``name`` if the kernel and the filters can carry it; raises RetryableHostError."""
    if not INTERFACE.fullmatch(name) or name in (".", ".."):
        raise RetryableHostError("The host cannot use the name of a network interface.", detail=repr(name))
    return name


def bridge_mac(bridge: str) -> str:
    """Return the bridge's own hardware address: always the same, whatever it joins, so guests may remember it."""
    digest = hashlib.sha256(bridge.encode()).digest()
    return "fa:16:3f:" + ":".join(f"{byte:02x}" for byte in digest[:3])


def ensure_bridge(bridge: str, address: str | None, prefix_length: int, mtu: int) -> bool:
    """Make the bridge with its address and MTU (bytes), up; say whether it was not there before."""
    interface_name(bridge)
    with netlink("make the network's bridge") as route:
        found = route.link_lookup(ifname=bridge)
        made = not found
        if made:
            route.link(
                "add", ifname=bridge, kind="bridge", br_stp_state=0, br_forward_delay=0, address=bridge_mac(bridge)
            )
            found = route.link_lookup(ifname=bridge)
        index = found[0]
        route.link("set", index=index, mtu=mtu, state="up")
        have = {entry.get_attr("IFA_ADDRESS"): entry["prefixlen"] for entry in route.get_addr(family=2, index=index)}
        for other, length in have.items():
            if (other, length) != (address, prefix_length):
                route.addr("del", index=index, address=other, prefixlen=length)
        if address is not None and have.get(address) != prefix_length:
            route.addr("add", index=index, address=address, prefixlen=prefix_length)
    return made


def join(bridge: str, interface: str) -> None:
    """Put an interface that is there into the bridge (a bridge made anew has lost its interfaces)."""
    with netlink("put an interface into the network's bridge") as route:
        interfaces, bridges = route.link_lookup(ifname=interface), route.link_lookup(ifname=bridge)
        if not interfaces or not bridges:
            return
        if route.get_links(interfaces[0])[0].get_attr("IFLA_MASTER") != bridges[0]:
            route.link("set", index=interfaces[0], master=bridges[0], state="up")


def names() -> list[str]:
    """List the interfaces and bridges of the calling thread's namespace."""
    with netlink("list its network interfaces") as route:
        return sorted(link.get_attr("IFLA_IFNAME") for link in route.get_links())


def delete(name: str) -> bool:
    """Remove a bridge or interface; say whether it was there."""
    with netlink("remove a network interface") as route:
        found = route.link_lookup(ifname=name)
        if found:
            try:
                route.link("del", index=found[0])
            except NetlinkError as error:
                if error.code != 19:  # ENODEV: it went by itself meanwhile
                    raise
    return bool(found)


def write_sysctl(name: str, value: str) -> None:
    """Set a kernel setting of the calling thread's network namespace; raises RetryableHostError."""
    path = Path("/proc/sys") / name.replace(".", "/")
    try:
        if path.read_text().strip() != value:
            path.write_text(value)
    except OSError as error:
        raise RetryableHostError("The host's network could not be prepared.", detail=f"{name}: {error}") from error
