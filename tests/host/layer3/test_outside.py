"""Packets between guests and the world outside: shared addresses, floating IPs, and without address translation."""

from __future__ import annotations

import socket

import pytest

from compute_agent.contract.network import Route
from tests.host.lab import NOBODY, PATIENCE, Interface, Space, until
from tests.host.layer2.rack import MTU
from tests.host.layer3.test_routed import pings
from tests.host.layer3.town import WORLD, FloatingWish, Town, inner
from up.places import EXTERNAL

IP_MTU_DISCOVER, IP_PMTUDISC_DO, IP_MTU = 10, 2, 14
"""Of Linux: <linux/in.h>."""


def seen_as(space: Space, server: Space, address: str) -> str | None:
    """Return the address that a server at ``address`` sees when ``space`` connects to it, None when it cannot."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with server.do(lambda: socket.create_server((address, 7777), family=family)) as listener:
        return caller(listener) if space.connects(address, 7777, family=family) else None


def caller(listener: socket.socket) -> str:
    """Return the address of who has connected."""
    connection, peer = listener.accept()
    connection.close()
    return str(peer[0])


@pytest.mark.parametrize("home", [0, pytest.param(1, marks=pytest.mark.deep)])
def test_a_guest_without_floating_ip_shares_an_address(town: Town, home: int) -> None:
    one = inner(1)
    router = town.router(1, one, home=home)
    guest = town.guest(0, one, 1)
    assert seen_as(guest.space, town.outside, WORLD) == (router.address if home == 0 else "172.24.4.10")
    assert pings(guest.space, WORLD)


@pytest.mark.deep
@pytest.mark.parametrize("home", [0, pytest.param(1, marks=pytest.mark.deep)])
def test_a_floating_ip_is_its_guest_in_both_directions(town: Town, home: int) -> None:
    one = inner(1)
    router = town.router(1, one, home=home)
    guest = town.guest(0, one, 1)
    floating = town.float(1, router, guest)
    assert seen_as(guest.space, town.outside, WORLD) == floating.address
    assert pings(town.outside, floating.address)
    with guest.space.listens(NOBODY, 80) as listener:
        assert town.outside.connects(floating.address, 80, source=WORLD)
        assert caller(listener) == WORLD


@pytest.mark.parametrize(
    ("before", "after"),
    [(0, 1), pytest.param(1, 0, marks=pytest.mark.deep), pytest.param(0, 0, marks=pytest.mark.deep)],
)
def test_a_moved_floating_ip_follows_at_once(town: Town, before: int, after: int) -> None:
    one = inner(1)
    router = town.router(1, one, home=0)
    first, second = town.guest(before, one, 1), town.guest(after, one, 2)
    floating = town.float(1, router, first)
    assert answering(town.outside, floating, first, second) is first
    floating.guest = second
    town.sync()
    assert answering(town.outside, floating, first, second) is second
    assert seen_as(second.space, town.outside, WORLD) == floating.address
    assert seen_as(first.space, town.outside, WORLD) == (router.address if before == 0 else "172.24.4.11")


def test_a_frame_with_the_address_of_a_router_from_outside_changes_nothing(town: Town) -> None:
    """A host that was off may begin with routers that are on another host now."""
    one = inner(1)
    router = town.router(1, one, home=0)
    guest = town.guest(0, one, 1)
    assert seen_as(guest.space, town.outside, WORLD) == router.address
    gateway = router.document(0, town.external).external
    assert gateway is not None
    claim = bytes.fromhex("ffffffffffff" + gateway.mac_address.replace(":", "") + "0806") + bytes(46)
    town.outside.send("external0", claim)
    assert seen_as(guest.space, town.outside, WORLD) == router.address


def answering(client: Space, floating: FloatingWish, *guests: Interface) -> Interface | None:
    """Return the guest that a connection to the floating IP arrives at."""
    listeners = [guest.space.listens(NOBODY, 81) for guest in guests]
    try:
        assert client.connects(floating.address, 81)
        for listener, guest in zip(listeners, guests, strict=True):
            listener.settimeout(0)
            try:
                listener.accept()[0].close()
            except BlockingIOError:
                continue
            return guest
        return None
    finally:
        for listener in listeners:
            listener.close()


@pytest.mark.deep
@pytest.mark.parametrize("where", [0, pytest.param(1, marks=pytest.mark.deep)], ids=["same host", "other host"])
def test_without_translation_a_guest_is_seen_as_itself(town: Town, where: int) -> None:
    """Answers come back by the host that bears the router's own address."""
    one = inner(1)
    router = town.router(1, one, home=0, enable_snat=False)
    guest = town.guest(where, one, 1)
    town.outside.run("ip", "route", "replace", "10.1.0.0/24", "via", router.address)
    assert seen_as(guest.space, town.outside, WORLD) == guest.address
    assert pings(town.outside, guest.address)


def test_nobody_outside_reaches_a_fixed_address_that_is_translated(town: Town) -> None:
    one = inner(1)
    router = town.router(1, one, home=0)
    guest = town.guest(0, one, 1)
    town.outside.run("ip", "route", "replace", "10.1.0.0/24", "via", router.address)
    assert pings(guest.space, WORLD)
    assert not pings(town.outside, guest.address, patience=1)


@pytest.mark.deep
def test_two_routers_with_equal_ranges_on_one_host(town: Town) -> None:
    one, two = inner(1, octet=1), inner(2, octet=1)
    first, second = town.router(1, one, home=0), town.router(2, two)
    guests = town.guest(0, one, 1), town.guest(0, two, 1)
    assert guests[0].address == guests[1].address
    floating = town.float(1, first, guests[0]), town.float(2, second, guests[1])
    for guest, its in zip(guests, floating, strict=True):
        assert answering(town.outside, its, *guests) is guest
        assert seen_as(guest.space, town.outside, WORLD) == its.address
    town.floating.clear()
    town.sync()
    assert seen_as(guests[0].space, town.outside, WORLD) == first.address
    assert seen_as(guests[1].space, town.outside, WORLD) == "172.24.4.10"


