"""A message that is dropped as one packet is dropped in fragments too, wherever it is split."""

from __future__ import annotations

import functools
import ipaddress
import itertools
import struct
from collections.abc import Iterator

import pytest

from compute_agent.network.kernel.names import link_local
from tests.host.cast import EGRESS, network
from tests.host.guards.conftest import SERVICE_MAC, Guard
from tests.host.guards.test_identity import ANY4, ANY6, OUT6
from tests.host.lab import (
    ALL_NODES,
    PATIENCE,
    Interface,
    arp_frame,
    checksum,
    icmp6,
    mac,
    neighbour,
    six_frame,
    udp_frame,
)

FRAGMENT, OPTIONS, HOPS, ROUTING = 44, 60, 0, 43
GATEWAY = "fe80::1"
METADATA = "fe80::a9fe:a9fe"
END = b"novella-end"
NUMBERS = itertools.count(1)
"""Identifications of fragments: each packet has another one."""


def fragments(payload: bytes, cut: int) -> list[tuple[int, bool, bytes]]:
    """Split a payload in two; return offset, whether more follow, and the piece."""
    return [(0, True, payload[:cut]), (cut, False, payload[cut:])]


def split_six(frame: bytes, cut: int) -> list[bytes]:
    """Split the payload of an IPv6 frame."""
    number = next(NUMBERS)
    return [fragment(frame, number, offset | more, piece) for offset, more, piece in fragments(frame[54:], cut)]


def fragment(frame: bytes, number: int, place: int, piece: bytes) -> bytes:
    """A fragment of an IPv6 frame; ``place`` is its offset, and 1 is added when more follow (RFC 8200)."""
    part = struct.pack("!BBHI", frame[20], 0, place, number) + piece
    return frame[:18] + struct.pack("!HB", len(part), FRAGMENT) + frame[21:54] + part


