"""A guest that is migrated takes its traffic along, without a word of the control plane."""

from __future__ import annotations

import socket
from contextlib import ExitStack

import pytest

from tests.host.cast import EGRESS, OURS, PING
from tests.host.lab import NOBODY, PATIENCE, Interface, Space
from tests.host.layer3.test_lasting import STREAMS, echoed
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
        moved = next(each for each in source.guests if each[1] is guest)
        source.guests.remove(moved)
        target.guests.append(moved)
        town.targets.clear()
        town.sync()
        source.process.network.unplug(moved[0].uuid)
        for stream in streams:
            stream.moves()


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