@pytest.mark.deep
@pytest.mark.parametrize("where", [pytest.param(0, marks=pytest.mark.deep), 1], ids=["same host", "other host"])
@pytest.mark.parametrize("home", [0, pytest.param(None, marks=pytest.mark.deep)], ids=["home", "no home"])
def test_guests_reach_each_other_by_floating_ips(town: Town, where: int, home: int | None) -> None:
    one, two = inner(1), inner(2)
    router = town.router(1, one, two, home=home)
    first, second, third = town.guest(0, one, 1), town.guest(where, one, 2), town.guest(where, two, 3)
    floating = [town.float(number, router, guest) for number, guest in ((1, first), (2, second), (3, third))]
    for server, its in ((first, floating[0]), (second, floating[1]), (third, floating[2])):
        assert seen_through(first, server, its) == floating[0].address


@pytest.mark.deep
def test_a_guest_without_floating_ip_reaches_a_neighbours(town: Town) -> None:
    one = inner(1)
    router = town.router(1, one, home=0)
    first, second = town.guest(0, one, 1), town.guest(0, one, 2)
    floating = town.float(1, router, second)
    assert seen_through(first, second, floating) == router.address


@pytest.mark.deep
def test_guests_of_two_routers_reach_each_other_by_floating_ips(town: Town) -> None:
    one, two = inner(1), inner(2)
    routers = town.router(1, one, home=1), town.router(2, two, home=0)
    first, second = town.guest(0, one, 1), town.guest(0, two, 2)
    floating = town.float(1, routers[0], first), town.float(2, routers[1], second)
    assert seen_through(first, second, floating[1]) == floating[0].address
    town.floating.remove(floating[0])
    town.sync()
    assert seen_through(first, second, floating[1]) == "172.24.4.10"


@pytest.mark.deep
def test_an_established_connection_outlives_changes_of_others(town: Town) -> None:
    one, two = inner(1), inner(2)
    router = town.router(1, one, two, home=0)
    guests = town.guest(0, one, 1), town.guest(0, one, 2)
    floating = town.float(1, router, guests[0])
    other = town.float(2, router, guests[1])
    with guests[0].space.listens(NOBODY, 82) as listener:
        client = town.outside.do(lambda: socket.create_connection((floating.address, 82), timeout=PATIENCE))
        server, _ = listener.accept()
        with client, server:
            town.floating.remove(other)
            router.routes = [Route(destination="10.77.0.0/16", next_hop=guests[1].address)]
            town.sync()
            town.float(3, router, guests[1])
            client.sendall(b"still there?")
            server.settimeout(PATIENCE)
            assert server.recv(100) == b"still there?"


@pytest.mark.deep
def test_connections_of_a_lost_floating_ip_end(town: Town) -> None:
    one = inner(1)
    router = town.router(1, one, home=0)
    guest = town.guest(0, one, 1)
    floating = town.float(1, router, guest)
    with guest.space.listens(NOBODY, 83) as listener:
        client = town.outside.do(lambda: socket.create_connection((floating.address, 83), timeout=PATIENCE))
        server, _ = listener.accept()
        with client, server:
            town.floating.remove(floating)
            town.sync()
            client.settimeout(1)
            server.sendall(b"nobody hears this")
            with pytest.raises(TimeoutError):
                client.recv(100)


@pytest.mark.deep
def test_a_disabled_router_passes_nothing(town: Town) -> None:
    one, two = inner(1), inner(2)
    router = town.router(1, one, two, home=0)
    first, second = town.guest(0, one, 1), town.guest(0, two, 2)
    floating = town.float(1, router, first)
    assert pings(first.space, second.address)
    router.enabled = False
    town.sync()
    assert not pings(first.space, second.address, patience=1)
    assert not pings(first.space, WORLD, patience=1)
    assert not pings(first.space, "10.1.0.1", patience=1)
    assert not pings(town.outside, floating.address, patience=1)
    router.enabled = True
    town.sync()
    assert pings(town.outside, floating.address)


@pytest.mark.deep
def test_a_guest_hears_how_large_its_packets_may_be(town: Town) -> None:
    one = inner(1)
    router = town.router(1, one, home=0)
    first, second = town.guest(0, one, 1), town.guest(1, one, 2)
    town.float(1, router, second)
    town.outside.run("ip", "route", "replace", "203.0.113.0/24", "dev", EXTERNAL, "mtu", "1200")
    for guest in (first, second):
        assert path_mtu(guest.space, "203.0.113.1") == 1200


def path_mtu(space: Space, address: str) -> int:
    """Return the largest packet on the way to an address, once an error has said so."""

    def ask() -> int:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.setsockopt(socket.IPPROTO_IP, IP_MTU_DISCOVER, IP_PMTUDISC_DO)
            client.connect((address, 9))
            client.send(bytes(1300))
            until(lambda: client.getsockopt(socket.IPPROTO_IP, IP_MTU) < MTU, "an error")
            return client.getsockopt(socket.IPPROTO_IP, IP_MTU)

    return space.do(ask)


def seen_through(client: Interface, server: Interface, floating: FloatingWish) -> str | None:
    """Return the address that a guest sees another one connect from, by a floating IP; None when it cannot."""
    with server.space.listens(NOBODY, 84) as listener:
        return caller(listener) if client.space.connects(floating.address, 84) else None
