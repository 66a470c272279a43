"""Guests' leases and names, from the service namespace of each network."""

from __future__ import annotations

import os
import signal
import socket
import tempfile
import threading
from pathlib import Path

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import DhcpOption, HostRoute, Segment, SubnetRef
from compute_agent.contract.network import (
    FloatingIpDocument,
    NetworkDocument,
    RemotePort,
    RouterDocument,
    RouterInterface,
)
from compute_agent.network.kernel.names import link_local
from compute_agent.virt.errors import RetryableHostError
from tests.host.lab import PATIENCE, Interface, Space, dns_addresses, dns_question, processes_naming, until
from tests.host.layer2.rack import Machine, Rack, document, interfaces

FIP, ROUTER, OTHER = (f"{letter * 8}-0000-4000-8000-000000000000" for letter in "abc")
VARIABLES = "ip|mask|router|dns|domain|mtu|hostname|staticroutes|boot_file|bootfile|siaddr|serverid"
SCRIPT = f"""#!/bin/sh
[ "$1" = bound ] && env | grep -E '^({VARIABLES})=' >$OUT
exit 0
"""


def asks(interface: Interface, *wanted: str, tries: int = 120) -> dict[str, str]:
    """What DHCP tells the guest; nothing when it does not answer."""
    with tempfile.TemporaryDirectory() as folder:
        script, out = Path(folder, "script"), Path(folder, "out")
        script.write_text(SCRIPT.replace("$OUT", str(out)))
        script.chmod(0o700)
        options = [word for option in ("121", "26", *wanted) for word in ("-O", option)]
        command = [*f"busybox udhcpc -i eth0 -n -q -t {tries} -T 1 -s {script}".split(), *options]
        interface.space.run(*command, check=False)
        lines = out.read_text().splitlines() if out.exists() else []
        return dict(line.split("=", 1) for line in lines)


def named(interface: Interface, server: str, name: str) -> set[str]:
    """The addresses that a name server has for a name; nothing when it does not answer."""

    def ask() -> set[str]:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as client:
            client.settimeout(10)
            client.sendto(dns_question(name), (server, 53))
            try:
                return dns_addresses(client.recv(512))
            except TimeoutError:
                return set()

    return interface.space.do(ask)


def dnsmasq(host: Machine, net: NetworkDocument) -> int:
    path = host.lab.settings.state_dir / "network/networks" / net.id / "dhcp/dnsmasq.pid"
    return int(path.read_text())


def test_an_address_that_a_guest_takes_is_reported_once(rack: Rack) -> None:
    host, net = rack.hosts[0], document(41)
    guest = rack.plug(host, net, 1)
    network = host.process.network
    assert network.leases() == []
    asks(guest)
    (lease,) = until(network.leases, "the lease is told")
    assert (lease.port_id, lease.address, lease.held) == (guest.port.id, "10.41.0.5", True)
    assert network.leases() == []
    os.kill(dnsmasq(host, net), signal.SIGKILL)
    until(network.check, "DHCP is back")
    assert until(network.leases, "the lease is told again") == [lease]


def test_each_guest_gets_its_address_from_its_own_host(rack: Rack) -> None:
    one, two = rack.hosts
    net = document(41)
    (subnet,) = net.subnets
    route = HostRoute(destination="172.16.0.0/12", next_hop="10.41.0.77")
    net = replace(net, subnets=[replace(subnet, gateway="10.41.0.1", host_routes=[route])])
    here, there = rack.plug(one, net, 1), rack.plug(two, net, 2)
    answer = asks(here)
    assert answer == {
        "ip": "10.41.0.5", "mask": "24", "router": "10.41.0.1", "dns": "10.41.0.2", "domain": "novalocal",
        "mtu": "1450", "hostname": "web-1", "serverid": "10.41.0.2", "siaddr": "10.41.0.2",
        "staticroutes": "172.16.0.0/12 10.41.0.77 169.254.169.254/32 10.41.0.2 0.0.0.0/0 10.41.0.1",
    }  # fmt: skip
    assert asks(there)["ip"] == "10.41.0.6"
    rack.forget(net)


