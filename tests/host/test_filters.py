"""The host's network without guests: interfaces in namespaces send what a hostile guest would send."""

from __future__ import annotations

import os
import pwd
import signal
import socket
from collections.abc import Callable, Iterator
from dataclasses import replace as replace_wish
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import FixedAddress, InstanceSpec, SecurityRule
from compute_agent.network import dhcp_user
from compute_agent.virt.errors import RetryableHostError
from tests.host.cast import EGRESS, GROUP, OURS, PING, SSH, THEIRS, Wish, network
from tests.host.host_process import HostProcess
from tests.host.lab import (
    PATIENCE,
    Interface,
    Lab,
    Space,
    arp_frame,
    dhcp_discover,
    dhcp_offer,
    dhcp_option,
    dns_addresses,
    dns_question,
    links,
    mac,
    processes_naming,
    udp_frame,
    until,
)

Plug = Callable[[Wish], Interface]
BROADCAST = "ff:ff:ff:ff:ff:ff"
STRANGER = "fa:16:3e:66:66:66"


@pytest.fixture(scope="module")
def host(lab: Lab) -> Iterator[HostProcess]:
    host = HostProcess(lab.settings, lab.machine.path, Path("/dev/null"))
    host.network.init_host()
    yield host
    host.kill()


@pytest.fixture
def inside(lab: Lab, host: HostProcess) -> Space:
    return lab.inside()


@pytest.fixture
def plugged(host: HostProcess) -> Iterator[list[InstanceSpec]]:
    """The instances of one test; they are unplugged after it."""
    specs: list[InstanceSpec] = []
    yield specs
    for spec in specs:
        host.network.unplug(spec.uuid)


@pytest.fixture
def plug(lab: Lab, host: HostProcess, inside: Space, plugged: list[InstanceSpec]) -> Iterator[Plug]:
    interfaces: list[Interface] = []

    def plug(wish: Wish) -> Interface:
        spec = wish.spec()
        host.network.plug(spec)
        host.network.apply_firewall(spec)
        plugged.append(spec)
        interfaces.append(Interface(inside, spec.ports[0], f"{lab.settings.netns}-{len(interfaces)}"))
        return interfaces[-1]

    yield plug
    for interface in interfaces:
        interface.remove()


def two(plug: Plug, rules: tuple[SecurityRule, ...] = (EGRESS, PING, SSH)) -> tuple[Interface, Interface]:
    first, second = plug(Wish(1, rules=(EGRESS,))), plug(Wish(2, rules=rules))
    first.configure()
    second.configure()
    return first, second


def serve(interface: Interface, port: int) -> socket.socket:
    return interface.space.listens(interface.address, port)


# --- spoofing -------------------------------------------------------------------------------------


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


# --- security rules -------------------------------------------------------------------------------


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


def ready(plug: Plug, wish: Wish) -> Interface:
    interface = plug(wish)
    interface.configure()
    return interface


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


def test_networks_do_not_see_each_other(plug: Plug) -> None:
    here = plug(Wish(1, rules=(EGRESS, SSH)))
    there = plug(Wish(1, rules=(EGRESS, SSH), network=network(21)))
    here.configure()
    there.configure()
    with serve(there, 22):
        assert not here.space.connects(there.address, 22, 0.3)


def test_the_host_gives_guests_nothing_but_dhcp_and_names(plug: Plug, inside: Space) -> None:
    interface = plug(Wish(1))
    interface.configure()
    with inside.listens("10.20.0.1", 8080):
        assert not interface.space.connects("10.20.0.1", 8080, 0.3)
    assert interface.space.connects("10.20.0.1", 53)


# --- the way out ----------------------------------------------------------------------------------

NEIGHBOUR, METADATA, WORLD = "192.168.77.2", "169.254.169.254", "203.0.113.9"


@pytest.fixture
def office(lab: Lab) -> Iterator[Space]:
    """The machine's own network: a neighbour on it, its provider's metadata, and a router to the world."""
    space = Space(f"{lab.machine.name}-office")
    lab.machine.run("ip", "link", "add", "lan", "type", "veth", "peer", "name", "eth0", "netns", str(space.path))
    lab.machine.run("ip", "addr", "add", "192.168.77.1/24", "dev", "lan")
    lab.machine.run("ip", "link", "set", "lan", "up")
    space.run("ip", "addr", "add", f"{NEIGHBOUR}/24", "dev", "eth0")
    space.run("ip", "link", "set", "eth0", "up")
    for address in (METADATA, WORLD):
        space.run("ip", "addr", "add", f"{address}/32", "dev", "lo")
        lab.machine.run("ip", "route", "add", address, "via", NEIGHBOUR)
    yield space
    space.remove()
    until(lambda: "lan" not in links(lab.machine), "the machine's card is gone")


