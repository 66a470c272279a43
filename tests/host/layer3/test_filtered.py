"""Guests whose security groups are in force, behind routers and floating IPs, on one host and across hosts."""

from __future__ import annotations

import socket

import pytest

from compute_agent.contract.build import SecurityRule
from tests.host.cast import EGRESS, OURS, THEIRS
from tests.host.lab import NOBODY, PATIENCE, Interface, Space
from tests.host.layer3.test_outside import caller, seen_as
from tests.host.layer3.test_routed import pings
from tests.host.layer3.town import WORLD, Town, inner

WEB = 8080
SHORT = 0.5
"""Seconds after which a packet that did not come does not come."""
WHERE = pytest.mark.parametrize("where", [0, pytest.param(1, marks=pytest.mark.deep)], ids=["same host", "other host"])


def let_in(prefix: str | None = None, group: str | None = None) -> SecurityRule:
    """The rule that opens the port of the tests."""
    return SecurityRule(
        direction="ingress", protocol="tcp", port_range_min=WEB, port_range_max=WEB,
        remote_ip_prefix=prefix, remote_group_id=group,
    )  # fmt: skip


def sees(client: Space, server: Interface, address: str, patience: float = PATIENCE) -> str | None:
    """Return whom a guest sees when somebody connects to its port by an address; None when nobody arrives."""
    with server.space.listens(NOBODY, WEB) as listener:
        return caller(listener) if client.connects(address, WEB, patience) else None


@WHERE
def test_a_floating_ip_is_opened_by_a_rule_and_by_nothing_else(town: Town, where: int) -> None:
    one = inner(1)
    router = town.router(1, one, home=0)
    town.allow(OURS, EGRESS)
    guest = town.guest(where, one, 1, OURS)
    floating = town.float(1, router, guest)
    assert sees(town.outside, guest, floating.address, SHORT) is None
    assert not pings(town.outside, floating.address, patience=1)
    town.allow(OURS, EGRESS, let_in("172.24.4.0/24"))
    assert sees(town.outside, guest, floating.address) == "172.24.4.1"
    with guest.space.listens(NOBODY, WEB + 1):
        assert not town.outside.connects(floating.address, WEB + 1, SHORT)
    town.allow(OURS, EGRESS, let_in("172.24.5.0/24"))
    assert sees(town.outside, guest, floating.address, SHORT) is None
    town.allow(OURS, EGRESS)
    assert sees(town.outside, guest, floating.address, SHORT) is None


@pytest.mark.deep
@pytest.mark.parametrize(
    "floats", [pytest.param(False, marks=pytest.mark.deep), True], ids=["shared address", "floating IP"]
)
@WHERE
def test_answers_from_outside_come_without_a_rule(town: Town, where: int, floats: bool) -> None:
    one = inner(1)
    router = town.router(1, one, home=0)
    town.allow(OURS, EGRESS)
    guest = town.guest(where, one, 1, OURS)
    if floats:
        town.float(1, router, guest)
    assert pings(guest.space, WORLD)
    assert seen_as(guest.space, town.outside, WORLD)
    town.allow(OURS)
    assert not pings(guest.space, WORLD, patience=1), "nothing is allowed out of it"


@pytest.mark.deep
def test_a_rule_that_goes_ends_connections_through_a_floating_ip(town: Town) -> None:
    one = inner(1)
    router = town.router(1, one, home=0)
    town.allow(OURS, EGRESS, let_in())
    guest = town.guest(0, one, 1, OURS)
    floating = town.float(1, router, guest)
    with guest.space.listens(NOBODY, WEB) as listener:
        client = town.outside.do(lambda: socket.create_connection((floating.address, WEB), timeout=PATIENCE))
        server, _ = listener.accept()
        with client, server:
            server.settimeout(1)
            town.allow(OURS, EGRESS)
            client.sendall(b"nobody hears this")
            with pytest.raises(TimeoutError):
                server.recv(100)


