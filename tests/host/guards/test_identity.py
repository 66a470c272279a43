"""Nobody sends as somebody else: spoofed frames of every kind stay where they began."""

from __future__ import annotations

import contextlib
import socket
import struct

import pytest

from compute_agent.contract.build import AddressPair, SecurityRule
from compute_agent.network.kernel.names import link_local
from tests.host.cast import EGRESS
from tests.host.guards.conftest import SERVICE_MAC, Guard
from tests.host.guards.test_groups import SHORT
from tests.host.lab import (
    ALL_NODES,
    Interface,
    arp_frame,
    dhcp_discover,
    icmp6,
    mac,
    neighbour,
    six_frame,
    udp_frame,
    until,
)

ANY4, ANY6 = SecurityRule(direction="ingress"), SecurityRule(direction="ingress", ethertype="IPv6")
OUT6 = SecurityRule(direction="egress", ethertype="IPv6")
STRANGER = "fa:16:3e:66:66:66"
MARK = b"novella-spoof"


@pytest.fixture
def pair(guard: Guard) -> tuple[Interface, Interface]:
    one, two = guard.plug(1), guard.plug(2)
    guard.allow(EGRESS, OUT6, ANY4, ANY6)
    for interface in (one, two):  # what the kernel sends by itself would be in the way
        interface.space.run("ip", "link", "set", "eth0", "arp", "off")
    return one, two


def arrives(one: Interface, two: Interface, frame: bytes, *, soon: bool = False) -> bool:
    head = frame[6:]

    def sent() -> bool:
        two.drain()
        one.send(frame)
        return two.hears(lambda got: got[6:60] == head[:54], SHORT) is not None

    return until(sent, "the frame arrives") if soon else sent()


def udp(one: Interface, two: Interface, source_mac: str, source: str, port: int = 4000) -> bytes:
    return udp_frame((source_mac, source, port), (two.port.mac_address, two.address, 4001), MARK)


def test_its_own_packets_arrive_and_no_others(pair: tuple[Interface, Interface]) -> None:
    one, two = pair
    own = one.port.mac_address
    assert arrives(one, two, udp(one, two, own, one.address), soon=True)
    assert not arrives(one, two, udp(one, two, STRANGER, one.address)), "another hardware address"
    assert not arrives(one, two, udp(one, two, own, "10.20.0.77")), "another address"
    assert not arrives(one, two, udp(one, two, SERVICE_MAC, one.address)), "that of the network's services"
    assert not arrives(one, two, udp(one, two, own, two.address)), "that of who gets it"


def test_arp_names_only_its_sender(pair: tuple[Interface, Interface]) -> None:
    one, two = pair
    own = one.port.mac_address
    assert arrives(one, two, arp_frame(own, (own, one.address), two.address), soon=True)
    for sender in ((own, "10.20.0.1"), (STRANGER, one.address), (own, two.address)):
        assert not arrives(one, two, arp_frame(own, sender, two.address)), sender
    assert not arrives(one, two, arp_frame(own, (own, "10.20.0.1"), "10.20.0.1")), "an announcement of the gateway's"


def test_neighbours_speak_of_themselves(pair: tuple[Interface, Interface]) -> None:
    one, two = pair
    own, local = one.port.mac_address, link_local(one.port.mac_address)
    theirs = link_local(two.port.mac_address)
    advert = neighbour(136, local, own)
    assert arrives(one, two, icmp6(own, local, 136, advert), soon=True)
    assert not arrives(one, two, icmp6(own, local, 136, neighbour(136, theirs, own))), "another's address"
    assert not arrives(one, two, icmp6(own, theirs, 136, neighbour(136, theirs, own))), "from another's address"
    assert not arrives(one, two, icmp6(STRANGER, local, 136, advert)), "another hardware address"
    assert not arrives(one, two, icmp6(own, "fe80::1", 135, neighbour(135, theirs, own))), "asked by the gateway"


def test_no_guest_is_a_router_or_a_dhcp_server(pair: tuple[Interface, Interface]) -> None:
    one, two = pair
    own, local = one.port.mac_address, link_local(one.port.mac_address)
    advert = struct.pack("!BBHII", 64, 0, 1800, 0, 0)
    assert not arrives(one, two, icmp6(own, local, 134, advert)), "a router's advertisement"
    assert not arrives(one, two, icmp6(own, local, 137, b"\0" * 36)), "a redirect"
    offer = udp_frame((own, one.address, 67), ("ff:ff:ff:ff:ff:ff", "255.255.255.255", 68), MARK)
    assert not arrives(one, two, offer), "DHCP"
    six = struct.pack("!HHHH", 547, 546, 8 + len(MARK), 1) + MARK
    assert not arrives(one, two, six_frame(own, local, ALL_NODES, 17, six)), "DHCPv6"


