"""Port forwardings: one floating IP for ports of several guests on several hosts."""

from __future__ import annotations

import socket

import pytest

from compute_agent.contract.network import PortForward
from tests.host.lab import NOBODY, Interface, Space
from tests.host.layer3.test_outside import caller, seen_as
from tests.host.layer3.test_routed import pings
from tests.host.layer3.town import WORLD, Town, inner


def forward(guest: Interface, outer: int, inner_port: int, *, count: int = 1, protocol: str = "tcp") -> PortForward:
    return PortForward(
        protocol=protocol,
        external_first=outer,
        external_last=outer + count - 1,
        internal_address=guest.address,
        internal_first=inner_port,
        internal_last=inner_port + count - 1,
    )


def reached(client: Space, address: str, port: int, guest: Interface, inner_port: int) -> str | None:
    """Return who the guest sees at its port when the client connects to an address and port."""
    with guest.space.listens(NOBODY, inner_port) as listener:
        return caller(listener) if client.connects(address, port, patience=3) else None


@pytest.mark.parametrize("where", [0, 1], ids=["on the bearer", "on another host"])
def test_ports_of_one_address_lead_to_guests_of_all_hosts(town: Town, where: int) -> None:
    """Every guest sees its client's own address."""
    one = inner(1)
    router = town.router(1, one, home=0)
    first, second = town.guest(0, one, 1), town.guest(where, one, 2)
    floating = town.float(1, router, forwards=[forward(first, 8001, 80), forward(second, 8002, 80)])
    assert reached(town.outside, floating.address, 8001, first, 80) == "172.24.4.1"
    assert reached(town.outside, floating.address, 8002, second, 80) == "172.24.4.1"
    assert not town.outside.connects(floating.address, 8003, patience=0.5)


def test_ranges_lead_to_the_port_at_the_same_place(town: Town) -> None:
    one = inner(1)
    router = town.router(1, one, home=0)
    first, second = town.guest(0, one, 1), town.guest(1, one, 2)
    floating = town.float(
        1, router, forwards=[forward(first, 9000, 9000, count=5), forward(second, 9100, 100, count=20)]
    )
    assert reached(town.outside, floating.address, 9004, first, 9004)
    assert reached(town.outside, floating.address, 9119, second, 119)


def test_udp_is_forwarded_to_the_other_host(town: Town) -> None:
    one = inner(1)
    router = town.router(1, one, home=0)
    guest = town.guest(1, one, 1)
    floating = town.float(1, router, forwards=[forward(guest, 5300, 53, protocol="udp")])
    with guest.space.do(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as server:
        server.bind((NOBODY, 53))
        server.settimeout(3)
        with town.outside.do(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as client:
            client.settimeout(3)
            client.connect((floating.address, 5300))
            client.send(b"question")
            server.sendto(b"answer", server.recvfrom(100)[1])
            assert client.recv(100) == b"answer"


def test_guests_reach_forwarded_ports_too(town: Town) -> None:
    one = inner(1)
    router = town.router(1, one, home=0)
    first, second = town.guest(0, one, 1), town.guest(1, one, 2)
    floating = town.float(1, router, forwards=[forward(first, 8001, 80), forward(second, 8002, 80)])
    for client in (first, second):
        for port, guest in ((8001, first), (8002, second)):
            assert reached(client.space, floating.address, port, guest, 80) is not None


def test_the_router_answers_for_an_address_of_nobody(town: Town) -> None:
    """And a guest whose ports are forwarded goes out as if they were not."""
    one = inner(1)
    router = town.router(1, one, home=0)
    guest = town.guest(1, one, 1)
    floating = town.float(1, router, forwards=[forward(guest, 8001, 80)])
    assert pings(town.outside, floating.address)
    assert seen_as(guest.space, town.outside, WORLD) == "172.24.4.11"


def test_removed_forwardings_lead_nowhere(town: Town) -> None:
    one = inner(1)
    router = town.router(1, one, home=0)
    guest = town.guest(1, one, 1)
    floating = town.float(1, router, forwards=[forward(guest, 8001, 80), forward(guest, 8002, 81)])
    assert reached(town.outside, floating.address, 8001, guest, 80)
    floating.forwards = floating.forwards[1:]
    town.sync()
    assert reached(town.outside, floating.address, 8001, guest, 80) is None
    assert reached(town.outside, floating.address, 8002, guest, 81)
