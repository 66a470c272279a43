"""Port forwardings: one floating IP for ports of several guests on several hosts."""

from __future__ import annotations

import socket

import pytest
from msgspec.structs import replace

from compute_agent.contract.network import FloatingIpDocument, PortForward
from compute_agent.network.kernel import nft
from compute_agent.network.kernel.reach import Reach
from compute_agent.network.routers.forwards import RefusedForwardError
from compute_agent.network.routers.records import RouterPlan
from compute_agent.network.routers.ruleset import router_ruleset
from tests.host.lab import NOBODY, PATIENCE, Interface, Space, arp_frame
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


def reached(
    client: Space, address: str, port: int, guest: Interface, inner_port: int, patience: float = PATIENCE
) -> str | None:
    """Return who the guest sees at its port when the client connects to an address and port."""
    with guest.space.listens(NOBODY, inner_port) as listener:
        return caller(listener) if client.connects(address, port, patience) else None


@pytest.mark.parametrize(
    "where", [pytest.param(0, marks=pytest.mark.deep), 1], ids=["on the bearer", "on another host"]
)
def test_ports_of_one_address_lead_to_guests_of_all_hosts(town: Town, where: int) -> None:
    """Every guest sees its client's own address; guests reach the ports too."""
    one = inner(1)
    router = town.router(1, one, home=0)
    first, second = town.guest(0, one, 1), town.guest(where, one, 2)
    forwards = [forward(first, 8001, 80), forward(second, 8002, 80), forward(second, 5300, 53, protocol="udp")]
    floating = town.float(1, router, forwards=forwards)
    assert reached(town.outside, floating.address, 8001, first, 80) == "172.24.4.1"
    assert reached(town.outside, floating.address, 8002, second, 80) == "172.24.4.1"
    assert answering(town.outside, floating.address, 5300, second, 53) == "172.24.4.1"
    for client in (first, second):
        for port, guest in ((8001, first), (8002, second)):
            assert reached(client.space, floating.address, port, guest, 80) is not None
    assert not town.outside.connects(floating.address, 8003, patience=0.5)


@pytest.mark.deep
def test_ranges_lead_to_the_port_at_the_same_place(town: Town) -> None:
    one = inner(1)
    router = town.router(1, one, home=0)
    first, second = town.guest(0, one, 1), town.guest(1, one, 2)
    floating = town.float(
        1, router, forwards=[forward(first, 9000, 9000, count=5), forward(second, 9100, 100, count=20)]
    )
    assert reached(town.outside, floating.address, 9004, first, 9004)
    assert reached(town.outside, floating.address, 9119, second, 119)


def range_of(guest: Interface, outer: tuple[int, int], inner_ports: tuple[int, int], protocol: str) -> PortForward:
    return PortForward(
        protocol=protocol,
        external_first=outer[0],
        external_last=outer[1],
        internal_address=guest.address,
        internal_first=inner_ports[0],
        internal_last=inner_ports[1],
    )


@pytest.mark.parametrize("where", [0, 1], ids=["on the bearer", "on another host"])
@pytest.mark.deep
def test_each_end_of_a_range_leads_to_its_port(town: Town, where: int) -> None:
    """Many ports to one, to as many, and to as many others; up to the last port there is."""
    one = inner(1)
    router = town.router(1, one, home=0)
    guest = town.guest(where, one, 1)
    ranges = [
        ((100, 105), (80, 80), {100: 80, 105: 80}),
        ((65000, 65010), (65530, 65530), {65000: 65530, 65010: 65530}),
        ((2000, 2005), (3000, 3005), {2000: 3000, 2005: 3005}),
        ((9000, 9005), (65530, 65535), {9000: 65530, 9005: 65535}),
        ((4000, 4005), (4, 9), {4000: 4, 4005: 9}),
        ((65100, 65535), (65100, 65535), {65100: 65100, 65535: 65535}),
        ((1, 1), (7, 7), {1: 7}),
    ]
    forwards = [range_of(guest, outer, inside, each) for outer, inside, _ in ranges for each in ("tcp", "udp")]
    floating = town.float(1, router, forwards=forwards)
    for _, _, ends in ranges:
        for outer, inside in ends.items():
            assert reached(town.outside, floating.address, outer, guest, inside) == "172.24.4.1"
            assert answering(town.outside, floating.address, outer, guest, inside) == "172.24.4.1"
    for port in (99, 106, 1999, 2006, 65099):
        assert not town.outside.connects(floating.address, port, patience=0.2)


