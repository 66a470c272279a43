"""Routers carry no source from where it cannot be: nobody is heard as a guest of another network of the router."""

from __future__ import annotations

import socket

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import SecurityRule, SubnetRef
from compute_agent.contract.network import NetworkDocument, Route
from tests.host.cast import EGRESS, OURS, THEIRS
from tests.host.lab import PATIENCE, Interface, Space
from tests.host.layer3.town import OUTSIDE_SIX, Town, inner, uuid_of

TRANSPARENT = {socket.AF_INET: (socket.IPPROTO_IP, 19), socket.AF_INET6: (socket.IPPROTO_IPV6, 75)}
"""IP_TRANSPARENT and IPV6_TRANSPARENT of Linux: a socket may send from any address."""
PORT = 5353
LIE, TRUTH = b"lie", b"truth"


def say(source: str, payload: bytes, target: str) -> None:
    family = socket.AF_INET6 if ":" in target else socket.AF_INET
    with socket.socket(family, socket.SOCK_DGRAM) as speaker:
        speaker.setsockopt(*TRANSPARENT[family], 1)
        speaker.bind((source, 0))
        speaker.sendto(payload, (target, PORT))


def heard(sender: Space, receiver: Interface, target: str, source: str, own: str) -> bool:
    """Say whether a packet from ``source`` arrives that ``sender`` sends before one from its ``own`` address."""
    family = socket.AF_INET6 if ":" in target else socket.AF_INET

    def send() -> None:
        for address, payload in ((source, LIE), (own, TRUTH)):
            say(address, payload, target)

    with receiver.space.do(lambda: socket.socket(family, socket.SOCK_DGRAM)) as listener:
        listener.bind((target, PORT))
        listener.settimeout(PATIENCE)
        sender.do(send)
        packets = [listener.recv(100)]
        if packets == [LIE]:
            packets.append(listener.recv(100))
    assert packets[-1] == TRUTH
    return LIE in packets


def six(guest: Interface) -> str:
    return guest.port.fixed_ips[1].address


def wider(network: NetworkDocument, cidr: str) -> NetworkDocument:
    """The network with a further range, which no router has an address in."""
    return replace(network, subnets=[*network.subnets, SubnetRef(id=uuid_of(8, 1), cidr=cidr)])


def let_in(version: int, prefix: str | None = None, group: str | None = None) -> SecurityRule:
    return SecurityRule(
        direction="ingress", ethertype=f"IPv{version}", protocol="udp", remote_ip_prefix=prefix, remote_group_id=group
    )


@pytest.mark.parametrize("where", [0, pytest.param(1, marks=pytest.mark.deep)], ids=["same host", "other host"])
def test_nobody_is_a_member_of_a_group_from_another_network(town: Town, where: int) -> None:
    """Not of one that his router visits: its own guests are seen there as themselves."""
    own, shared = inner(1, six=True), inner(2, six=True)
    town.router(1, own, shared, gateway=False, visits={shared.id: ["10.2.0.77/24", "2001:db8:2::77/64"]})
    rules = let_in(4, group=THEIRS), let_in(6, group=THEIRS), let_in(4, "10.1.0.0/24"), let_in(6, "2001:db8:1::/64")
    town.allow(OURS, EGRESS, *rules)
    town.allow(THEIRS, EGRESS)
    liar, server, member = town.guest(0, own, 1), town.guest(where, shared, 2, OURS), town.guest(0, shared, 3, THEIRS)
    assert not heard(liar.space, server, server.address, member.address, liar.address)
    assert not heard(liar.space, server, six(server), six(member), six(liar))


