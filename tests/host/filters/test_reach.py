"""What guests reach: other networks, the host, the world outside; and what names and leases they get."""

from __future__ import annotations

import pwd
import socket
from collections.abc import Iterator
from dataclasses import replace as replace_wish
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import InstanceSpec
from compute_agent.network import dhcp_user
from tests.host.cast import EGRESS, SSH, Wish, network
from tests.host.filters.plugging import STRANGER, Plug, offered, ready, serve
from tests.host.host_process import HostProcess
from tests.host.lab import (
    Interface,
    Lab,
    Space,
    dhcp_discover,
    dhcp_offer,
    dhcp_option,
    dns_addresses,
    dns_question,
    links,
    until,
)


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
    assert status["NoNewPrivs"] == "1"
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
