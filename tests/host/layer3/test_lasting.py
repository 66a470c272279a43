"""Routers last: over the agent's restart, over what dies by itself; and nothing of them is left in the end."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from contextlib import ExitStack
from itertools import chain
from pathlib import Path

import pytest

from compute_agent.contract.build import SecurityRule
from compute_agent.network.routers import kernel
from tests.host.cast import EGRESS, OURS, PING
from tests.host.lab import NOBODY, PATIENCE, Interface, Space, until
from tests.host.layer3.test_outside import seen_as
from tests.host.layer3.test_routed import pings
from tests.host.layer3.town import WORLD, Town, inner
from tests.support.streams import echo, streaming

STREAMS = SecurityRule(direction="ingress", protocol="tcp", port_range_min=8080, port_range_max=8089)


@pytest.mark.deep
@pytest.mark.parametrize(
    "groups", [pytest.param((), marks=pytest.mark.deep), (OURS,)], ids=["port security off", "filtered"]
)
def test_a_restart_of_the_agent_cuts_no_connection_and_loses_no_packet(town: Town, groups: tuple[str, ...]) -> None:
    """Neither those that carry something all the time nor those on which nothing happens meanwhile."""
    one, two = inner(1), inner(2)
    router = town.router(1, one, two, home=0)
    town.allow(OURS, EGRESS, PING, STREAMS)
    first, second, third = (
        town.guest(host, network, number, *groups) for host, network, number in ((0, one, 1), (1, two, 2), (1, one, 3))
    )
    floating = town.float(1, router, first)
    assert pings(town.outside, floating.address)
    assert pings(first.space, second.address)
    inwards, routed, across = (
        (town.outside, floating.address),
        (first.space, second.address),
        (third.space, first.address),
    )
    with ExitStack() as stack:
        idle = [connected(*way, guest) for way, guest in ((inwards, first), (across, first))]
        for end in chain.from_iterable(idle):
            stack.enter_context(end)
        ways = ((inwards, first), (routed, second), (across, first))
        streams = [stack.enter_context(streaming(echoed(*way, guest))) for way, guest in ways]
        pinging = [stack.enter_context(endless_ping(*way)) for way in (inwards, routed, (second.space, WORLD))]
        for host in town.hosts:
            before = numbered(host.inside)
            host.process.kill()
            for stream in streams:
                stream.moves()
            host.come_back()
            for stream in streams:
                stream.moves()
            assert numbered(host.inside) == before
        for ping in pinging:
            ping.send_signal(signal.SIGINT)
            assert none_missing(ping.communicate()[0])
        for client, server in idle:
            client.sendall(b"still there?")
            assert server.recv(100) == b"still there?"
    assert seen_as(first.space, town.outside, WORLD) == floating.address


def connected(space: Space, address: str, guest: Interface) -> tuple[socket.socket, socket.socket]:
    """Connect to a guest; return both ends."""
    with guest.space.listens(NOBODY, 8080) as listener:
        client = space.do(lambda: socket.create_connection((address, 8080), timeout=PATIENCE))
        server, _ = listener.accept()
    server.settimeout(PATIENCE)
    return client, server


def echoed(space: Space, address: str, guest: Interface) -> socket.socket:
    """Connect to a guest that sends back what it gets."""
    client, server = connected(space, address, guest)
    server.settimeout(None)
    echo(server)
    return client


def endless_ping(space: Space, address: str) -> subprocess.Popen[str]:
    """Ask 20 times a second until told to stop."""
    ping = ["busybox", "ping", "-i", "0.05", address]
    return subprocess.Popen(["nsenter", f"--net={space.path}", *ping], stdout=subprocess.PIPE, text=True)


def none_missing(output: str) -> bool:
    """Whether every packet was answered, but for the last one, which may have been on its way."""
    answered = [int(number) for number in re.findall(r"seq=(\d+) ", output)]
    sent = int(re.findall(r"(\d+) packets transmitted", output)[0])
    return answered == list(range(len(answered))) and sent - len(answered) <= 1


def test_what_changed_while_the_agent_was_away_is_brought_up(town: Town) -> None:
    one = inner(1)
    router = town.router(1, one, home=0)
    guest = town.guest(0, one, 1)
    space = Space(f"{town.hosts[0].inside.path.name}-r-{router.id}")
    space.run("ip", "route", "add", "10.99.0.0/16", "via", "172.24.4.1", "proto", str(kernel.PROTOCOL))
    space.run("ip", "route", "del", "default")
    assert not pings(guest.space, WORLD, patience=1)
    town.hosts[0].restart()
    assert pings(guest.space, WORLD)
    assert "10.99.0.0" not in space.run("ip", "route")


def test_a_lost_namespace_is_made_anew(town: Town) -> None:
    one = inner(1)
    router = town.router(1, one, home=1)
    guest = town.guest(0, one, 1)
    host = town.hosts[0]
    name = host.inside.path.name
    for space in (f"{name}-r-{router.id}", f"{name}-x-{town.external.id}"):
        host.inside.run("ip", "netns", "del", space)  # the kernel takes it away when it finds the time
        assert f"router {router.id}" in host.process.network.check()
        assert pings(guest.space, WORLD)
    assert host.process.network.check() == []


@pytest.mark.deep
def test_a_namespace_that_has_lost_its_name_and_lives_on_is_replaced(town: Town) -> None:
    """The advertiser in it keeps it alive, with its ends of all pairs."""
    one = inner(1, six=True)
    router = town.router(1, one, home=0)
    guest = town.guest(0, one, 1)
    host = town.hosts[0]
    name = host.inside.path.name
    spaces = [f"{name}-r-{router.id}", f"{name}-x-{town.external.id}"]
    path = Path(host.lab.settings.state_dir) / "network" / "routers" / router.id / "dnsmasq.pid"
    for lost in (spaces[:1], spaces):
        for space in lost:
            host.inside.run("ip", "netns", "del", space)
        assert f"router {router.id}" in host.process.network.check()
        assert pings(guest.space, WORLD)
        assert host.process.network.check() == []
        assert Path(f"/proc/{path.read_text().strip()}/ns/net").samefile(f"/run/netns/{spaces[0]}")


@pytest.mark.deep
def test_the_ends_of_a_removed_router_do_not_wait_for_the_end_of_its_namespace(town: Town) -> None:
    router = town.router(1, inner(1), home=0)
    host = town.hosts[0]
    spaces = [f"{host.inside.path.name}-{part}" for part in (f"r-{router.id}", f"x-{town.external.id}")]
    with ExitStack() as kept:
        for space in spaces:
            kept.enter_context(Path("/run/netns", space).open("rb"))  # an open descriptor keeps a namespace alive
        town.clear()
        assert town.left() == {}


@pytest.mark.deep
def test_rules_that_somebody_else_took_away_are_put_back(town: Town) -> None:
    one = inner(1)
    router = town.router(1, one, home=0)
    guest, server = town.guest(0, one, 1), town.guest(0, one, 2, OURS)
    town.allow(OURS, EGRESS)
    host = town.hosts[0]
    assert host.process.network.check() == []
    assert not pings(guest.space, server.address, patience=1)
    host.inside.run("nft", "flush", "table", "inet", "novella_filters")
    assert host.process.network.check() == ["filters"]
    assert not pings(guest.space, server.address, patience=1)
    host.inside.run("nft", "add", "table", "inet", "somebody_elses")
    assert host.process.network.check() == []
    host.inside.run("nft", "delete", "table", "inet", "somebody_elses")
    for space in (f"{host.inside.path.name}-r-{router.id}", f"{host.inside.path.name}-x-{town.external.id}"):
        Space(space).run("nft", "flush", "ruleset")
        assert host.process.network.check() == [f"router {router.id}"]
        assert "table" in Space(space).run("nft", "list", "tables")
        assert pings(guest.space, WORLD)
        assert host.process.network.check() == []


@pytest.mark.deep
def test_a_killed_advertiser_comes_back(town: Town) -> None:
    one = inner(1, six=True)
    router = town.router(1, one, gateway=False)
    host = town.hosts[0]
    path = Path(host.lab.settings.state_dir) / "network" / "routers" / router.id / "dnsmasq.pid"
    pid = int(path.read_text())
    os.kill(pid, signal.SIGKILL)
    until(lambda: not Path(f"/proc/{pid}/exe").exists(), "the end of a process")
    assert host.process.network.check() == [f"router {router.id}"]
    assert int(path.read_text()) != pid
    assert "Seccomp:\t2" in Path(f"/proc/{int(path.read_text())}/status").read_text().splitlines()


def numbered(space: Space) -> list[str]:
    """List the interfaces with their numbers: one that is made anew has another."""
    return [line.partition(": <")[0] for line in space.run("ip", "-o", "link").splitlines()]
