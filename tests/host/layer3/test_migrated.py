"""A guest that is migrated takes its traffic along, without a word of the control plane."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest
from msgspec.structs import replace

from compute_agent.network.filters.carried import CarriedFlow, TrackedPort, encoded, flows_of
from tests.host.cast import EGRESS, OURS, PING, THEIRS
from tests.host.lab import NOBODY, PATIENCE, Interface, Space
from tests.host.layer3.test_lasting import STREAMS, connected, echoed
from tests.host.layer3.test_routed import pings
from tests.host.layer3.town import WORLD, FloatingWish, Town, inner
from tests.support.streams import echo, streaming


def began(guest: Interface, space: Space, address: str) -> socket.socket:
    """Connect a guest to an echo elsewhere; return its end."""
    with space.listens(NOBODY, 8090) as listener:
        client = guest.space.do(lambda: socket.create_connection((address, 8090), timeout=PATIENCE))
        server, _ = listener.accept()
    echo(server)
    return client


@pytest.fixture
def stage(town: Town) -> tuple[Town, Interface, FloatingWish, list[Interface]]:
    """A guest with a floating IP on the first host, and a neighbour on each host."""
    one = inner(1)
    router = town.router(1, one, home=0)
    town.allow(OURS, EGRESS, PING, STREAMS)
    guest = town.guest(0, one, 1, OURS)
    neighbours = [town.guest(host, one, 2 + host, OURS) for host in (0, 1)]
    floating = town.float(1, router, guest)
    assert pings(town.outside, floating.address)
    return town, guest, floating, neighbours


def test_connections_and_neighbours_follow_a_guest(
    stage: tuple[Town, Interface, FloatingWish, list[Interface]],
) -> None:
    town, guest, floating, neighbours = stage
    source, target = town.hosts[:2]
    with ExitStack() as stack:
        links = [echoed(town.outside, floating.address, guest), began(guest, town.outside, WORLD)]
        links += [echoed(each.space, guest.address, guest) for each in neighbours]
        streams = [stack.enter_context(streaming(link)) for link in links]
        town.prepare(guest, source, target)
        for stream in streams:
            stream.moves()
        town.move(guest, source, target)
        for stream in streams:
            stream.moves()
        town.settle(guest, source, target)
        for stream in streams:
            stream.moves()


@pytest.mark.deep
def test_the_side_that_no_rule_allows_to_begin_may_speak_first(town: Town) -> None:
    """Idle connections continue after the switch, although the next packet goes in a direction that no rule allows."""
    one = inner(1)
    router = town.router(1, one, home=0)
    town.allow(OURS, PING, STREAMS)
    town.allow(THEIRS, EGRESS)
    guest = town.guest(0, one, 1, OURS)
    clients = [town.outside, *(town.guest(host, one, 2 + host, THEIRS).space for host in (0, 1))]
    floating = town.float(1, router, guest)
    assert pings(town.outside, floating.address)
    source, target = town.hosts[:2]
    addresses = (floating.address, guest.address, guest.address)
    links = [connected(space, address, guest) for space, address in zip(clients, addresses, strict=True)]
    with ExitStack() as stack:
        for each in (end for link in links for end in link):
            stack.enter_context(each)
        for client, server in links:
            client.sendall(b"?")
            assert server.recv(1) == b"?"
        town.prepare(guest, source, target)
        town.move(guest, source, target)
        for client, server in links:
            server.sendall(b"!")
            assert client.recv(1) == b"!"
        town.settle(guest, source, target)
        for client, server in links:
            server.sendall(b".")
            assert client.recv(1) == b"."


def test_connections_that_share_an_address_of_the_old_host_are_reset(town: Town) -> None:
    """A guest without a floating IP learns with its next packet that the connection has ended, and begins another."""
    one = inner(1)
    town.router(1, one, home=0)
    town.allow(OURS, EGRESS)
    guest = town.guest(0, one, 1, OURS)
    source, target = town.hosts[:2]
    with began(guest, town.outside, WORLD) as link:
        link.sendall(b"?")
        assert link.recv(1) == b"?"
        town.prepare(guest, source, target)
        town.move(guest, source, target)
        link.sendall(b"!")
        with pytest.raises(ConnectionResetError):
            link.recv(1)
        town.settle(guest, source, target)
    with began(guest, town.outside, WORLD) as link:
        link.sendall(b"?")
        assert link.recv(1) == b"?"


def test_a_host_cannot_open_connections_of_others(town: Town) -> None:
    one = inner(1)
    town.allow(OURS, PING)
    guest = town.guest(0, one, 1, OURS)
    machine, ours, theirs = town.hosts[0], guest.address, "10.1.0.9"
    (spec,) = (spec for spec, each in machine.guests if each is guest)
    valid = CarriedFlow(one.id, theirs, ours, socket.IPPROTO_TCP, 40000, 8080, 1 << 30, 3)
    invalid = [
        ("network_id", "00000000-0000-4000-8000-00000000ffff"),
        ("target", "10.1.0.8"),
        ("source", ours),
        ("source", "::1"),
        ("source", "nonsense"),
        ("protocol", socket.IPPROTO_ICMP),
        ("state", 1),
        ("source_port", 0),
        ("target_port", 1 << 16),
    ]
    network = machine.process.network
    network.adopt(spec.uuid, b"nonsense")
    network.adopt(spec.uuid, encoded([replace(valid, **{name: value}) for name, value in invalid]))
    addresses = frozenset({ours, theirs, "10.1.0.8"})

    def tracked() -> list[CarriedFlow]:
        ports = [TrackedPort(one.id, zone, addresses) for zone in range(1, 8)]
        return machine.inside.do(lambda: flows_of(ports))

    assert tracked() == []
    network.adopt(spec.uuid, encoded([valid, valid]))
    (result,) = tracked()
    assert replace(result, timeout=valid.timeout) == valid
    assert 0 < result.timeout <= 3600
    network.unplug(spec.uuid)
    assert tracked() == []


@pytest.mark.deep
def test_an_aborted_migration_leaves_the_traffic_where_it_was(
    stage: tuple[Town, Interface, FloatingWish, list[Interface]],
) -> None:
    town, guest, floating, neighbours = stage
    source, target = town.hosts[:2]
    with ExitStack() as stack:
        links = [echoed(town.outside, floating.address, guest), echoed(neighbours[1].space, guest.address, guest)]
        streams = [stack.enter_context(streaming(link)) for link in links]
        spec = town.prepare(guest, source, target)
        target.process.network.switch(spec.uuid, here=True)  # the guest was paused, and could not be transferred
        target.process.network.unplug(spec.uuid)
        source.process.network.switch(spec.uuid, here=True)
        for stream in streams:
            stream.moves()
        town.targets.clear()
        town.sync()
        for stream in streams:
            stream.moves()
