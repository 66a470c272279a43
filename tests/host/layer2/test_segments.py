"""One network on two hosts, several networks on one, and what is left of them."""

from __future__ import annotations

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import Segment
from compute_agent.contract.network import RemotePort
from compute_agent.network.bridges.segments import UnreachablePeerError
from compute_agent.network.kernel.names import service_mac
from compute_agent.virt.errors import RetryableHostError
from tests.host.lab import PATIENCE, Interface, Space, links, until
from tests.host.layer2.rack import Rack, document, interfaces


def pings(source: Interface, target: Interface, patience: int = int(PATIENCE)) -> bool:
    output = source.space.run("busybox", "ping", "-c1", f"-W{patience}", target.address, check=False)
    return " 0% packet loss" in output


def test_guests_of_one_network_reach_each_other_across_hosts_and_no_other_network(rack: Rack) -> None:
    one, two = rack.hosts
    ours, theirs = document(31), document(32)
    mine, here, there = (rack.plug(host, ours, number) for host, number in ((one, 1), (one, 2), (two, 3)))
    # The same range in another network, with the same addresses.
    others = [rack.plug(host, document(32, subnets=ours.subnets), number) for host, number in ((one, 1), (two, 4))]
    for interface in (mine, here, there, *others):
        interface.configure()
    assert pings(mine, here)
    assert pings(mine, there)
    assert pings(there, here)
    assert pings(others[0], others[1])
    assert not pings(mine, others[1], 1)  # 10.31.0.8 is there, but not in this network
    rack.forget(theirs)
    rack.clear()
    rack.forget(ours)
    assert [interfaces(host) for host in rack.hosts] == [set(), set()]


def test_the_forwarding_table_has_what_was_sent_and_nothing_else(rack: Rack) -> None:
    one, two = rack.hosts
    net = document(33)
    there = rack.plug(two, net, 3)
    rack.plug(one, net, 1)

    def table() -> set[str]:
        lines = one.inside.run("bridge", "fdb", "show", "dev", "vx33").splitlines()
        return {line.split(" link-netnsid")[0].strip() for line in lines if "permanent" not in line or " dst " in line}

    everybody = "00:00:00:00:00:00 dst 192.168.50.2"
    entries = {f"{there.port.mac_address} dst 192.168.50.2", f"{there.port.mac_address} master {net.bridge} static"}
    assert table() == {everybody} | entries
    one.process.network.apply(net, 90)  # nobody else any more
    assert table() == set()
    rack.forget(net)


def test_a_peer_that_cannot_be_sent_to_is_left_out_and_reported(rack: Rack) -> None:
    """An address that is none, of another IP version, of many machines, of this one: the others are reached."""
    one, two = rack.hosts
    net = document(35)
    there = rack.plug(two, net, 3)
    mine = rack.plug(one, net, 1)
    good = [each for each in one.process.network.documents() if each.subject_id == net.id]
    wrong = ["not an address; x", "2001:db8::1", "224.0.0.1", "0.0.0.0", "255.255.255.255", "127.0.0.1"]  # noqa: S104
    remote = [
        RemotePort(id=str(at), mac_address=f"fa:16:3e:99:00:{at:02x}", addresses=[], underlay=peer)
        for at, peer in enumerate(wrong)
    ]
    remote.append(
        RemotePort(id="there", mac_address=there.port.mac_address, addresses=[there.address], underlay=two.underlay)
    )
    changed = replace(net, peers=[*wrong, two.underlay], remote_ports=remote, shared_macs=["fa:16:3f:00:00:09"])
    with pytest.raises(UnreachablePeerError):
        one.process.network.apply(changed, good[0].generation + 100)
    table = one.inside.run("bridge", "fdb", "show", "dev", "vx35")
    assert {line.split("dst ")[1].split()[0] for line in table.splitlines() if "dst " in line} == {two.underlay}
    mine.configure()
    there.configure()
    assert pings(mine, there)
    rack.clear()
    rack.forget(net)


@pytest.mark.deep
def test_an_agent_that_restarts_leaves_devices_as_they_are(rack: Rack) -> None:
    one, _ = rack.hosts
    net = document(34)
    rack.plug(one, net, 1)
    before = one.inside.run("ip", "-o", "link", "show", "vx34")
    one.restart()
    assert one.inside.run("ip", "-o", "link", "show", "vx34") == before
    rack.forget(net)


@pytest.mark.deep
def test_a_bridge_that_went_is_made_again_with_its_guests(rack: Rack) -> None:
    one, two = rack.hosts
    net = document(35)
    here, there = rack.plug(one, net, 1), rack.plug(two, net, 2)
    for interface in (here, there):
        interface.configure()
    one.inside.run("ip", "link", "del", net.bridge)
    assert not pings(here, there, 1)
    assert f"bridge of network {net.id}" in one.process.network.check()
    until(lambda: pings(here, there, 1), "the new bridge")  # a guest that got no answer waits before it asks again
    rack.forget(net)


