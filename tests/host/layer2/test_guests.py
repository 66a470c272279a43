"""What a host does for the guests of one network: leases, names, filters, tunnels; and whom it does not serve."""

from __future__ import annotations

import pwd
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from compute_agent.contract.build import FixedAddress
from compute_agent.network.dhcp import dhcp_config
from compute_agent.virt.errors import InstanceNotFoundError, RetryableHostError
from tests.host.cast import EGRESS, Wish, documents, network
from tests.host.lab import PATIENCE, Interface, dhcp_discover, dhcp_offer
from tests.host.layer2.rack import Machine, Rack, document
from tests.host.layer2.test_services import asks, dnsmasq, named

STRANGER = "fa:16:3e:66:66:66"


@pytest.mark.deep
def test_a_dhcp_server_ignores_interfaces_it_does_not_know_and_hears_of_those_that_come_later(rack: Rack) -> None:
    one, _ = rack.hosts
    net = document(60)
    guest = rack.plug(one, net, 1)
    later = rack.plug(one, net, 2)
    later.drain()
    guest.send(dhcp_discover(STRANGER))
    guest.send(dhcp_discover(guest.port.mac_address))
    frame = guest.hears(lambda got: dhcp_offer(got) is not None)  # to the second question: the first one had no answer
    assert frame is not None
    assert dhcp_offer(frame) == guest.address
    assert guest.hears(lambda got: dhcp_offer(got) is not None, 0.3) is None
    assert asks(later)["ip"] == later.address
    rack.forget(net)


def test_dnsmasq_is_not_root_and_cannot_become_it(rack: Rack) -> None:
    one, _ = rack.hosts
    net = document(60)
    rack.plug(one, net, 1)
    lines = Path(f"/proc/{dnsmasq(one, net)}/status").read_text().splitlines()
    status = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
    user = dhcp_config.choose("auto")
    assert user.name != "root"
    assert status["Uid"].split() == [str(pwd.getpwnam(user.name).pw_uid)] * 4
    assert status["Gid"].split() == [str(user.gid)] * 4
    assert status["NoNewPrivs"] == "1"
    assert status["Seccomp"] == "2"
    assert one.lab.settings.state_dir.stat().st_mode & 0o777 == 0o700
    rack.forget(net)


def test_an_address_given_back_goes_to_another_interface(rack: Rack) -> None:
    one, _ = rack.hosts
    net = document(61)
    rack.plug(one, net, 9)  # keeps the network's server
    old = rack.plug(one, net, 1)
    assert asks(old)["ip"] == "10.61.0.5"
    spec, _ = one.guests.pop()
    one.process.network.unplug(spec.uuid)
    old.remove()
    other = replace(spec.ports[0], id="7b000000", tap="tap7b000000-00", mac_address="fa:16:3e:61:00:aa")
    heir = replace(Wish(1).spec(), ports=[other])
    one.process.network.plug(heir)
    one.process.network.apply_firewall(heir)
    one.guests.append((heir, Interface(one.inside, other, f"{old.space.name}-heir")))
    assert asks(one.guests[-1][1])["ip"] == "10.61.0.5"
    rack.forget(net)


def test_reserved_names_are_answered_to_nobody(rack: Rack) -> None:
    one, _ = rack.hosts
    net = document(62)
    first = rack.plug(one, net, 1, hostname="db")
    rack.plug(one, net, 2, hostname="WPAD")
    first.configure()
    assert named(first, "10.62.0.2", "db.novalocal") == {first.address}
    assert named(first, "10.62.0.2", "wpad") == named(first, "10.62.0.2", "wpad.novalocal") == set()
    rack.forget(net)


def test_lost_filters_are_noticed_and_put_back(rack: Rack) -> None:
    one, _ = rack.hosts
    net = document(63)
    rack.plug(one, net, 1)
    whole = one.inside.run("nft", "list", "ruleset")
    for family in ("bridge", "inet"):
        one.inside.run("nft", "delete", "table", family, "novella_filters")
    assert one.process.network.check() == ["filters"]
    assert sorted(one.inside.run("nft", "list", "ruleset").split()) == sorted(whole.split())
    rack.forget(net)


@pytest.mark.usefixtures("_forgotten")
def test_a_tunnel_gets_in_where_no_rule_lets_anybody_in(rack: Rack) -> None:
    """Only the connection that the agent makes: other programs in the host's namespaces stay outside."""
    one, _ = rack.hosts
    guest, stranger = (filtered(rack, one, number) for number in (1, 2))
    spec, _ = one.guests[0]
    with guest.space.listens(guest.address, 22):
        assert not stranger.space.connects(guest.address, 22, 0.3)
        assert not one.inside.connects(guest.address, 22, 0.3)
        connection, target = one.process.network.guest_socket(spec.uuid, guest.port.id, guest.address, 22)
        with connection:
            connection.settimeout(PATIENCE)
            connection.connect(target)
    for port_id, address in ((guest.port.id, "10.20.0.1"), ("other", guest.address)):
        with pytest.raises(InstanceNotFoundError):
            one.process.network.guest_socket(spec.uuid, port_id, address, 22)


def filtered(rack: Rack, host: Machine, number: int) -> Interface:
    """Plug a guest in that lets nobody in."""
    spec = Wish(number, rules=(EGRESS,)).spec()
    host.process.tell(spec)
    host.process.network.plug(spec)
    host.process.network.apply_firewall(spec)
    interface = Interface(host.inside, spec.ports[0], f"{host.inside.name}-{number}")
    host.guests.append((spec, interface))
    interface.configure()
    return interface


@pytest.fixture
def _forgotten(rack: Rack) -> Iterator[None]:
    yield
    for each in documents(Wish(1, rules=(EGRESS,)).spec()):
        kind = "network" if each.id == network().id else "security_group"
        rack.hosts[0].process.network.forget(kind, each.id)


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
def test_a_hostile_description_never_reaches_a_program(rack: Rack, hostile: dict[str, Any]) -> None:
    one, _ = rack.hosts
    before = one.inside.run("nft", "list", "ruleset")
    spec = replace(Wish(1).spec(), ports=[replace(Wish(1).port(), **hostile)])
    for work in (one.process.network.plug, one.process.network.apply_firewall):
        with pytest.raises(RetryableHostError):
            work(spec)
    one.process.network.unplug(spec.uuid)
    assert one.inside.run("nft", "list", "ruleset") == before
    assert list((one.lab.settings.state_dir / "network/instances").glob("*")) == []
