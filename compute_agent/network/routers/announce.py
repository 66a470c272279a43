"""Says on a network where addresses are from now on: gratuitous ARP (RFC 5227) and its like in IPv6."""

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
"""How often a new address is announced."""
ALL_NODES = ipaddress.IPv6Address("ff02::1")


def announce(interface: str, mac: str, addresses: Iterable[str]) -> None:
    """Send for each address that it is at this interface, from the calling thread's namespace."""
    own = bytes.fromhex(mac.replace(":", ""))
    try:
        with socket.socket(socket.AF_PACKET, socket.SOCK_RAW) as sender:
            sender.bind((interface, 0))
            for text in addresses:
                address = ipaddress.ip_address(text)
                if isinstance(address, ipaddress.IPv4Address):
                    for operation in (1, 2):  # some systems heed questions only, others answers only
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
"""Does work in a namespace of this name."""


class Announcements:
    """Announces new addresses at once, and again with the next checks for those who missed it.

    An address that has moved to another host meanwhile is announced there, and here no more.
    """

    def __init__(self) -> None:
        self._left: dict[tuple[str, str, str], dict[str, int]] = {}
        """By namespace, interface and hardware address: how often each address is still to be announced."""

    def add(self, inside: Inside, space: str, leg: Leg, addresses: frozenset[str]) -> None:
        """Announce these addresses on a leg of the namespace ``space``."""
        if addresses:
            inside(space, lambda: announce(leg.name, leg.mac, addresses))
            self._left.setdefault((space, leg.name, leg.mac), {}).update(dict.fromkeys(addresses, TIMES - 1))

    def keep_only(self, space: str, interface: str, addresses: Collection[str]) -> None:
        """Announce others on this interface no more: they are not here."""
        for (name, on, _), left in self._left.items():
            if (name, on) == (space, interface):
                for gone in left.keys() - set(addresses):
                    del left[gone]

    def keep_only_spaces(self, spaces: Collection[str]) -> None:
        """Forget what was announced in namespaces that are gone."""
        self._left = {key: left for key, left in self._left.items() if key[0] in spaces}

    def again(self, inside: Inside) -> None:
        """Repeat what was not announced often enough."""
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
            except RetryableHostError:  # it is gone
                self._left.pop(key, None)
