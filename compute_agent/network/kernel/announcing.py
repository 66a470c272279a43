"""Announces new locations of addresses: gratuitous ARP (RFC 5227) and unsolicited neighbour advertisements."""

import ipaddress
import socket
import struct
from collections.abc import Iterable

from compute_agent.virt.errors import RetryableHostError

BROADCAST = b"\xff" * 6
ARP, IPV6 = 0x0806, 0x86DD
OVERRIDE = 0x20000000
ALL_NODES = ipaddress.IPv6Address("ff02::1")


def announce(interface: str, mac: str, addresses: Iterable[str]) -> None:
    """Announce each address at this interface, from the calling thread's namespace. Raises RetryableHostError."""
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