def split_four(frame: bytes, cut: int) -> list[bytes]:
    """Split the payload of an IPv4 frame."""
    number, result = next(NUMBERS), []
    for offset, more, piece in fragments(frame[34:], cut):
        head = frame[14:16] + struct.pack("!HHH", 20 + len(piece), number, offset // 8 | more << 13) + frame[22:24]
        head += b"\0\0" + frame[26:34]
        result.append(frame[:14] + head[:10] + struct.pack("!H", checksum(head)) + head[12:] + piece)
    return result


def behind(frame: bytes, kind: int, header: bytes) -> bytes:
    """Put an extension header before the payload of an IPv6 frame."""
    payload = bytes([frame[20]]) + header[1:] + frame[54:]
    return frame[:18] + struct.pack("!HB", len(payload), kind) + frame[21:54] + payload


PADDING = bytes([0, 0, 1, 4, 0, 0, 0, 0])
"""Eight bytes of options that say nothing (RFC 8200); the first is the next header."""
ATOMIC = bytes([0, 0, 0, 0, 0, 0, 0, 7])
"""A fragment header of the only fragment (RFC 6946)."""
NO_ROUTE = bytes([0, 0, 4, 0, 0, 0, 0, 0])
"""A routing header that is done (RFC 8754)."""
BEFORE = {
    "nothing": [],
    "hop-by-hop": [(HOPS, PADDING)],
    "destination": [(OPTIONS, PADDING)],
    "routing": [(ROUTING, NO_ROUTE)],
    "several": [(OPTIONS, PADDING), (ROUTING, NO_ROUTE), (OPTIONS, PADDING)],
    "fragment": [(FRAGMENT, ATOMIC)],
}


def advert(own: str, source: str, about: str, flags: int) -> bytes:
    return icmp6(own, source, 136, struct.pack("!I", flags << 24) + neighbour(136, about, own)[4:])


def udp6(own: str, source: str, ports: tuple[int, int], payload: bytes) -> bytes:
    plain = struct.pack("!HHHH", *ports, 8 + len(payload), 0) + payload
    pseudo = ipaddress.IPv6Address(source).packed + ipaddress.IPv6Address(ALL_NODES[1]).packed
    pseudo += struct.pack("!II", len(plain), 17) + plain
    return six_frame(own, source, ALL_NODES, 17, plain[:6] + struct.pack("!H", checksum(pseudo)) + plain[8:])


SIX = {
    "router advertisement": lambda own, local: icmp6(
        own, local, 134, struct.pack("!BBHII", 64, 0, 1800, 0, 0) + bytes([1, 1]) + mac(own)
    ),
    "redirect": lambda own, local: icmp6(own, local, 137, b"\0" * 36),
    "the gateway's address": lambda own, local: advert(own, local, GATEWAY, 0x20),
    "the gateway's address, not overriding": lambda own, local: advert(own, local, GATEWAY, 0x00),
    "the gateway's address, as an answer of a router": lambda own, local: advert(own, local, GATEWAY, 0xE0),
    "the metadata service's address": lambda own, local: advert(own, local, METADATA, 0x20),
    "from the gateway's address": lambda own, _: advert(own, GATEWAY, GATEWAY, 0x20),
    "a search for the gateway's address": lambda own, _: icmp6(own, "::", 135, neighbour(135, GATEWAY, own)[:20]),
    "a search from the gateway's address": lambda own, local: icmp6(own, GATEWAY, 135, neighbour(135, local, own)),
    "DHCPv6": lambda own, local: udp6(own, local, (547, 546), b"\7" * 40),
    "another's packet": lambda own, _: udp6(own, "2001:db8::77", (4000, 4001), b"x" * 40),
}
FOUR = {
    "DHCP": lambda own, one: udp_frame(
        (own, one.address, 67), ("ff:ff:ff:ff:ff:ff", "255.255.255.255", 68), b"\2" * 40
    ),
    "another's packet": lambda own, _: udp_frame((own, "10.20.0.77", 4000), ("ff" + ":ff" * 5, "10.20.0.6", 1), END),
    "for the metadata service": lambda own, _: udp_frame(
        (own, "10.20.0.77", 4000), (SERVICE_MAC, "169.254.169.254", 80), b"GET" * 16
    ),
}


def variants_six(frame: bytes) -> Iterator[list[bytes]]:
    """The message behind each kind of headers, as one packet and split at every 8 bytes; and split within fragments."""
    for headers in BEFORE.values():
        whole = functools.reduce(lambda got, each: behind(got, *each), reversed(headers), frame)
        yield [whole]
        for cut in range(8, len(whole) - 54, 8):
            yield split_six(whole, cut)
            yield list(reversed(split_six(whole, cut)))
    for kind, header in ((HOPS, PADDING), (OPTIONS, PADDING), (ROUTING, NO_ROUTE), (FRAGMENT, ATOMIC)):
        for cut in range(8, len(frame) - 54, 8):
            yield [behind(each, kind, header) for each in split_six(frame, cut)]


@pytest.fixture
def pair(guard: Guard) -> tuple[Interface, Interface]:
    one, two = guard.plug(1), guard.plug(2)
    guard.allow(EGRESS, OUT6, ANY4, ANY6)
    for interface in (one, two):  # what the kernel sends by itself would be in the way
        interface.space.run("ip", "link", "set", "eth0", "arp", "off")
        interface.space.run("sysctl", "-qw", "net.ipv6.conf.eth0.disable_ipv6=1")
    return one, two


def arrivals(one: Interface, two: Interface, packets: list[list[bytes]]) -> list[bytes]:
    """Send packets, each as frames, and then one that passes; return what arrives before it."""
    values: list[bytes] = []
    end = udp_frame((one.port.mac_address, one.address, 9), (two.port.mac_address, two.address, 9), END)

    def note(frame: bytes) -> bool:
        if frame[6:12] == mac(one.port.mac_address):
            values.append(frame)
        return frame == end

    two.drain()
    for start in range(0, len(packets), 16):  # fewer than a socket keeps
        for packet in packets[start : start + 16]:
            for frame in packet:
                one.send(frame)
        one.send(end)
        assert two.hears(note, PATIENCE)
        values.remove(end)
    return values


@pytest.mark.parametrize("what", SIX)
def test_no_split_brings_a_message_of_ipv6_past_the_guards(pair: tuple[Interface, Interface], what: str) -> None:
    one, two = pair
    own = one.port.mac_address
    assert arrivals(one, two, [*variants_six(SIX[what](own, link_local(own)))]) == []


@pytest.mark.parametrize("what", FOUR)
def test_no_split_brings_a_message_of_ipv4_past_the_guards(pair: tuple[Interface, Interface], what: str) -> None:
    one, two = pair
    frame = FOUR[what](one.port.mac_address, one)
    splits = [split_four(frame, cut) for cut in range(8, len(frame) - 34, 8)]
    assert arrivals(one, two, [[frame], *splits, *(each[::-1] for each in splits)]) == []


def test_an_overlapping_fragment_changes_no_message(pair: tuple[Interface, Interface]) -> None:
    """An echo request is begun, and its first bytes are sent again as an advertisement of the gateway's address."""
    one, two = pair
    own, local = one.port.mac_address, link_local(one.port.mac_address)
    harmless = icmp6(own, local, 128, b"\0" * 28)
    values = []
    for cut, other in itertools.product((8, 16, 24), (8, 16, 24)):
        first, last = split_six(harmless, cut)
        evil = split_six(SIX["the gateway's address"](own, local), other)
        evil = [each[:58] + first[58:62] + each[62:] for each in evil]
        values += [[first, *evil, last], [last, *evil, first], [evil[0], first, last], [first, evil[0], evil[1]]]
    arrived = arrivals(one, two, values)
    assert all(each[20] == FRAGMENT or each[54] == 128 for each in arrived)
    assert not any(each[54:55] == b"\x88" or each[62:63] == b"\x88" for each in arrived)


@pytest.mark.parametrize("size", [1, 8, 1200, 20000])
def test_large_packets_pass(pair: tuple[Interface, Interface], size: int) -> None:
    """UDP and echo messages in fragments, in either IP version, behind options too."""
    one, two = pair
    own, local = one.port.mac_address, link_local(one.port.mac_address)
    two.space.run("ip", "link", "set", "eth0", "arp", "on")
    payload = bytes(size)
    wholes = [udp6(own, local, (4000, 4001), payload + END), icmp6(own, local, 128, b"\0\1\0\1" + payload + END)]
    for frame in [*wholes, behind(wholes[0], OPTIONS, PADDING)]:
        step = max(16, min(1200, (len(frame) - 54) // 2) // 8 * 8)
        two.drain()
        for piece in pieces_six(frame, step):
            one.send(piece)
        assert two.hears(is_last, PATIENCE), frame[20]
    four = udp_frame((own, one.address, 4000), (two.port.mac_address, two.address, 4001), payload[:1200] + END)
    for piece in split_four(four, 8):
        one.send(piece)
    assert two.hears(lambda got: END in got, PATIENCE)


def pieces_six(frame: bytes, step: int) -> list[bytes]:
    """Split the payload of an IPv6 frame into pieces of ``step`` bytes."""
    payload, number = frame[54:], next(NUMBERS)
    return [
        fragment(frame, number, at | (at + step < len(payload)), payload[at : at + step])
        for at in range(0, len(payload), step)
    ]


def is_last(frame: bytes) -> bool:
    """Return whether a frame has the end of an IPv6 packet: it is the last fragment, or all of it."""
    six, fragmented = frame[12:14] == b"\x86\xdd", frame[20] == FRAGMENT
    return six and (not frame[57] & 1 if fragmented else END in frame)


@pytest.mark.parametrize("stateful", [True, False])
def test_fragments_of_two_networks_are_not_one_packet(guard: Guard, stateful: bool) -> None:
    """Ranges of networks overlap, so a neighbour elsewhere could complete a packet with bytes of its choice."""
    other = network(21)
    one, two = guard.plug(1), guard.plug(2)
    evil = guard.plug(3, net=other, fixed_ips=one.port.fixed_ips)
    guard.allow(EGRESS, ANY4, stateful=stateful)
    frame = udp_frame((one.port.mac_address, one.address, 4000), (two.port.mac_address, two.address, 4001), b"x" * 40)
    first, last = split_four(frame, 16)
    theirs = mac(two.port.mac_address) + mac(evil.port.mac_address) + last[12:].replace(b"x", b"y")
    two.drain()
    one.send(first)
    evil.send(theirs)
    one.send(last)
    got = two.hears(lambda got: got[26:34] == frame[26:34] and got[20:22] == last[20:22], PATIENCE)
    assert got is not None, "the second half"
    assert b"y" not in got


def test_nobody_contests_an_address_that_is_anothers(pair: tuple[Interface, Interface]) -> None:
    """A guest that hears a probe for the address it is probing itself gives it up (RFC 5227)."""
    one, two = pair
    own = one.port.mac_address
    probe = arp_frame(own, (own, "0.0.0.0"), two.address)  # noqa: S104
    assert arrivals(one, two, [[probe]]) == []
    mine = arp_frame(own, (own, "0.0.0.0"), one.address)  # noqa: S104
    assert arrivals(one, two, [[mine]]) == [mine]