def answering(client: Space, address: str, port: int, guest: Interface, inner_port: int, at: str = NOBODY) -> str:
    """Return who the guest sees at its UDP port when the client asks an address and port; the answer comes from it."""
    kind = (socket.AF_INET, socket.SOCK_DGRAM)
    with guest.space.do(lambda: socket.socket(*kind)) as server, client.do(lambda: socket.socket(*kind)) as asking:
        server.bind((at, inner_port))
        for each in (server, asking):
            each.settimeout(PATIENCE)
        asking.connect((address, port))
        asking.send(b"question")
        _, seen = server.recvfrom(100)
        server.sendto(b"answer", seen)
        assert asking.recv(100) == b"answer"
        return str(seen[0])


@pytest.mark.deep
def test_what_cannot_be_forwarded_costs_the_router_nothing_else(town: Town) -> None:
    """An address that is none, a protocol without ports, ranges of other lengths or beyond the last port, overlaps."""
    one = inner(1)
    router = town.router(1, one, home=0)
    guest = town.guest(0, one, 1)
    good = town.float(1, router, forwards=[forward(guest, 8001, 80)])
    wrong = [
        range_of(guest, (100, 105), (65530, 65535), "tcp"),
        range_of(guest, (200, 210), (65530, 65540), "tcp"),
        range_of(guest, (300, 310), (300, 305), "tcp"),
        range_of(guest, (0, 10), (0, 10), "tcp"),
        range_of(guest, (104, 120), (1, 17), "tcp"),
        range_of(guest, (400, 400), (400, 400), "gre"),
        replace(range_of(guest, (500, 500), (500, 500), "udp"), internal_address="nonsense; accept"),
    ]
    with pytest.raises(RefusedForwardError):
        town.float(2, router, forwards=wrong)
    town.notified[0].clear()
    bad = town.floating.pop()
    assert reached(town.outside, bad.address, 105, guest, 65535)
    assert reached(town.outside, good.address, 8001, guest, 80)
    town.sync()


def test_full_ranges_of_all_addresses_of_a_project_are_small(town: Town) -> None:
    guest = town.guest(1, inner(1), 1)
    everything = [
        range_of(guest, (1, 65535), inside, protocol)
        for protocol, inside in (("tcp", (1, 65535)), ("udp", (80, 80)), ("sctp", (1, 65535)), ("dccp", (9, 9)))
    ]
    everything.append(range_of(guest, (1, 1), (1, 1), "icmp"))
    floating = tuple(
        FloatingIpDocument(id=str(at), address=f"172.24.4.{at}", network_id="n", router_id="r", forwards=everything)
        for at in range(50, 100)
    )
    text = router_ruleset(RouterPlan(id="r", enabled=True, floating=floating), Reach())
    assert len(text) < 50_000
    assert town.hosts[0].inside.do(lambda: nft.takes(text))


@pytest.mark.deep
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
    assert reached(town.outside, floating.address, 8001, guest, 80, patience=1) is None
    assert reached(town.outside, floating.address, 8002, guest, 81)


def take(guest: Interface, address: str) -> None:
    """Let a guest have a virtual address, and announce it as VRRP does."""
    guest.space.run("ip", "addr", "add", f"{address}/24", "dev", "eth0")
    own = guest.port.mac_address
    guest.send(arp_frame(own, (own, address), address))


@pytest.mark.deep
@pytest.mark.parametrize(
    "first", [0, pytest.param(1, marks=pytest.mark.deep)], ids=["on the bearer first", "on another host first"]
)
def test_a_floating_ip_follows_a_virtual_address(town: Town, first: int) -> None:
    """The present holder of the address is reached by the floating IP, answers by it, and goes out as it."""
    one, virtual = inner(1), "10.1.0.200"
    router = town.router(1, one, home=0)
    holders = [town.guest(where, one, where + 1) for where in (0, 1)]
    floating = town.float(1, router, virtual=virtual)
    for holder in (holders[first], holders[1 - first]):
        take(holder, virtual)
        assert reached(town.outside, floating.address, 80, holder, 80) == "172.24.4.1"
        assert answering(town.outside, floating.address, 53, holder, 53, virtual) == "172.24.4.1"
        assert pings(town.outside, floating.address)
        with town.outside.listens(WORLD, 8080) as listener:
            assert holder.space.connects(WORLD, 8080, source=virtual)
            assert caller(listener) == floating.address
        holder.space.run("ip", "addr", "del", f"{virtual}/24", "dev", "eth0")
