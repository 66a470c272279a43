"""Several real hosts on one machine, as bin/up makes them: packets between guests and the world, faults, none left."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from compute_agent.network.kernel import names, namespace
from tests.e2e.conftest import Key
from tests.host.lab import Space
from tests.support.command_line import batch
from tests.support.guests import Clouds, Guest, missing
from tests.support.liars import hears, lies, tells, truths
from tests.support.one_machine import OneMachine, wait_for
from tests.support.streams import streaming
from tests.support.town import Town, launch, says
from tests.support.traces import made_of, traces
from tools.bench.cloud import Client, Cloud
from tools.bench.networking.command import delivery_seconds
from tools.bench.networking.rules import effect
from up import health
from up.processes import command_line
from up.switch import processes_in

pytestmark = [
    pytest.mark.deep,
    pytest.mark.libvirt,
    pytest.mark.compat,
    pytest.mark.slow,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]
PAIR = ("first", "second")
"""The two guests of one network on two hosts."""
STREAM = 9100
"""The TCP port of connections that last."""
COUNTS = f"""
(number=0
 while [ ! -e /tmp/stop ]; do echo $number; number=$((number+1)); sleep 0.1; done
 echo $number >/tmp/sent) | nc $1 {STREAM}
"""
"""A guest's program that sends numbers to another guest, and in the end says how many."""
TAKES = "#!/bin/sh\ncat >/tmp/got"
LEASES = r"""
printf '#!/bin/sh\necho $1 $ip $dns >>/tmp/leases\n' >/tmp/told; chmod +x /tmp/told; : >/tmp/leases
until_told() { for again in $(seq 300); do grep -q $1 /tmp/leases && return; sleep 0.1; done; }
udhcpc -f -t 5 -T 1 -i eth0 -s /tmp/told </dev/null >/dev/null 2>&1 &
until_told bound; kill -USR1 $!; until_told renew; kill $!; grep -v deconfig /tmp/leases
"""
"""A guest's program that takes a lease and renews it, and leaves its interface as it is."""
CREATE = ("server", "create", "--image", "novella-guest", "--flavor", "m1.nano", "--network", "demo-net", "--wait")


@pytest.fixture(scope="module")
def cloud() -> Iterator[OneMachine]:
    folder = Path(tempfile.mkdtemp(prefix="nv-hosts-"))
    cloud = OneMachine(folder / "data", hosts=2)
    try:
        cloud.up()
        yield cloud
    finally:
        cloud.end()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="module")
def before(cloud: OneMachine) -> set[str]:
    """What is in the hosts' namespaces while there is no guest."""
    return traces(cloud.netns)


@pytest.fixture(scope="module")
def clouds(cloud: OneMachine, tmp_path_factory: pytest.TempPathFactory) -> Clouds:
    """Two projects in which the administrator may say on which host a server is."""
    roles = [f"role add --project {name} --user admin admin" for name in ("demo", "other")]
    batch(cloud, "project create other", *roles)
    return Clouds.write(cloud, tmp_path_factory.mktemp("clouds") / "clouds.yaml", "demo", "other")