def reached(guest: Interface, office: Space) -> list[str]:
    """The addresses of the office that accept a guest's connection."""
    found = []
    for address in (NEIGHBOUR, METADATA, WORLD):
        with office.listens(address, 80):
            if guest.space.connects(address, 80, 0.5):
                found.append(address)
    return found


def test_guests_reach_the_world_but_neither_link_local_addresses_nor_the_hosts_own_networks(
    plug: Plug, host: HostProcess, inside: Space, office: Space
) -> None:
    # The network came while the agent ran.
    assert host.network.check() == ["networks that guests do not reach"]
    assert host.network.check() == []
    guest = ready(plug, Wish(1))
    assert reached(guest, office) == [WORLD]
    assert reached(ready(plug, Wish(2, port_security=False)), office) == [WORLD]
    # The name server asks on for them.
    with office.listens(NEIGHBOUR, 53):
        assert inside.connects(NEIGHBOUR, 53)


def test_the_operator_says_what_guests_do_not_reach(
    plug: Plug, host: HostProcess, office: Space, plugged: list[InstanceSpec]
) -> None:
    def settle(blocked: tuple[str, ...], reachable: tuple[str, ...]) -> None:
        host.kill()
        host.settings = replace_wish(before, blocked_networks=blocked, reachable_networks=reachable)
        host.start()
        host.network.init_host()
        host.network.restore(plugged)

    before = host.settings
    guest = ready(plug, Wish(1))
    try:
        settle(("none",), ("none",))
        assert reached(guest, office) == [NEIGHBOUR, METADATA, WORLD]
        settle(("private", "203.0.113.0/24"), (f"{NEIGHBOUR}/32",))
        assert reached(guest, office) == [NEIGHBOUR, METADATA]
    finally:
        settle(before.blocked_networks, before.reachable_networks)


# --- DHCP -----------------------------------------------------------------------------------------


def offered(interface: Interface, hardware: str | None = None) -> str | None:
    interface.drain()
    interface.send(dhcp_discover(hardware or interface.port.mac_address))
    frame = interface.hears(lambda got: dhcp_offer(got) is not None, 1.5 if hardware else PATIENCE)
    return dhcp_offer(frame) if frame else None


def resolved(interface: Interface, name: str) -> set[str]:
    """The addresses that the network's server gives for a name."""

    def ask() -> set[str]:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asking:
            asking.settimeout(10.0)
            asking.sendto(dns_question(name), ("10.20.0.1", 53))
            return dns_addresses(asking.recv(512))

    return interface.space.do(ask)


def told(interface: Interface) -> tuple[str, str]:
    """The name and the domain that DHCP gives an interface."""
    interface.drain()
    interface.send(dhcp_discover(interface.port.mac_address, 12, 15))
    frame = interface.hears(lambda got: dhcp_offer(got) is not None)
    assert frame is not None
    return dhcp_option(frame, 12).decode(), dhcp_option(frame, 15).decode()


def test_on_a_shared_network_each_project_has_names_of_its_own(plug: Plug) -> None:
    ours, theirs = f"{'a' * 32}.novalocal", f"{'b' * 32}.novalocal"
    first = ready(plug, Wish(1, hostname="db", dns_domain=ours))
    second = ready(plug, Wish(2, hostname="db", dns_domain=theirs))
    assert (told(first), told(second)) == (("db", ours), ("db", theirs))
    for asking in (first, second):
        assert resolved(asking, f"db.{ours}") == {first.address}
        assert resolved(asking, f"db.{theirs}") == {second.address}
        assert resolved(asking, "db.novalocal") == set()
        assert resolved(asking, "db") == set()


def test_on_a_projects_own_network_short_names_are_answered_but_reserved_ones_are_not(plug: Plug) -> None:
    first = ready(plug, Wish(1, hostname="db"))
    ready(plug, Wish(2, hostname="WPAD"))
    assert resolved(first, "db") == resolved(first, "db.novalocal") == {first.address}
    assert told(first) == ("db", "novalocal")
    assert resolved(first, "wpad") == resolved(first, "wpad.novalocal") == set()


def test_dhcp_gives_each_interface_its_fixed_address(plug: Plug) -> None:
    first, second = plug(Wish(1)), plug(Wish(2))
    assert offered(first) == first.address
    assert offered(second) == second.address


def test_dhcp_ignores_interfaces_it_does_not_know(plug: Plug) -> None:
    stranger = plug(Wish(1, port_security=False))
    stranger.space.run("ip", "link", "set", "eth0", "address", STRANGER)
    assert offered(stranger, STRANGER) is None


def test_dnsmasq_is_not_root_and_hears_of_guests_that_come_later(plug: Plug, lab: Lab) -> None:
    first = plug(Wish(1))
    pid = int((lab.settings.state_dir / "network/bridges/nvbr20/dnsmasq.pid").read_text())
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    user = dhcp_user.choose("auto")
    assert status["Uid"].split() == [str(pwd.getpwnam(user.name).pw_uid)] * 4
    assert status["Gid"].split() == [str(user.gid)] * 4
    assert user.name != "root"
    later = plug(Wish(2))
    assert offered(later) == later.address
    assert offered(first) == first.address
    assert lab.settings.state_dir.stat().st_mode & 0o777 == 0o700