@pytest.mark.deep
@pytest.mark.parametrize(
    "number", [pytest.param(1, marks=pytest.mark.deep), 3], ids=["a range of his own", "the same range"]
)
def test_nobody_is_a_member_of_a_group_beyond_somebody_else_s_router(town: Town, number: int) -> None:
    """The liar's network may have the range of the one that another router joins with the shared one."""
    shared, beyond = inner(2), inner(3)
    own = inner(4, octet=number)
    town.router(1, shared, beyond, gateway=False)
    town.router(2, own, shared, gateway=False, visits={shared.id: ["10.2.0.77/24"]})
    town.allow(OURS, EGRESS, let_in(4, group=THEIRS))
    town.allow(THEIRS, EGRESS)
    member, server = town.guest(0, beyond, 3, THEIRS), town.guest(0, shared, 2, OURS)
    liar = town.guest(0, own, 1)
    with server.space.do(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as listener:
        listener.bind((server.address, PORT))
        listener.settimeout(PATIENCE)
        member.space.do(lambda: say(member.address, TRUTH, server.address))
        assert listener.recv(100) == TRUTH
        for _ in range(2):  # the second one finds its way known
            liar.space.do(lambda: say(member.address, LIE, server.address))
        listener.settimeout(1)
        with pytest.raises(TimeoutError):
            listener.recv(100)


@pytest.mark.deep
def test_a_third_network_s_guests_are_nobody_else(town: Town) -> None:
    one, two, three = inner(1, six=True), inner(2, six=True), inner(3, six=True)
    town.router(1, one, two, three, gateway=False)
    liar, server, third = town.guest(0, one, 1), town.guest(1, two, 2), town.guest(0, three, 3)
    assert not heard(liar.space, server, server.address, third.address, liar.address)
    assert not heard(liar.space, server, six(server), six(third), six(liar))
    assert not heard(liar.space, server, server.address, "169.254.169.254", liar.address)


@pytest.mark.deep
def test_what_routes_lead_behind_a_guest_is_heard(town: Town) -> None:
    one, two = inner(1), inner(2)
    router = town.router(1, one, two, gateway=False)
    gate, server = town.guest(0, one, 1), town.guest(1, two, 2)
    router.routes = [Route(destination="10.77.0.0/16", next_hop=gate.address)]
    town.sync()
    assert heard(gate.space, server, server.address, "10.77.0.1", gate.address)
    assert heard(gate.space, server, server.address, "10.1.0.200", gate.address), "an address pair's"


@pytest.mark.deep
def test_ranges_of_a_network_in_which_the_router_has_no_address_are_the_network_s_too(town: Town) -> None:
    own, shared, third = inner(1), wider(inner(2), "10.22.0.0/24"), inner(3)
    town.router(1, own, shared, third, gateway=False, visits={shared.id: ["10.2.0.77/24"]})
    liar, server, other = town.guest(0, own, 1), town.guest(1, shared, 2), town.guest(0, third, 3)
    server.space.run("ip", "route", "replace", "default", "via", "10.2.0.77")
    for target in (server, other):
        assert not heard(liar.space, target, target.address, "10.22.0.5", liar.address)
    assert heard(server.space, other, other.address, "10.22.0.5", server.address)


@pytest.mark.deep
def test_a_range_that_two_networks_have_gives_nobody_a_name_on_the_other_s(town: Town) -> None:
    """Whoever makes a network of equal range is heard on networks of his own, and not where his router is a visitor."""
    own, shared, second = inner(1), wider(inner(2), "10.1.0.0/25"), inner(3)
    town.router(1, own, shared, second, gateway=False, visits={shared.id: ["10.2.0.77/24"]})
    one, server, another = town.guest(0, own, 1), town.guest(0, shared, 2), town.guest(1, second, 3)
    server.space.run("ip", "route", "replace", "default", "via", "10.2.0.77")
    assert heard(one.space, another, another.address, "10.1.0.2", one.address)
    assert not heard(one.space, server, server.address, "10.1.0.2", "10.1.0.200"), "beyond the range of both"
    assert not heard(server.space, another, another.address, "10.1.0.2", server.address)


@pytest.mark.deep
def test_nobody_outside_is_a_guest_and_no_guest_is_outside(town: Town) -> None:
    one, two = inner(1, six=True), inner(2, six=True)
    town.router(1, one, two, home=0)
    town.outside.run("ip", "route", "replace", "2001:db8:1::/64", "via", "2001:db8:4::101")
    guest, other = town.guest(0, one, 1), town.guest(0, two, 2)
    assert not heard(town.outside, guest, six(guest), six(other), OUTSIDE_SIX)
    assert not heard(other.space, guest, six(guest), OUTSIDE_SIX, six(other))
    assert not heard(other.space, guest, guest.address, "172.24.4.1", other.address)