@pytest.fixture(scope="module")
def town(cloud: OneMachine, before: set[str], clouds: Clouds, key: Key) -> Iterator[Town]:
    assert before
    with clouds.connect("demo") as sdk, clouds.connect("other") as other, tempfile.TemporaryDirectory() as folder:
        net = sdk.network
        public = net.find_network("public")
        router = net.create_router(name="router", external_gateway_info={"network_id": public.id})
        slaac = {"ip_version": 6, "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}
        made = []
        for name, more in (("here", {"cidr": "fd00:50::/64", **slaac}), ("there", None)):
            network = net.create_network(name=name)
            subnets = [{"ip_version": 4, "cidr": f"10.{50 + len(made)}.0.0/24"}, *([more] if more else [])]
            for subnet in subnets:
                row = net.create_subnet(network_id=network.id, name=name, **subnet)
                net.add_interface_to_router(router, subnet_id=row.id)
            made.append(network)
        theirs = other.network.create_network(name="theirs")
        other.network.create_subnet(network_id=theirs.id, ip_version=4, cidr="10.50.0.0/24", name="theirs")
        sdk.compute.create_keypair(name="packets", public_key=key.public.read_text())
        places = {
            "first": (sdk, "demo", made[0], "10.50.0.11", 1),
            "second": (sdk, "demo", made[0], "10.50.0.12", 2),
            "third": (sdk, "demo", made[1], "10.51.0.13", 2),
            "stranger": (other, "other", theirs, "10.50.0.11", 1),
        }
        guests = {
            name: Guest(clouds, project, launch(where, name, network.id, address, host), address, key.private,
                        Path(folder))
            for name, (where, project, network, address, host) in places.items()
        }  # fmt: skip
        for name, guest in guests.items():
            says(places[name][0], guest, "=== Novella guest: ")
        floating = net.create_ip(floating_network_id=public.id)
        yield Town(sdk, **guests, floating=floating, outside=Space(cloud.switch.world))
        for guest in guests.values():
            guest.hang_up()


def hosts_of(cloud: OneMachine) -> dict[str, tuple[str, str]]:
    """State and underlay address of each host, as an administrator sees them."""
    rows = cloud.openstack_json("hypervisor", "list", "--long", cloud="admin")
    return {row["Hypervisor Hostname"]: (row["State"], row["Host IP"]) for row in rows}


def servers_of(cloud: OneMachine) -> dict[str, dict[str, Any]]:
    """Every server with its host, by name."""
    rows = cloud.openstack_json("server", "list", "--all-projects", "--long", cloud="admin")
    return {row["Name"]: row for row in rows}


def guests_of(cloud: OneMachine, number: int) -> set[int]:
    """The QEMU processes of a host."""
    inside = processes_in([cloud.switch.guests(number)])
    return {pid for pid in inside if command_line(pid).startswith("/usr/bin/qemu-system")}


def started(cloud: OneMachine, *names: str) -> None:
    """Start servers that are off, and wait until they run."""
    for name in names:
        cloud.openstack("server", "start", name)
    wait_for("they run", lambda: {servers_of(cloud)[name]["Status"] for name in names} == {"ACTIVE"})


def test_each_host_enrols_from_its_namespace_and_boots_guests_there(cloud: OneMachine, town: Town) -> None:
    assert hosts_of(cloud) == {"host-1": ("up", "192.0.2.1"), "host-2": ("up", "192.0.2.2")}
    result = servers_of(cloud)
    assert {name: result[name]["Host"] for name in town.guests} == {
        "first": "host-1", "second": "host-2", "third": "host-2", "stranger": "host-1",
    }  # fmt: skip
    assert [len(guests_of(cloud, number)) for number in (1, 2)] == [2, 2]
    for number in (1, 2):  # the agents have left no way to this machine's own network
        outer = cloud.switch.machine(number)
        assert subprocess.check_output(["ip", "-n", outer, "route", "show", "default"], text=True) == ""


def test_guests_reach_each_other_across_hosts_and_through_a_router(town: Town) -> None:
    town.first.reaches(town.second.address)
    town.first.reaches(town.third.address)
    town.second.reaches(town.third.address)
    (six,) = (each["ip_address"] for each in town.port_of(town.second).fixed_ips if ":" in each["ip_address"])
    assert six in town.second.run("ip -6 -o addr show dev eth0"), "the guest has made the address that was foretold"
    town.first.reaches(six)


def test_projects_with_the_same_addresses_never_meet(town: Town) -> None:
    """Each guest is told of itself, whatever address it shares with another one on its host."""
    assert town.first.address == town.stranger.address
    for name, guest in town.guests.items():
        result = guest.metadata()
        assert (result["uuid"], result["name"]) == (guest.server, name)
    for address in (town.second.address, town.third.address, "203.0.113.1"):
        assert not town.stranger.pings(address), address
    town.third.reaches("203.0.113.1")


def test_a_floating_ip_follows_a_rule_and_the_guest_it_is_moved_to(town: Town) -> None:
    net, address = town.sdk.network, town.floating.floating_ip_address
    net.update_ip(town.floating, port_id=town.port_of(town.first).id)
    wait_for("it answers", town.answers, 30)
    assert town.page(address) == "", "the default group lets nobody in there"
    (group,) = net.security_groups(name="default", project_id=town.sdk.current_project_id)
    rule = net.create_security_group_rule(
        security_group_id=group.id, direction="ingress", protocol="tcp", port_range_min=8080, port_range_max=8080
    )
    wait_for("the rule opens it", lambda: town.page(address) == "first", 30)
    with town.outside.listens("203.0.113.1", 9000) as server:
        server.settimeout(30)
        town.first.run("nc 203.0.113.1 9000 </dev/null >/dev/null 2>&1 &")
        link, (source, _) = server.accept()
        link.close()
    assert source == address, "outside it is the source of what the guest sends"
    net.update_ip(town.floating, port_id=town.port_of(town.second).id)
    wait_for("it leads to the other host", lambda: town.page(address) == "second", 30)
    net.delete_security_group_rule(rule)
    wait_for("nobody is let in", lambda: town.page(address) == "", 30)
    wait_for("it answers still", town.answers, 30)


def test_single_ports_are_forwarded_to_several_guests(town: Town) -> None:
    net = town.sdk.network
    (group,) = net.security_groups(name="default", project_id=town.sdk.current_project_id)
    requested = {"direction": "ingress", "protocol": "tcp", "port_range_min": 8080, "port_range_max": 8080}
    rule = net.create_security_group_rule(security_group_id=group.id, **requested)
    shared = net.create_ip(floating_network_id=town.floating.floating_network_id)
    forwardings = [
        net.create_floating_ip_port_forwarding(
            shared, protocol="tcp", external_port=number, internal_port=8080, internal_ip_address=guest.address,
            internal_port_id=town.port_of(guest).id,
        )
        for number, guest in ((8001, town.first), (8003, town.third))
    ]  # fmt: skip
    for number, name in ((8001, "first"), (8003, "third")):
        wait_for(f"{number} leads to {name}", lambda: town.page(shared.floating_ip_address, number) == name, 30)  # noqa: B023
    assert town.page(shared.floating_ip_address) == ""
    for forwarding in forwardings:
        net.delete_floating_ip_port_forwarding(shared, forwarding)
    net.delete_ip(shared)
    wait_for("it leads nowhere", lambda: town.page(shared.floating_ip_address, 8001) == "", 30)
    net.delete_security_group_rule(rule)


def test_a_port_is_plugged_into_a_running_guest_and_taken_out(town: Town) -> None:
    net, guest = town.sdk.network, town.first
    network = net.find_network("there")
    made = town.sdk.compute.create_server_interface(guest.server, net_id=network.id)
    wait_for("the guest sees it", lambda: "eth1" in guest.run("ls /sys/class/net"))
    assert made.mac_addr in guest.run("cat /sys/class/net/eth1/address")
    guest.run("ip link set eth1 up && udhcpc -q -n -t 20 -T 1 -i eth1 -s /etc/udhcpc.script >/dev/null 2>&1")
    assert f"{made.fixed_ips[0]['ip_address']}/24" in guest.run("ip -4 -o addr show dev eth1")
    wait_for("the other one answers", lambda: guest.pings(town.third.address, "eth1"), 30)
    town.sdk.compute.delete_server_interface(made.port_id, server=guest.server)
    wait_for("the guest has it no more", lambda: not guest.has("/sys/class/net/eth1"))
    guest.reaches(town.third.address)


def test_no_lie_of_a_guest_is_heard_on_another_host(town: Town) -> None:
    """ARP, neighbour discovery, DHCP and router advertisements, as another one and as the network itself."""
    liar, victim = (town.port_of(guest) for guest in (town.first, town.second))
    honest, lying = truths(liar), lies(liar, victim)
    with hears(town.second) as heard:
        tells(town.first, [*lying.values(), *honest.values()])
        wait_for("the truth is heard", lambda: heard(honest) == set(honest), 30)
        assert heard(lying) == set()


def test_what_is_measured_of_rules_happens_on_real_hosts(cloud: OneMachine, town: Town) -> None:
    """``bin/bench network`` on this cloud, one change each."""
    net = town.sdk.network
    net.update_ip(town.floating, port_id=town.port_of(town.second).id)
    measured = Cloud(cloud.data, 0)
    measured.port = cloud.port
    (group,) = net.security_groups(name="default", project_id=town.sdk.current_project_id)
    before = {rule["id"] for rule in group.security_group_rules}
    wait_for("it answers", town.answers, 30)
    with contextlib.closing(Client(measured)) as client:
        assert effect(client, group.id, cloud.switch.world, (town.floating.floating_ip_address, 9999)) > 0
        assert len(delivery_seconds(measured, client, town.second.server, 1)) == 1
    for rule in net.security_group_rules(security_group_id=group.id):
        if rule.id not in before:
            net.delete_security_group_rule(rule)


def answers_of(guest: Guest, neighbours: dict[str, Guest]) -> dict[str, Any]:
    """What a guest gets from its host's services, and what it is told over new connections to its neighbours."""
    leases = [line.split() for line in guest.run(LEASES).splitlines()]
    server = leases[0][2]  # the guest itself may ask another one, that of the interface it had last
    pages = {
        name: guest.run(f"timeout 20 wget -q -O - http://{each.address}:8080/") for name, each in neighbours.items()
    }
    return {
        "leases": [each[:2] for each in leases],
        "id": guest.metadata()["uuid"],
        "names": {name for name in PAIR if f"Name:\t{name}." in guest.run(f"nslookup {name}.novalocal {server}")},
        "pages": pages,
    }


@contextmanager
def without_portal(cloud: OneMachine) -> Iterator[None]:
    """Take web and worker away for as long as the block lasts: the supervisor, which stands still, starts none."""
    run = cloud.runs[-1]
    services = [run.service(word) for word in ("manage.py web", "qworker")]
    os.kill(run.process.pid, signal.SIGSTOP)
    try:
        for leader in services:
            os.killpg(leader, signal.SIGKILL)
        wait_for("nobody answers", lambda: health.ask(cloud.port) is None)
        yield
    finally:
        os.kill(run.process.pid, signal.SIGCONT)


def test_guests_are_served_while_there_is_no_portal(cloud: OneMachine, town: Town) -> None:
    """Leases, names, metadata and new connections come from the hosts alone; the portal's return changes nothing."""
    floating = town.floating.floating_ip_address
    town.sdk.network.update_ip(town.floating, port_id=town.port_of(town.second).id)
    wait_for("it answers", town.answers, 30)
    town.second.run(f"setsid nc -l -p {STREAM} -e cat </dev/null >/dev/null 2>&1 &")
    network = str(town.sdk.network.find_network("here").id)
    pair = {
        name: replace(guest, beside=names.namespace_name(cloud.switch.guests(number), names.SERVICE, network))
        for number, (name, guest) in enumerate([("first", town.first), ("second", town.second)], 1)
    }
    for guest in town.guests.values():
        guest.hang_up()
    with town.let_in(8080), town.let_in(STREAM), streaming(town.dial(STREAM)) as stream:
        wait_for("the rule opens it", lambda: town.page(floating) == "second", 30)
        before = made_of(cloud.netns)
        with without_portal(cloud):
            for name, guest in pair.items():
                neighbours = {other: town.guests[other] for other in (*PAIR, "third") if other != name}
                assert answers_of(guest, neighbours) == {
                    "leases": [["bound", guest.address], ["renew", guest.address]],
                    "id": guest.server,
                    "names": set(PAIR),
                    "pages": {other: f"{other}\n" for other in neighbours},
                }
                guest.hang_up()
            assert town.page(floating) == "second"
            stream.moves()
        wait_for("the portal is back", lambda: health.ask(cloud.port) is not None)
        wait_for("both hosts are back", lambda: {state for state, _ in hosts_of(cloud).values()} == {"up"})
        stream.moves()
        assert made_of(cloud.netns) == before
    wait_for("the hosts hear of changes again", lambda: town.page(floating) == "", 30)


def test_no_packet_or_connection_is_lost_while_agents_and_portal_are_started_again(
    cloud: OneMachine, town: Town
) -> None:
    """Agents that are killed, then everything that bin/up runs; QEMU goes on.  A rule comes and goes, too."""
    running = [guests_of(cloud, number) for number in (1, 2)]
    assert [len(each) for each in running] == [2, 2]
    town.sdk.network.update_ip(town.floating, port_id=town.port_of(town.second).id)
    wait_for("it answers", town.answers, 30)
    targets = {"across": town.second.address, "routed": town.third.address}
    for name, address in targets.items():
        town.first.run(f"setsid ping -i 0.2 {address} </dev/null >/tmp/{name} 2>&1 &")
    ping = ["busybox", "ping", "-i", "0.2", town.floating.floating_ip_address]
    inwards = subprocess.Popen(["ip", "netns", "exec", cloud.switch.world, *ping], stdout=subprocess.PIPE, text=True)
    town.third.run(f"echo '{TAKES}' >/tmp/take; chmod +x /tmp/take")
    town.third.run(f"setsid nc -l -p {STREAM} -e /tmp/take </dev/null >/dev/null 2>&1 &")
    town.first.run(
        f"echo '{COUNTS}' >/tmp/count; setsid sh /tmp/count {town.third.address} </dev/null >/dev/null 2>&1 &"
    )
    town.second.run(f"setsid nc -l -p {STREAM} -e cat </dev/null >/dev/null 2>&1 &")
    with town.let_in(STREAM), streaming(town.dial(STREAM)) as stream:
        agents = {number: agent_of(cloud, number) for number in (1, 2)}
        for agent in agents.values():
            os.kill(agent, signal.SIGKILL)
        stream.moves()
        for number, agent in agents.items():
            wait_for("an agent takes over", lambda: agent_of(cloud, number) not in (0, agent))  # noqa: B023
        for guest in (town.first, town.second):  # the way to a guest's shell leads through its agent
            guest.hang_up()
            wait_for("it is reached", lambda: guest.run("echo back", check=False) == "back\n")  # noqa: B023
        stream.moves()
        cloud.runs[-1].stop(signal.SIGINT)
        assert [guests_of(cloud, number) for number in (1, 2)] == running
        stream.moves()
        cloud.up()
        wait_for("both hosts are back", lambda: {state for state, _ in hosts_of(cloud).values()} == {"up"})
        stream.moves()
    assert [guests_of(cloud, number) for number in (1, 2)] == running
    inwards.send_signal(signal.SIGINT)
    outputs = {"inwards": inwards.communicate(timeout=30)[0]}
    for guest in (town.first, town.third):
        guest.hang_up()
    town.first.run("killall -INT ping; touch /tmp/stop; sleep 1", check=False)
    outputs |= {name: town.first.run(f"cat /tmp/{name}") for name in targets}
    for name, words in outputs.items():
        answered, lost = missing(words)
        assert (answered > 20, lost) == (True, []), (name, words)
    wait_for("all is sent", lambda: town.first.run("cat /tmp/sent", check=False) != "", 30)
    sent = int(town.first.run("cat /tmp/sent"))
    assert sent > 20
    expected = [str(number) for number in range(sent)]
    wait_for("all has come, in order", lambda: town.third.run("cat /tmp/got").split() == expected, 30)


def agent_of(cloud: OneMachine, number: int) -> int:
    """The process of a host's agent; 0 while there is none."""
    inside = processes_in([cloud.switch.guests(number)])
    return next((pid for pid in inside if "compute_agent" in command_line(pid)), 0)


def test_what_was_taken_away_is_gone_from_the_hosts(cloud: OneMachine, town: Town) -> None:
    """Routers, floating IPs and the networks of guests that are gone; the last two guests keep theirs."""
    net = town.sdk.network
    net.delete_ip(town.floating)
    for guest in (town.third, town.stranger):
        town.sdk.compute.delete_server(guest.server)  # an administrator's word counts in every project
    for guest in (town.third, town.stranger):
        wait_for("it is gone", lambda: town.sdk.compute.find_server(guest.server, ignore_missing=True) is None)  # noqa: B023
    router = net.find_router("router")
    for port in net.ports(device_id=router.id, device_owner="network:router_interface"):
        net.remove_interface_from_router(router, port_id=port.id)
    net.delete_router(router)
    for name in ("there", "theirs"):
        net.delete_network(net.find_network(name))
    here = str(net.find_network("here").id)

    def left() -> set[str]:
        return {kind for name in namespace.listed(cloud.netns) for kind in ("-n-", "-r-", "-x-") if kind in name}

    wait_for("no router is left", lambda: left() == {"-n-"}, 60)
    ends = {name.partition("-n-")[2] for name in namespace.listed(cloud.netns) if "-n-" in name}
    assert ends == {here}, "only the network of the two is left"
    town.first.reaches(town.second.address)


def test_a_host_without_power_has_no_guests_and_the_other_goes_on(cloud: OneMachine, town: Town) -> None:
    spared = guests_of(cloud, 1)
    (lost,) = guests_of(cloud, 2)
    name = "second"
    ended = cloud.switch.power_off(2)
    assert lost in ended
    assert guests_of(cloud, 1) == spared
    # bin/up starts the agent again, as a machine does whose power is back; it tells what became of its guest.
    wait_for("the portal knows", lambda: servers_of(cloud)[name]["Status"] == "SHUTOFF")
    assert hosts_of(cloud)["host-2"] == ("up", "192.0.2.2")
    started(cloud, name)
    assert len(guests_of(cloud, 2)) == 1
    assert guests_of(cloud, 1) == spared


def test_the_hosts_come_back_with_a_machine_that_was_started_again(cloud: OneMachine, town: Town) -> None:
    cloud.runs[-1].stop()
    assert cloud.switch.remove()  # network namespaces and processes do not outlive that
    cloud.up()
    wait_for("no guest runs", lambda: {row["Status"] for row in servers_of(cloud).values()} == {"SHUTOFF"})
    started(cloud, *PAIR)
    assert [len(guests_of(cloud, number)) for number in (1, 2)] == [1, 1]


def test_nothing_is_left_of_guests_that_are_deleted(cloud: OneMachine, before: set[str], town: Town) -> None:
    assert traces(cloud.netns) - before
    for name in PAIR:
        town.sdk.compute.delete_server(town.guests[name].server)
    with contextlib.suppress(AssertionError):  # what is left says more than that something is
        wait_for("the hosts are as they were", lambda: traces(cloud.netns) <= before)
    now = traces(cloud.netns)
    assert now - before == set()
    assert {line for line in before - now if ": process " not in line} == set(), "some ran for a moment only"
    town.sdk.network.delete_network(town.sdk.network.find_network("here"))
    kept = [path for path in cloud.data.rglob("*") if path.name == "leases" or path.name.startswith(town.first.server)]
    assert kept == []


def test_clean_leaves_nothing_of_any_host(cloud: OneMachine) -> None:
    cloud.openstack(*CREATE, "last")
    names = namespace.listed(cloud.netns)
    assert {cloud.switch.guests(number) for number in (1, 2)} < set(names)
    inside = processes_in(names)
    assert len(inside) >= 3  # two agents and a guest
    cloud.end()
    assert namespace.listed(cloud.netns) == []
    assert [
        line for line in map(command_line, inside) if line
    ] == []  # an ended process that waits to be reaped has none
