"""IPv6: routed to the outside without translation, and learned by guests from the router's advertisements."""

from __future__ import annotations

import ipaddress
import struct

import pytest

from tests.host.lab import Interface, checksum, mac, until
from tests.host.layer3.test_outside import seen_as
from tests.host.layer3.test_routed import pings, talk
from tests.host.layer3.town import WORLD_SIX, Town, inner

ALL_ROUTERS = ipaddress.IPv6Address("ff02::2")


@pytest.mark.parametrize("where", [pytest.param(0, marks=pytest.mark.deep), 1], ids=["same host", "other host"])
def test_to_the_outside_a_guest_is_itself(town: Town, where: int) -> None:
    one = inner(1, six=True)
    town.router(1, one, home=0)
    guest = town.guest(where, one, 1)
    town.outside.run("ip", "route", "replace", "2001:db8:1::/64", "via", "2001:db8:4::101")
    address = guest.port.fixed_ips[1].address
    assert seen_as(guest.space, town.outside, WORLD_SIX) == address
    assert talk(town.outside, guest.space, address)


def test_guests_find_address_and_gateway_by_themselves(town: Town) -> None:
    """On every host each by its own router; what they take for the gateway is the same."""
    one, two = inner(1, six=True), inner(2, six=True)
    router = town.router(1, one, two, gateway=False)
    guests = [learning(town.plugged(0, one, 1)), learning(town.plugged(1, two, 2))]
    for guest in guests:
        until(lambda guest=guest: guest.port.fixed_ips[1].address in addresses(guest), "an address")  # type: ignore[misc]
    assert talk(guests[0].space, guests[1].space, guests[1].port.fixed_ips[1].address)
    assert "default via fe80::f816:3eff:fef0:101" in guests[0].space.run("ip", "-6", "route")
    assert router.mac(one).endswith("f0:01:01")


@pytest.mark.deep
def test_a_router_tells_guests_their_mtu_and_that_it_has_gone(town: Town) -> None:
    one = inner(1, six=True)
    router = town.router(1, one, gateway=False)
    guest = town.plugged(0, one, 1)
    guest.space.run("ip", "link", "set", "eth0", "mtu", "1500")
    learning(guest)
    until(lambda: "default" in guest.space.run("ip", "-6", "route"), "a gateway")
    assert guest.space.run("cat", "/proc/sys/net/ipv6/conf/eth0/mtu").strip() == "1450"
    town.routers.remove(router)
    town.sync()
    assert not pings(guest.space, "2001:db8:1::1", patience=1)


@pytest.mark.deep
def test_a_router_that_visits_a_network_is_nobody_s_gateway_there(town: Town) -> None:
    """One that has another address than the gateway's, while it is the gateway of its own network."""
    shared, own = inner(1, six=True), inner(2, six=True)
    visitor = town.router(2, own, shared, gateway=False, visits={shared.id: ["10.1.0.77/24", "2001:db8:1::77/64"]})
    settled, guest = learning(town.plugged(0, own, 1)), town.plugged(0, shared, 2)
    until(lambda: "default" in settled.space.run("ip", "-6", "route"), "a gateway")
    guest.drain()
    guest.send(solicitation(guest.port.mac_address))
    assert guest.hears(advertises, patience=1) is None
    town.router(1, shared, gateway=False)
    learning(guest)
    until(lambda: "default" in guest.space.run("ip", "-6", "route"), "a gateway")
    assert visitor.mac(shared).endswith("f0:02:01")
    assert "via fe80::f816:3eff:fef0:201" not in guest.space.run("ip", "-6", "route")


def solicitation(source: str) -> bytes:
    """A question for routers (RFC 4861) from nowhere: "::" may ask too."""
    pseudo = bytes(16) + ALL_ROUTERS.packed + struct.pack("!II", 8, 58)
    body = b"\x85\0" + struct.pack("!H", checksum(pseudo + b"\x85" + bytes(7))) + bytes(4)
    head = struct.pack("!IHBB", 6 << 28, len(body), 58, 255) + bytes(16) + ALL_ROUTERS.packed
    return mac("33:33:00:00:00:02") + mac(source) + b"\x86\xdd" + head + body


def advertises(frame: bytes) -> bool:
    """Say whether a frame is a router's advertisement."""
    return frame[12:14] == b"\x86\xdd" and frame[20] == 58 and frame[54] == 134


def learning(guest: Interface) -> Interface:
    """Let a guest take what routers advertise."""
    settings = ("disable_ipv6=0", "accept_ra=2", "accept_dad=0", "router_solicitation_delay=0")
    guest.space.run("ip", "link", "set", "eth0", "down")
    guest.space.run("sysctl", "-qw", *(f"net.ipv6.conf.eth0.{setting}" for setting in settings))
    guest.space.run("ip", "link", "set", "eth0", "up")
    return guest


def addresses(guest: Interface) -> str:
    return guest.space.run("ip", "-6", "addr", "show", "dev", "eth0")
