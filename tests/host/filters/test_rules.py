"""What the filters let through: own frames, and what the rules of security groups say."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from dataclasses import replace as replace_wish

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec, SecurityRule
from tests.host.cast import EGRESS, GROUP, OURS, PING, SSH, THEIRS, Wish, network
from tests.host.filters.plugging import STRANGER, Plug, ready, serve
from tests.host.host_process import HostProcess
from tests.host.lab import (
    Interface,
    Lab,
    Space,
    arp_frame,
    mac,
    udp_frame,
)

BROADCAST = "ff:ff:ff:ff:ff:ff"


def two(plug: Plug, rules: tuple[SecurityRule, ...] = (EGRESS, PING, SSH)) -> tuple[Interface, Interface]:
    first, second = plug(Wish(1, rules=(EGRESS,))), plug(Wish(2, rules=rules))
    first.configure()
    second.configure()
    return first, second


def flood(interface: Interface, frame: bytes, listener: Interface) -> bool:
    """Say whether a broadcast frame of ``interface`` arrives at ``listener``."""
    listener.drain()
    interface.send(frame)
    return listener.hears(lambda got: got[6:] == frame[6:], 0.3) is not None


@pytest.fixture
def watcher(plug: Plug) -> Interface:
    """An interface without port security, so that it is shown every frame that the others get through."""
    interface = plug(Wish(9, port_security=False))
    interface.space.run("ip", "link", "set", "eth0", "promisc", "on")
    return interface


def test_own_frames_pass(plug: Plug, watcher: Interface) -> None:
    interface = plug(Wish(1))
    own = interface.port.mac_address
    assert flood(interface, arp_frame(own, (own, interface.address), "10.20.0.1"), watcher)
    probe = udp_frame((own, interface.address, 5000), (BROADCAST, "10.20.0.255", 5000), b"hello")
    assert flood(interface, probe, watcher)


@pytest.mark.parametrize(
    "what", ["hardware address", "ARP address", "ARP hardware address", "IPv4 address", "DHCP server", "VLAN", "IPv6"]
)
def test_a_lie_about_who_sends_is_dropped(plug: Plug, watcher: Interface, what: str) -> None:
    interface = plug(Wish(1))
    own, address = interface.port.mac_address, interface.address
    everyone = (BROADCAST, "10.20.0.255", 5000)
    honest = udp_frame((own, address, 5000), everyone, b"x")
    lies = {
        "hardware address": udp_frame((STRANGER, address, 5000), everyone, b"x"),
        "ARP address": arp_frame(own, (own, "10.20.0.1"), "10.20.0.77"),
        "ARP hardware address": arp_frame(own, (STRANGER, address), "10.20.0.77"),
        "IPv4 address": udp_frame((own, "10.20.0.99", 5000), everyone, b"x"),
        "DHCP server": udp_frame((own, address, 67), (BROADCAST, "255.255.255.255", 68), b"x" * 300),
        "VLAN": honest[:12] + b"\x81\x00\x00\x05" + honest[12:],
        "IPv6": mac("33:33:00:00:00:01") + mac(own) + b"\x86\xdd" + b"\x60" + b"\0" * 60,
    }
    assert not flood(interface, lies[what], watcher)


def test_without_a_rule_nothing_comes_in(plug: Plug, inside: Space) -> None:
    first, second = two(plug, rules=(EGRESS,))
    with serve(second, 22):
        assert not first.space.connects(second.address, 22, 0.3)
        assert not inside.connects(second.address, 22, 0.3)


def test_a_rule_opens_its_port_only(plug: Plug, inside: Space) -> None:
    first, second = two(plug)
    with serve(second, 22), serve(second, 23):
        assert first.space.connects(second.address, 22)
        assert inside.connects(second.address, 22)
        assert not first.space.connects(second.address, 23, 0.3)
        assert not inside.connects(second.address, 23, 0.3)


def member(number: int) -> Wish:
    """A guest as a project's default group makes it."""
    return Wish(number, rules=(EGRESS, GROUP), groups=(OURS,))


def test_a_remote_group_lets_its_members_in_and_nobody_else(plug: Plug, inside: Space) -> None:
    friend, server = ready(plug, member(1)), ready(plug, member(2))
    stranger = ready(plug, Wish(3, groups=(THEIRS,)))
    with serve(server, 80):
        assert friend.space.connects(server.address, 80)
        assert not stranger.space.connects(server.address, 80, 0.3)
        assert not inside.connects(server.address, 80, 0.3)


def test_a_rule_out_to_a_group_reaches_its_members_and_nobody_else(plug: Plug) -> None:
    out = SecurityRule(direction="egress", remote_group_id=OURS)
    interface = ready(plug, Wish(1, rules=(out,)))
    friend = ready(plug, Wish(2, rules=(SSH,), groups=(OURS,)))
    stranger = ready(plug, Wish(3, rules=(SSH,), groups=(THEIRS,)))
    with serve(friend, 22), serve(stranger, 22):
        assert interface.space.connects(friend.address, 22)
        assert not interface.space.connects(stranger.address, 22, 0.3)