@pytest.mark.deep
def test_a_server_that_has_given_leases_takes_more_guests(rack: Rack) -> None:
    """The same process, when nobody is told something of its own."""
    one, _ = rack.hosts
    net = document(45)
    assert asks(rack.plug(one, net, 1))["ip"] == "10.45.0.5"
    server = dnsmasq(one, net)
    assert asks(rack.plug(one, net, 2))["ip"] == "10.45.0.6"
    assert dnsmasq(one, net) == server
    option = DhcpOption(name="bootfile-name", value="image.efi")
    third = rack.plug(one, net, 3, options=[option], dns_domain="p1.novalocal")
    for _ in range(2):
        answer = asks(third, "67")
        assert (answer["ip"], answer["domain"], answer["hostname"]) == ("10.45.0.7", "p1.novalocal", "web-3")
    server = dnsmasq(one, net)
    fourth = rack.plug(one, net, 4)
    assert [asks(each)["ip"] for each in (fourth, third)] == ["10.45.0.8", "10.45.0.7"]
    assert dnsmasq(one, net) == server
    assert one.process.network.check() == []
    rack.forget(net)


@pytest.mark.deep
def test_overlapping_ranges_are_answered_apart(rack: Rack) -> None:
    one, _ = rack.hosts
    ours, theirs = document(42), document(43, subnets=document(42).subnets)
    theirs = replace(theirs, service=replace(theirs.service, addresses=["10.42.0.2"]), dns_domain="theirs.example")
    here, there = rack.plug(one, ours, 1, hostname="ours"), rack.plug(one, theirs, 1, hostname="theirs")
    assert [(asks(each)["ip"], asks(each)["domain"]) for each in (here, there)] == [
        ("10.42.0.5", "novalocal"),
        ("10.42.0.5", "theirs.example"),
    ]
    for each in (here, there):
        each.configure()
    assert named(here, "10.42.0.2", "ours.novalocal") == {"10.42.0.5"}
    assert named(there, "10.42.0.2", "ours.novalocal") == set()
    for net in (ours, theirs):
        rack.forget(net)


def test_names_of_guests_on_other_hosts_are_known_as_long_as_they_are_there(rack: Rack) -> None:
    one, two = rack.hosts
    net = document(44)
    here = rack.plug(one, net, 1)
    rack.plug(one, net, 4, dns_name="web")
    rack.plug(two, net, 2, hostname="there")
    rack.plug(two, net, 3, hostname="shared", dns_domain="p1.novalocal")
    here.configure()
    assert named(here, "10.44.0.2", "there.novalocal") == {"10.44.0.6"}
    assert named(here, "10.44.0.2", "there") == {"10.44.0.6"}
    assert named(here, "10.44.0.2", "web.novalocal") == {"10.44.0.8"}
    assert named(here, "10.44.0.2", "web-4.novalocal") == set()
    assert named(here, "10.44.0.2", "shared.p1.novalocal") == {"10.44.0.7"}
    assert named(here, "10.44.0.2", "shared.novalocal") == set()
    one.process.network.apply(net, 90)
    assert until(lambda: not named(here, "10.44.0.2", "there.novalocal"), "the end of the name")
    rack.forget(net)


@pytest.mark.deep
def test_hundreds_of_guests_on_one_network(rack: Rack) -> None:
    one, _ = rack.hosts
    subnet = SubnetRef(id="00000056-0000-4000-8000-00000000aaaa", cidr="10.56.0.0/16")
    net = document(56, subnets=[subnet])
    here = rack.plug(one, net, 1)
    remote = [
        RemotePort(
            id=f"{number:08d}-0000-4000-8000-0000000000aa",
            mac_address=f"fa:16:3e:56:{number >> 8:02x}:{number & 255:02x}",
            addresses=[f"10.56.{1 + number // 250}.{1 + number % 250}"],
            underlay="192.168.50.2",
            hostname=f"vm-{number}",
        )
        for number in range(300)
    ]
    one.process.network.apply(replace(net, peers=["192.168.50.2"], remote_ports=remote), 90)
    here.configure()
    for number in (0, 150, 299):
        assert named(here, "10.56.0.2", f"vm-{number}.novalocal") == set(remote[number].addresses)
    assert asks(here)["ip"] == "10.56.0.5"
    known = one.inside.run("bridge", "fdb", "show", "br", net.bridge)
    assert all(each.mac_address in known for each in remote)
    rack.forget(net)