def test_an_address_given_back_goes_to_another_interface(
    plug: Plug, host: HostProcess, plugged: list[InstanceSpec]
) -> None:
    plug(Wish(9))  # keeps the bridge and its server
    old = plug(Wish(1))
    assert offered(old) == "10.20.0.5"
    host.network.unplug(plugged.pop().uuid)
    # The same address, another interface.
    other = replace(Wish(1).port(), id="7b000000", tap="tap7b000000-00", mac_address="fa:16:3e:20:00:aa")
    spec = replace(Wish(1).spec(), ports=[other])
    host.network.plug(spec)
    host.network.apply_firewall(spec)
    plugged.append(spec)
    interface = Interface(Space(str(host.settings.netns)), other, f"{host.settings.netns}-new")
    try:
        assert offered(interface) == "10.20.0.5"
    finally:
        interface.remove()


# --- life -----------------------------------------------------------------------------------------


def test_unplugging_the_last_guest_leaves_nothing(
    lab: Lab, plug: Plug, host: HostProcess, inside: Space, plugged: list[InstanceSpec]
) -> None:
    before = links(inside)
    interface = plug(Wish(1))
    assert {interface.port.tap, "nvbr20"} <= links(inside)
    spec = plugged.pop()
    for _ in range(2):
        host.network.unplug(spec.uuid)
    assert links(inside) == before
    assert "nvbr20" not in inside.run("nft", "list", "ruleset")
    assert interface.port.tap not in inside.run("nft", "list", "ruleset")
    assert processes_naming(lab.settings.state_dir / "network") == []
    assert list((lab.settings.state_dir / "network").glob("*/*")) == []


def test_a_dead_dhcp_server_is_noticed_and_started_again(plug: Plug, host: HostProcess, lab: Lab) -> None:
    interface = plug(Wish(1))
    bridge = (
        lab.settings.state_dir / "network/bridges/nvbr20"
    )  # other clouds of the run have a bridge of this name, too
    pid = int((bridge / "dnsmasq.pid").read_text())
    assert host.network.check() == []
    os.kill(pid, signal.SIGKILL)
    until(lambda: not processes_naming(bridge / "dnsmasq.conf"), "dnsmasq is dead")
    assert host.network.check() == ["DHCP of nvbr20"]
    assert offered(interface) == interface.address


def test_lost_filters_are_noticed_and_put_back(plug: Plug, host: HostProcess, inside: Space) -> None:
    plug(Wish(1))
    whole = inside.run("nft", "list", "ruleset")
    inside.run("nft", "flush", "ruleset")
    assert host.network.check() == ["filters"]
    assert inside.run("nft", "list", "ruleset") == whole


def test_a_new_agent_restores_what_the_instances_need(
    lab: Lab, plug: Plug, host: HostProcess, inside: Space, plugged: list[InstanceSpec]
) -> None:
    keeps, goes = plug(Wish(1, rules=(EGRESS, SSH))), plug(Wish(2))
    keeps.configure()
    host.kill()
    inside.run("nft", "flush", "ruleset")
    inside.run("ip", "link", "del", "nvbr20")
    host.start()
    host.network.init_host()
    host.network.restore([plugged[0]])
    with serve(keeps, 22), serve(keeps, 23):
        assert inside.connects(keeps.address, 22)
        assert not inside.connects(keeps.address, 23, 0.3)
    assert offered(keeps) == keeps.address
    assert goes.port.tap not in links(inside)
    plugged[:] = plugged[:1]


@pytest.mark.parametrize(
    "hostile",
    [
        {"tap": 'x" ; drop'},
        {"tap": "../../etc"},
        {"mac_address": "fa:16:3e:00:00:01 accept"},
        {"network": replace(network(), bridge="br0\ndhcp-script=/bin/sh")},
        {"network": replace(network(), cidr="10.20.0.0/24,static")},
        {"fixed_ips": [FixedAddress(address="10.20.0.5 }", prefix_length=24)]},
        {"security_group_ids": ["web }"]},
    ],
    ids=lambda hostile: next(iter(hostile)),
)
def test_a_hostile_description_never_reaches_a_program(
    host: HostProcess, lab: Lab, inside: Space, hostile: dict[str, Any]
) -> None:
    before = inside.run("nft", "list", "ruleset")
    spec = replace(Wish(1).spec(), ports=[replace(Wish(1).port(), **hostile)])
    for work in (host.network.plug, host.network.apply_firewall):
        with pytest.raises(RetryableHostError):
            work(spec)
    host.network.unplug(spec.uuid)
    assert inside.run("nft", "list", "ruleset") == before
    assert list((lab.settings.state_dir / "network/instances").glob("*")) == []