def test_a_member_that_comes_later_is_let_in_until_it_goes(
    plug: Plug, host: HostProcess, plugged: list[InstanceSpec]
) -> None:
    server = ready(plug, Wish(1, rules=(EGRESS, GROUP)))
    with serve(server, 80):
        later = ready(plug, Wish(2, groups=(OURS,)))
        assert later.space.connects(server.address, 80)
        host.network.unplug(plugged.pop().uuid)
        heir = ready(plug, Wish(2, groups=(THEIRS,)))
        assert heir.address == later.address
        assert not heir.space.connects(server.address, 80, 0.3)
        assert ready(plug, Wish(3, groups=(THEIRS, OURS))).space.connects(server.address, 80)


def test_members_are_known_again_after_a_restart(plug: Plug, host: HostProcess, plugged: list[InstanceSpec]) -> None:
    friend, server, goes = ready(plug, member(1)), ready(plug, member(2)), plug(member(3))
    host.kill()
    host.start()
    host.network.init_host()
    host.network.restore(plugged[:2])
    del plugged[2]
    with serve(server, 80):
        assert friend.space.connects(server.address, 80)
        heir = ready(plug, Wish(3, groups=(THEIRS,)))
        assert heir.address == goes.address
        assert not heir.space.connects(server.address, 80, 0.3)


def test_a_member_on_another_network_lends_its_address_to_nobody(plug: Plug) -> None:
    same = replace(network(21), cidr="10.20.0.0/24", gateway=None)
    friend, server = ready(plug, member(1)), ready(plug, member(2))
    stranger = ready(plug, replace_wish(member(1), network=same, groups=(THEIRS,)))
    other = ready(plug, replace_wish(member(2), network=same))
    assert (friend.address, server.address) == (stranger.address, other.address)
    with serve(server, 80), serve(other, 80):
        assert not stranger.space.connects(other.address, 80, 0.3)
        assert friend.space.connects(server.address, 80)


def test_a_rule_from_a_group_that_cannot_be_named_lets_nobody_in(plug: Plug) -> None:
    nonsense = SecurityRule(direction="ingress", remote_group_id="web } accept")
    friend, server = ready(plug, member(1)), ready(plug, Wish(2, rules=(EGRESS, nonsense), groups=(OURS,)))
    with serve(server, 80):
        assert not friend.space.connects(server.address, 80, 0.3)


@pytest.fixture
def outside(inside: Space, lab: Lab) -> Iterator[Space]:
    """What lies behind a router of the host; the host believes every source address that comes from there."""
    space = Space(f"{lab.settings.netns}-out")
    inside.run("ip", "link", "add", "wan", "type", "veth", "peer", "name", "eth0", "netns", str(space.path))
    inside.run("ip", "link", "set", "wan", "address", "fa:16:3e:77:77:77", "up")
    for name in ("all", "wan"):
        inside.run("sysctl", "-qw", f"net.ipv4.conf.{name}.rp_filter=0")
    space.run("ip", "link", "set", "eth0", "up")
    yield space
    space.remove()


@pytest.mark.parametrize("rule", [GROUP, SecurityRule(direction="ingress", protocol="udp")])
def test_a_members_address_from_outside_the_network_is_no_member(
    plug: Plug, outside: Space, rule: SecurityRule
) -> None:
    friend, server = ready(plug, member(1)), ready(plug, Wish(2, rules=(EGRESS, rule)))
    server.drain()
    frame = udp_frame(("fa:16:3e:77:77:78", friend.address, 5000), ("fa:16:3e:77:77:77", server.address, 5000), b"me")
    outside.send("eth0", frame)
    arrived = server.hears(lambda got: got[30:34] == socket.inet_aton(server.address) and got.endswith(b"me"), 0.5)
    assert (arrived is None) == (rule is GROUP)


def test_a_remote_prefix_counts(plug: Plug) -> None:
    only = SecurityRule(direction="ingress", protocol="tcp", remote_ip_prefix="10.20.0.5/32")
    first, second = two(plug, rules=(EGRESS, only))
    third = plug(Wish(3))
    third.configure()
    with serve(second, 80):
        assert first.space.connects(second.address, 80)
        assert not third.space.connects(second.address, 80, 0.3)


def test_without_an_egress_rule_nothing_goes_out(plug: Plug, inside: Space) -> None:
    mute = plug(Wish(1, rules=(SSH,)))
    other = plug(Wish(2, rules=(EGRESS, SSH)))
    mute.configure()
    other.configure()
    with serve(other, 22), serve(mute, 22):
        assert not mute.space.connects(other.address, 22, 0.3)
        assert other.space.connects(mute.address, 22)


def test_a_port_without_security_is_not_filtered(plug: Plug) -> None:
    first, router = plug(Wish(1)), plug(Wish(2, rules=(), port_security=False))
    first.configure()
    router.configure()
    with serve(router, 8080), serve(first, 8080):
        assert first.space.connects(router.address, 8080)
        assert not router.space.connects(first.address, 8080, 0.3)
