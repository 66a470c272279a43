"""Announces new locations of addresses: gratuitous ARP (RFC 5227) and unsolicited neighbour advertisements."""

import ipaddress
import socket
import struct
from collections.abc import Callable, Collection, Iterable

from compute_agent.network.routers.plan import Leg
from compute_agent.virt.errors import RetryableHostError

BROADCAST = b"\xff" * 6
ARP, IPV6 = 0x0806, 0x86DD
OVERRIDE = 0x20000000
TIMES = 3
"""Number of announcements of a new address."""
ALL_NODES = ipaddress.IPv6Address("ff02::1")


def announce(interface: str, mac: str, addresses: Iterable[str]) -> None:
    """Announce each address at this interface, from the calling thread's namespace."""
    own = bytes.fromhex(mac.replace(":", ""))
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
            sender.bind((interface, 0))
            for text in addresses:
                address = ipaddress.ip_address(text)
                if isinstance(address, ipaddress.IPv4Address):
                    for operation in (1, 2):  # some systems process only requests, others only replies
                        sender.send(_arp(own, address, operation))
                else:
                    sender.send(_advertisement(own, address))
    except OSError as error:
        raise RetryableHostError("The host could not announce addresses.", detail=str(error)) from error


def _arp(mac: bytes, address: ipaddress.IPv4Address, operation: int) -> bytes:
    body = struct.pack("!HHBBH", 1, 0x0800, 6, 4, operation)
    return BROADCAST + mac + struct.pack("!H", ARP) + body + mac + address.packed + BROADCAST + address.packed


def _advertisement(mac: bytes, address: ipaddress.IPv6Address) -> bytes:
    body = struct.pack("!BBHI", 136, 0, 0, OVERRIDE) + address.packed + struct.pack("!BB", 2, 1) + mac
    pseudo = address.packed + ALL_NODES.packed + struct.pack("!II", len(body), socket.IPPROTO_ICMPV6) + body
    total = sum(struct.unpack(f"!{len(pseudo) // 2}H", pseudo))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    body = body[:2] + struct.pack("!H", ~total & 0xFFFF) + body[4:]
    head = struct.pack("!IHBB", 6 << 28, len(body), socket.IPPROTO_ICMPV6, 255) + address.packed + ALL_NODES.packed
    return b"\x33\x33" + ALL_NODES.packed[-4:] + mac + struct.pack("!H", IPV6) + head + body


Inside = Callable[[str, Callable[[], None]], None]
"""Runs work in the namespace with this name."""


class Announcements:
    """Announces new addresses immediately, and again with the next checks, in case packets were lost.

    An address that has moved to another host is no longer announced here.
    """

    def __init__(self) -> None:
        self._left: dict[tuple[str, str, str], dict[str, int]] = {}
        """Namespace, interface and MAC address → remaining announcements of each address."""

    def add(self, inside: Inside, space: str, leg: Leg, addresses: frozenset[str]) -> None:
        """Announce these addresses on a leg of the namespace ``space``."""
        if addresses:
            inside(space, lambda: announce(leg.name, leg.mac, addresses))
            self._left.setdefault((space, leg.name, leg.mac), {}).update(dict.fromkeys(addresses, TIMES - 1))

    def keep_only(self, space: str, interface: str, addresses: Collection[str]) -> None:
        """Stop announcing all addresses on this interface except ``addresses``: other addresses are no longer on this
        host.
        """
        for (name, on, _), left in self._left.items():
            if (name, on) == (space, interface):
                for gone in left.keys() - set(addresses):
                    del left[gone]

    def keep_only_spaces(self, spaces: Collection[str]) -> None:
        """Discard announcements of other namespaces, which no longer exist."""
        self._left = {key: left for key, left in self._left.items() if key[0] in spaces}

    def again(self, inside: Inside) -> None:
        """Repeat announcements that were not sent ``TIMES`` times."""
        for key, left in list(self._left.items()):
            space, name, mac = key
            addresses = frozenset(left)
            self._left[key] = {address: times - 1 for address, times in left.items() if times > 1}
            if not self._left[key]:
                del self._left[key]
            if not addresses:
                continue
            try:
                inside(space, lambda name=name, mac=mac, addresses=addresses: announce(name, mac, addresses))  # type: ignore[misc]
            except RetryableHostError:  # deleted
                self._left.pop(key, None)
