"""Packets between networks of one router: on one host, across hosts, by further routes."""

from __future__ import annotations

import socket

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import Segment
from compute_agent.contract.network import Route
from compute_agent.virt.errors import RetryableHostError
from tests.host.lab import PATIENCE, Space
from tests.host.layer3.town import RouterWish, Town, inner


def pings(space: Space, address: str, *, patience: int = int(PATIENCE)) -> bool:
    """Say whether an address answers; the first answers may take their time."""
    return "1 packets received" in space.run("busybox", "ping", "-c", "1", "-W", str(patience), address, check=False)


def test_between_networks_of_one_host_and_across_hosts(town: Town) -> None:
    one, two = inner(1), inner(2)
    town.router(1, one, two, gateway=False)
    first, near, far = town.guest(0, one, 1), town.guest(0, two, 2), town.guest(1, two, 3)
    assert pings(first.space, near.address)
    assert pings(first.space, far.address)
    assert talk(first.space, far.space, far.address)


@pytest.mark.deep
def test_guests_across_hosts_know_the_gateway_by_one_address(town: Town) -> None:
    one, two = inner(1), inner(2)
    router = town.router(1, one, two, gateway=False)
    guests = [town.guest(0, one, 1), town.guest(1, one, 2), town.guest(1, two, 3)]
    assert pings(guests[0].space, guests[2].address)
    assert pings(guests[0].space, guests[1].address)
    for guest in guests[:2]:
        assert pings(guest.space, "10.1.0.1")
        assert router.mac(one) in guest.space.run("ip", "neigh", "show", "10.1.0.1")


def test_an_extra_route_leads_through_a_guest(town: Town) -> None:
    """On the guest's host and on the other one."""
    one, two = inner(1), inner(2)
    router = town.router(1, one, two, gateway=False)
    first, second, gate = town.guest(0, one, 1), town.guest(1, one, 2), town.guest(0, two, 3)
    gate.space.run("ip", "addr", "add", "10.77.0.1/32", "dev", "lo")
    assert not pings(first.space, "10.77.0.1", patience=1)
    router.routes = [Route(destination="10.77.0.0/16", next_hop=gate.address)]
    town.sync()
    assert pings(first.space, "10.77.0.1")
    assert pings(second.space, "10.77.0.1")
    router.routes = []
    town.sync()
    assert not pings(first.space, "10.77.0.1", patience=1)


@pytest.mark.deep
def test_an_address_that_nobody_knows_is_found_on_the_other_host(town: Town) -> None:
    """A router asks for it without being taken for one that has moved."""
    one, two = inner(1), inner(2)
    router = town.router(1, one, two, gateway=False)
    first, second = town.guest(0, one, 1), town.guest(1, two, 2)
    second.space.run("ip", "addr", "add", "10.2.0.200/24", "dev", "eth0")
    assert pings(second.space, "10.2.0.1")
    assert pings(first.space, "10.2.0.200")
    assert router.mac(two) in second.space.run("ip", "neigh", "show", "10.2.0.1")


@pytest.mark.deep
def test_six_is_routed_across_hosts(town: Town) -> None:
    one, two = inner(1, six=True), inner(2, six=True)
    town.router(1, one, two, gateway=False)
    first, second = town.guest(0, one, 1), town.guest(1, two, 2)
    assert talk(first.space, second.space, second.port.fixed_ips[1].address)


@pytest.mark.deep
def test_a_router_forgets_a_network(town: Town) -> None:
    one, two = inner(1), inner(2)
    router = town.router(1, one, two, gateway=False)
    first, second = town.guest(0, one, 1), town.guest(0, two, 2)
    assert pings(first.space, second.address)
    router.networks.remove(two)
    town.sync()
    assert not pings(first.space, second.address, patience=1)
    assert pings(first.space, "10.1.0.1")


@pytest.mark.deep
def test_a_router_whose_way_out_cannot_be_made_routes_inside(town: Town) -> None:
    one, two = inner(1), inner(2)
    nowhere = replace(town.external, segment=Segment(type="flat", physical_network="nowhere"))
    town.router(1, one, two, gateway=False)
    first, second = town.guest(0, one, 1), town.guest(0, two, 2)
    network = town.hosts[0].process.network
    with pytest.raises(RetryableHostError, match="not connected to the physical network nowhere"):
        network.apply(nowhere, 1)
    network.apply(RouterWish(1, [one, two], home=0).document(0, nowhere), 1)
    assert pings(first.space, second.address)
    network.forget("router", town.routers[0].id)
    network.forget("network", nowhere.id)
    town.notified[0].pop(("router", town.routers[0].id))


@pytest.mark.deep
def test_routers_lead_to_an_external_network_between_hosts(town: Town) -> None:
    """One that no physical network carries."""
    town.external = replace(town.external, segment=Segment(type="vxlan", id=99), subnets=town.external.subnets[:1])
    one, two = inner(1), inner(2)
    routers = town.router(1, one, home=1), town.router(2, two, home=1)
    first, second = town.guest(0, one, 1), town.guest(1, two, 2)
    floating = town.float(1, routers[0], first), town.float(2, routers[1], second)
    for client, its in ((first, floating[1]), (second, floating[0])):
        assert pings(client.space, its.address)
    town.floating.remove(floating[0])
    town.sync()
    assert pings(first.space, floating[1].address)


def talk(client: Space, server: Space, address: str) -> bool:
    """Say whether a question and its answer pass over a connection."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    with server.do(lambda: socket.create_server((address, 90), family=family)) as listener:
        asker = client.do(lambda: socket.create_connection((address, 90), timeout=PATIENCE))
        answerer, _ = listener.accept()
        with asker, answerer:
            answerer.settimeout(PATIENCE)
            asker.sendall(b"?" * 4000)
            left = 4000
            while left:
                left -= len(answerer.recv(left))
            answerer.sendall(b"!")
            return asker.recv(1) == b"!"