@WHERE
def test_between_networks_of_a_router_rules_count(town: Town, where: int) -> None:
    """One whose remote is a group admits its members from the other network, and nobody else from there."""
    one, two = inner(1), inner(2)
    town.router(1, one, two, home=0)
    town.allow(OURS, EGRESS)
    town.allow(THEIRS, EGRESS)
    member, other = town.guest(0, one, 1, THEIRS), town.guest(0, one, 2, OURS)
    server = town.guest(where, two, 3, OURS)
    assert sees(member.space, server, server.address, SHORT) is None
    town.allow(OURS, EGRESS, let_in(group=THEIRS))
    assert sees(member.space, server, server.address) == member.address
    assert sees(other.space, server, server.address, SHORT) is None
    town.allow(OURS, EGRESS, let_in(prefix="10.1.0.0/24"))
    assert sees(other.space, server, server.address) == other.address


@pytest.mark.deep
@WHERE
def test_guests_that_are_filtered_reach_floating_ips_of_their_own_network(town: Town, where: int) -> None:
    """A guest its own and its neighbour's: seen by its floating IP, which a rule has to admit."""
    one = inner(1)
    router = town.router(1, one, home=0)
    town.allow(OURS, EGRESS)
    first, second = town.guest(0, one, 1, OURS), town.guest(where, one, 2, OURS)
    floating = town.float(1, router, first), town.float(2, router, second)
    for server, its in ((first, floating[0]), (second, floating[1])):
        assert sees(first.space, server, its.address, SHORT) is None
    town.allow(OURS, EGRESS, let_in(f"{floating[0].address}/32"))
    for server, its in ((first, floating[0]), (second, floating[1])):
        assert sees(first.space, server, its.address) == floating[0].address
    assert sees(second.space, first, floating[0].address, SHORT) is None


def test_a_filtered_guest_passes_itself_off_as_nobody_to_a_router(town: Town) -> None:
    """Neither to the neighbour's network nor outside."""
    one, two = inner(1), inner(2)
    router = town.router(1, one, two, home=0)
    town.allow(OURS, EGRESS, let_in())
    liar, second = town.guest(0, one, 1, OURS), town.guest(0, two, 2, OURS)
    town.float(1, router, liar)
    lie = "10.1.0.77"
    liar.space.run("ip", "addr", "add", f"{lie}/32", "dev", "lo")
    with second.space.listens(NOBODY, WEB), town.outside.listens(WORLD, WEB):
        assert liar.space.connects(second.address, WEB)
        assert liar.space.connects(WORLD, WEB)
        assert not liar.space.connects(second.address, WEB, SHORT, source=lie)
        assert not liar.space.connects(WORLD, WEB, SHORT, source=lie)


@pytest.mark.deep
@pytest.mark.parametrize(
    "secured", [True, pytest.param(False, marks=pytest.mark.deep)], ids=["filtered", "port security off"]
)
def test_no_guest_reaches_inner_networks(town: Town, secured: bool) -> None:
    """Those of the host, addresses of the host's own metadata, other networks' services: whatever its rules say."""
    one, two = inner(1), inner(2)
    town.router(1, one, home=0)
    town.router(2, two)
    town.allow(OURS, EGRESS, SecurityRule(direction="ingress"))
    groups = (OURS,) if secured else ()
    guest, stranger = town.guest(0, one, 1, *groups), town.guest(0, two, 2)
    host = town.hosts[0]
    town.outside.run("ip", "addr", "replace", "169.254.77.77/32", "dev", "lo")
    assert pings(guest.space, WORLD)
    with host.inside.listens(NOBODY, WEB), host.lab.machine.listens(NOBODY, WEB), stranger.space.listens(NOBODY, WEB):
        for address in (host.underlay, "169.254.77.77", "169.254.64.1", "169.254.169.254", stranger.address):
            assert not guest.space.connects(address, WEB, SHORT), address
        ways = (
            host.inside.run("ip", "-o", "-4", "addr").split() + host.lab.machine.run("ip", "-o", "-4", "addr").split()
        )
        for address in {word.partition("/")[0] for word in ways if "/" in word and word[0].isdigit()} - {"127.0.0.1"}:
            guest.space.run("ip", "route", "replace", f"{address}/32", "via", "10.1.0.1")
            assert not guest.space.connects(address, WEB, SHORT), address