def test_asking_for_an_address_is_asked_with_ones_own_hardware_address(pair: tuple[Interface, Interface]) -> None:
    one, two = pair
    assert arrives(one, two, dhcp_discover(one.port.mac_address), soon=True)
    frame = dhcp_discover(STRANGER)
    assert not arrives(one, two, frame)
    aside = udp_frame((one.port.mac_address, "0.0.0.0", 68), (two.port.mac_address, two.address, 67), MARK)  # noqa: S104
    assert not arrives(one, two, aside), "it is asked of everybody"


def test_what_is_no_ip_stays(pair: tuple[Interface, Interface]) -> None:
    one, two = pair
    for kind in (b"\x88\xcc", b"\x81\x00", b"\x00\x27"):
        frame = mac(two.port.mac_address) + mac(one.port.mac_address) + kind + MARK * 5
        assert not arrives(one, two, frame), kind


@pytest.mark.parametrize("secured", [True, False])
@pytest.mark.parametrize("tag", ["81000000", "81000007", "88a80000", "8100000081000000"])
def test_frames_with_a_vlan_tag_go_past_no_filter(guard: Guard, secured: bool, tag: str) -> None:
    one, two = guard.plug(1, port_security=secured), guard.plug(2)
    guard.allow(EGRESS)
    frame = udp(one, two, one.port.mac_address, one.address, 67)
    two.drain()
    one.send(frame[:12] + bytes.fromhex(tag) + frame[12:])
    assert two.hears(lambda got: MARK in got, SHORT) is None


def test_a_pair_makes_no_guest_a_service(guard: Guard) -> None:
    pair = AddressPair(address="10.20.0.0/24", mac_address=SERVICE_MAC)
    one, two = guard.plug(1, allowed_address_pairs=[pair]), guard.plug(2)
    guard.allow(EGRESS)
    assert not arrives(one, two, udp(one, two, SERVICE_MAC, "10.20.0.2"))


def test_without_port_security_it_still_is_not_the_service(guard: Guard) -> None:
    one = guard.plug(1, port_security=False)
    two = guard.plug(2, port_security=False)
    for interface in (one, two):
        interface.space.run("ip", "link", "set", "eth0", "arp", "off")
    assert arrives(one, two, udp(one, two, STRANGER, "198.51.100.7"), soon=True)
    assert not arrives(one, two, udp(one, two, SERVICE_MAC, "10.20.0.2"))


def metadata(source_mac: str, source: str) -> bytes:
    return udp_frame((source_mac, source, 4000), ("fa:16:3e:00:00:fe", "169.254.169.254", 80), MARK)


@pytest.mark.parametrize("secured", [True, False])
def test_who_asks_for_metadata_is_proven_and_asks_the_service(guard: Guard, secured: bool) -> None:
    pairs = [AddressPair(address="10.20.0.100")] if secured else []
    one = guard.plug(1, port_security=secured, allowed_address_pairs=pairs)
    guard.allow(EGRESS)
    one.space.run("ip", "link", "set", "eth0", "arp", "off")
    bridge = one.port.network.bridge
    guard.space.run("ip", "link", "add", "service", "type", "veth", "peer", "name", "inner")
    try:
        guard.space.run("ip", "link", "set", "service", "master", bridge, "up")
        guard.space.run("ip", "link", "set", "inner", "address", SERVICE_MAC, "up")
        raw = guard.space.do(lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW, socket.htons(3)))
        with raw:
            raw.bind(("inner", 0))
            own = one.port.mac_address
            until(
                lambda: reaches_service(one, metadata(own, one.address), raw), "the service is asked"
            )  # the port may be down
            for source_mac, source in ((own, "10.20.0.100"), (own, "10.20.0.77"), (STRANGER, one.address)):
                assert not reaches_service(one, metadata(source_mac, source), raw), source
    finally:
        guard.space.run("ip", "link", "delete", "service")


def reaches_service(one: Interface, frame: bytes, raw: socket.socket) -> bool:
    """Send a frame and return whether it arrives at the service."""
    one.send(frame)
    raw.settimeout(SHORT)
    with contextlib.suppress(TimeoutError):
        while True:
            got = raw.recv(2048)
            if got[:6] == mac(SERVICE_MAC) and got[6:60] == frame[6:60]:
                return True
    return False