def test_other_names_are_asked_for_through_the_machine_and_inner_ones_are_not_reported(rack: Rack) -> None:
    one, _ = rack.hosts
    with NameServer(rack.beside("192.168.50.99/24"), "192.168.50.99") as server:
        net = document(45)
        (subnet,) = net.subnets
        net = replace(net, subnets=[replace(subnet, dns_nameservers=["192.168.50.99"])])
        here = rack.plug(one, net, 1)
        assert asks(here)["dns"] == "192.168.50.99"
        here.configure()
        assert named(here, "10.45.0.2", "example.com") == {"93.184.215.14"}
        assert server.asked_by == {"192.168.50.1"}
        server.answer = "192.168.50.9"
        assert named(here, "10.45.0.2", "inner.example.com") == set()
        # The service namespace is no way out.
        here.space.run("ip", "route", "replace", "192.168.50.0/24", "via", "10.45.0.2")
        assert not here.space.connects("192.168.50.99", 53, 0.5)
        rack.forget(net)


class NameServer:
    """A name server that knows every name."""

    def __init__(self, space: Space, address: str) -> None:
        self.answer = "93.184.215.14"
        self.asked_by: set[str] = set()
        self._socket = space.do(lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
        self._socket.bind((address, 53))
        self._listener = space.listens(address, 53)
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> NameServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._socket.sendto(b"", self._socket.getsockname())
        self._thread.join()
        self._socket.close()
        self._listener.close()

    def _serve(self) -> None:
        while True:
            question, peer = self._socket.recvfrom(512)
            if not question:
                return
            self.asked_by.add(peer[0])
            record = b"\xc0\x0c\x00\x01\x00\x01\x00\x00\x00\x3c\x00\x04" + socket.inet_aton(self.answer)
            end = question.index(b"\0", 12) + 5
            answer = question[:2] + b"\x81\x80\x00\x01\x00\x01\x00\x00\x00\x00" + question[12:end] + record
            self._socket.sendto(answer, peer)


def test_a_ports_own_options_reach_it_alone_and_one_that_is_no_good_spoils_nothing(rack: Rack) -> None:
    one, _ = rack.hosts
    net = document(46)
    options = [
        DhcpOption(name="bootfile-name", value="pxe.0"),
        DhcpOption(name="router", value="nowhere"),
        DhcpOption(name="router", value=""),
        DhcpOption(name="my own", value="x"),
        DhcpOption(name="mtu\ndhcp-script=/bin/sh", value="x"),
        DhcpOption(name="ntp-server", value="10.46.0.9\nlog-queries"),
    ]
    here = rack.plug(one, net, 1, options=options)
    other = rack.plug(one, net, 2)
    assert asks(here, "67").get("bootfile") == "pxe.0"
    assert "bootfile" not in asks(other, "67")
    rack.forget(net)


def test_a_server_that_was_killed_is_back_with_its_leases(rack: Rack) -> None:
    one, _ = rack.hosts
    net = document(47)
    here = rack.plug(one, net, 1)
    os.kill(dnsmasq(one, net), signal.SIGKILL)
    assert f"DHCP of network {net.id}" in one.process.network.check()
    assert one.process.network.check() == []
    assert asks(here)["ip"] == "10.47.0.5"
    rack.forget(net)


@pytest.mark.deep
def test_services_that_were_taken_away_are_made_again(rack: Rack) -> None:
    one, _ = rack.hosts
    net = document(48)
    here = rack.plug(one, net, 1)
    one.inside.run("ip", "netns", "del", f"{one.lab.settings.netns}-n-{net.id}")
    assert one.process.network.check()
    assert asks(here)["ip"] == "10.48.0.5"
    rack.forget(net)


def test_without_dhcp_there_is_no_server_and_metadata_all_the_same(rack: Rack) -> None:
    one, _ = rack.hosts
    net = document(49, service=None)
    (subnet,) = net.subnets
    net = replace(net, subnets=[replace(subnet, enable_dhcp=False)])
    here = rack.plug(one, net, 1)
    assert asks(here, tries=2) == {}
    state = one.lab.settings.state_dir
    assert not [line for line in processes_naming(state) if net.id in line]
    here.configure()
    here.space.run("ip", "route", "add", "169.254.169.254/32", "dev", "eth0")
    assert " 0% packet loss" in here.space.run(
        "busybox", "ping", "-c1", f"-W{int(PATIENCE)}", "169.254.169.254", check=False
    )
    rack.forget(net)


@pytest.mark.deep
def test_packets_too_small_for_ipv6_stop_no_agent(rack: Rack) -> None:
    one, _ = rack.hosts
    net = document(52, mtu=1000)
    here = rack.plug(one, net, 1)
    assert asks(here)["ip"] == "10.52.0.5"
    one.restart()
    assert one.process.network.warnings() == []
    assert one.process.network.check() == []
    assert asks(here)["ip"] == "10.52.0.5"
    rack.forget(net)


@pytest.mark.deep
def test_a_network_that_cannot_be_keeps_no_agent_from_its_other_guests(rack: Rack) -> None:
    one, _ = rack.hosts
    net, lost = document(53), document(54, segment=Segment(type="flat", physical_network="dmz"))
    here = rack.plug(one, net, 1)
    with pytest.raises(RetryableHostError, match="physical network dmz"):
        one.process.network.apply(lost, 1)
    one.inside.run("nft", "delete", "table", "inet", "novella_filters")
    one.inside.run("ip", "link", "del", net.bridge)
    one.restart()
    assert "inet novella_filters" in one.inside.run("nft", "list", "tables")
    assert asks(here)["ip"] == "10.53.0.5"
    assert "dmz" in one.process.network.warnings()[0]
    one.inside.run("nft", "delete", "table", "inet", "novella_filters")
    with pytest.raises(RetryableHostError, match="physical network dmz"):
        one.process.network.check()
    assert "inet novella_filters" in one.inside.run("nft", "list", "tables")
    one.process.network.forget("network", lost.id)
    rack.forget(net)


def test_the_namespace_goes_with_its_last_guest(rack: Rack) -> None:
    one, two = rack.hosts
    net = document(50)
    rack.plug(one, net, 1)
    space = f"-n-{net.id}"
    assert [name.removeprefix(one.lab.settings.netns or "") for name in rack.traces() if space in name] == [space]
    rack.clear()
    assert [name for name in rack.traces() if space in name] == []
    rack.forget(net)
    assert [interfaces(host) for host in (one, two)] == [set(), set()]
    assert not [line for line in processes_naming(one.lab.settings.state_dir) if "dnsmasq" in line]


def test_an_agent_that_restarts_under_traffic_loses_no_packet(rack: Rack) -> None:
    one, two = rack.hosts
    net = document(51)
    here, there = rack.plug(one, net, 1), rack.plug(two, net, 2)
    for each in (here, there):
        each.configure()
    before = dnsmasq(one, net)
    target = there.address
    errors: list[str] = []

    def ping() -> None:
        errors.append(here.space.run("busybox", "ping", "-c", "60", "-i", "0.05", target, check=False))

    pinging = threading.Thread(target=ping)
    pinging.start()
    one.restart()
    two.restart()
    pinging.join()
    assert "60 packets transmitted, 60 packets received" in errors[0]
    assert dnsmasq(one, net) == before
    rack.forget(net)


def test_a_subnet_may_tell_of_no_name_server(rack: Rack) -> None:
    one, _ = rack.hosts
    net = document(56)
    (subnet,) = net.subnets
    net = replace(net, subnets=[replace(subnet, dns_nameservers=["0.0.0.0"])])  # noqa: S104 - Neutron's word for none
    answer = asks(rack.plug(one, net, 1))
    assert answer["ip"] == "10.56.0.5"
    assert "dns" not in answer
    rack.forget(net)


def test_guests_of_ipv6_get_what_the_subnet_says(rack: Rack) -> None:
    one, _ = rack.hosts
    net = document(52)
    stateful = SubnetRef(
        id="six", cidr="fd00:52::/64", ipv6_ra_mode="dhcpv6-stateful", ipv6_address_mode="dhcpv6-stateful"
    )
    slaac = SubnetRef(id="slaac", cidr="fd00:53::/64", ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
    service = replace(net.service, addresses=["10.52.0.2", "fd00:52::2", "fd00:53::2"])
    net = replace(net, subnets=[*net.subnets, stateful, slaac], service=service)
    here = rack.plug(one, net, 1)

    def addresses() -> str:
        return here.space.run("ip", "-6", "addr", "show", "dev", "eth0", "scope", "global")

    here.space.run("sysctl", "-qw", "net.ipv6.conf.eth0.accept_ra=2")
    here.space.run("ip", "link", "set", "eth0", "down")
    here.space.run("ip", "link", "set", "eth0", "up")
    assert until(lambda: "fd00:53:0:0:" in addresses() or "fd00:53::" in addresses(), "the address from the prefix")
    assert "default" not in here.space.run("ip", "-6", "route")  # no router has been announced
    rack.forget(net)


@pytest.mark.deep
def test_guests_ask_for_their_metadata_where_their_network_is_served(rack: Rack) -> None:
    one, _ = rack.hosts
    net = document(53)
    here = rack.plug(one, net, 1)
    here.configure()
    here.space.run("ip", "route", "add", "169.254.169.254/32", "dev", "eth0")
    six = f"fe80::a9fe:a9fe%{here.space.do(lambda: socket.if_nametoindex('eth0'))}"
    own = link_local(here.port.mac_address)
    assert here.space.connects("169.254.169.254", 80)
    until(lambda: "tentative" not in here.space.run("ip", "-6", "addr", "show", "dev", "eth0"), "the guest's address")
    assert here.space.do(lambda: socket.create_connection((six, 80), PATIENCE).close()) is None
    one.restart()
    assert here.space.connects("169.254.169.254", 80)
    assert not here.space.connects("10.53.0.2", 80, 0.5)
    ((spec, _),) = one.guests
    for address in ("10.53.0.5", own):
        result = one.process.network.interface_at(net.id, address)
        assert (result.uuid, result.port_id, result.floating) == (spec.uuid, here.port.id, "")
    assert one.process.network.interface_at(net.id, "10.53.0.6") is None
    assert one.process.network.interface_at(document(54).id, "10.53.0.5") is None
    rack.forget(net)


@pytest.mark.deep
def test_a_guest_knows_its_floating_address(rack: Rack) -> None:
    one, _ = rack.hosts
    net, network = document(55), one.process.network
    here = rack.plug(one, net, 1)
    leg = RouterInterface(port_id=FIP, network_id=net.id, mac_address="fa:16:3e:55:00:fe", addresses=["10.55.0.1/24"])
    network.apply(RouterDocument(id=ROUTER, name="r", interfaces=[leg]), 1)
    for number, (fixed, router) in enumerate([("10.55.0.6", ROUTER), ("10.55.0.5", OTHER), ("10.55.0.5", ROUTER)], 1):
        address = f"198.51.100.{number}"
        network.apply(
            FloatingIpDocument(id=FIP, address=address, network_id=OTHER, router_id=router, fixed_address=fixed), number
        )
        assert network.interface_at(net.id, here.address).floating == (address if number == 3 else "")
    network.forget("floating_ip", FIP)
    network.forget("router", ROUTER)
    rack.forget(net)


@pytest.mark.deep
def test_a_tunnel_leads_to_the_guest_of_its_own_network(rack: Rack) -> None:
    """Two networks have the same range, and two guests the same address."""
    one, _ = rack.hosts
    ours = document(58)
    theirs = document(59, subnets=ours.subnets, service=replace(document(59).service, addresses=["10.58.0.2"]))
    for net, word in ((ours, b"ours"), (theirs, b"theirs")):
        guest = rack.plug(one, net, 1)
        guest.configure()
        (spec,) = [spec for spec, each in one.guests if each is guest]
        with guest.space.listens(guest.address, 22) as listening:
            connection, target = one.process.network.guest_socket(spec.uuid, guest.port.id, guest.address, 22)
            with connection:
                connection.settimeout(PATIENCE)
                connection.connect(target)
                served, (source, _) = listening.accept()
                with served:
                    served.sendall(word)
                    assert (connection.recv(10), source) == (word, "10.58.0.2")
    for net in (ours, theirs):
        rack.forget(net)