@pytest.mark.deep
def test_an_interface_that_was_taken_out_of_its_bridge_is_put_back(rack: Rack) -> None:
    one, _ = rack.hosts
    net = document(41)
    here, there = rack.plug(one, net, 1), rack.plug(one, net, 2)
    for interface in (here, there):
        interface.configure()
    one.inside.run("ip", "link", "set", here.port.tap, "nomaster")
    assert not pings(here, there, 1)
    assert one.process.network.check() == [f"bridge of network {net.id}"]
    until(lambda: pings(here, there, 1), "the interface in its bridge")
    assert one.process.network.check() == []
    rack.forget(net)


def test_a_network_that_is_down_passes_nothing(rack: Rack) -> None:
    one, _ = rack.hosts
    here, there = rack.plug(one, document(36), 1), rack.plug(one, document(36), 2)
    for interface in (here, there):
        interface.configure()
    rack.tell(document(36, enabled=False))
    assert not pings(here, there, 1)
    rack.tell(document(36))
    until(lambda: pings(here, there, 1), "the network that is up again")
    rack.forget(document(36))


@pytest.mark.parametrize(
    ("segment", "words"),
    [
        (Segment(type="flat", physical_network="dmz"), "not connected to the physical network dmz"),
        (Segment(type="flat", physical_network="lan"), "not connected to the physical network lan"),
        (Segment(type="gre", id=5), "no segments of type gre"),
        (Segment(type="vlan", id=5, physical_network="machine"), "no VLANs"),
    ],
)
def test_a_segment_that_the_host_does_not_have_is_refused_with_a_message(
    rack: Rack, segment: Segment, words: str
) -> None:
    one, _ = rack.hosts
    with pytest.raises(RetryableHostError, match=words):
        one.process.network.apply(document(37, segment=segment), 1)
    one.process.network.forget("network", document(37).id)
    assert interfaces(one) == set()


def test_a_flat_network_is_joined_with_a_bridge_of_the_machine_as_soon_as_that_is_there(rack: Rack) -> None:
    one, _ = rack.hosts
    net = document(38, segment=Segment(type="flat", physical_network="lan"))
    with pytest.raises(RetryableHostError, match="physical network lan"):
        one.process.network.apply(net, 1)
    machine = one.lab.machine
    machine.run("ip", "link", "add", "lan0", "type", "bridge")
    machine.run("ip", "addr", "add", "10.38.0.77/24", "dev", "lan0")
    machine.run("ip", "link", "set", "lan0", "up")
    assert "previous failures" in one.process.network.check()
    assert one.process.network.check() == []
    here = rack.plug(one, net, 1, announced=False)
    here.configure()
    assert " 0% packet loss" in here.space.run(
        "busybox", "ping", "-c1", f"-W{int(PATIENCE)}", "10.38.0.77", check=False
    )
    one.process.network.forget("network", net.id)
    rack.clear()
    assert interfaces(one) == set()
    assert not [name for name in links(machine) if name.startswith("nve")]


@pytest.mark.deep
def test_services_of_a_flat_network_are_each_hosts_own(rack: Rack) -> None:
    """They have one hardware address on all hosts, which the wire between them must not show."""
    one, two = rack.hosts
    net = document(39, segment=Segment(type="flat", physical_network="lan"))
    for host in rack.hosts:
        host.lab.machine.run("ip", "link", "add", "lan0", "type", "bridge")
        host.lab.machine.run("ip", "link", "set", "lan0", "up")
    wire = ("wire0", "netns", two.lab.machine.name)
    one.lab.machine.run("ip", "link", "add", "wire0", "type", "veth", "peer", "name", *wire)
    for host in rack.hosts:
        host.lab.machine.run("ip", "link", "set", "wire0", "master", "lan0", "up")
    here, there = rack.plug(one, net, 1), rack.plug(two, net, 2)
    for interface in (here, there):
        interface.configure()
    until(lambda: pings(here, there, 1), "the wire between the hosts")
    service = service_mac(net)
    for host, guest in ((one, here), (two, there)):
        before = known(host.inside, net.bridge, service)
        guest.space.run("ip", "neigh", "flush", "all")
        assert " 0% packet loss" in guest.space.run(
            "busybox", "ping", "-c2", f"-W{int(PATIENCE)}", "10.39.0.2", check=False
        )
        assert known(host.inside, net.bridge, service) == before != []
    rack.clear()
    rack.forget(net)


def known(space: Space, bridge: str, mac: str) -> list[str]:
    """Where a bridge has an address."""
    return [line for line in space.run("bridge", "fdb", "show", "br", bridge).splitlines() if mac in line]
