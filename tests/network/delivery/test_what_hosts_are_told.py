"""Hosts are told what they need of networks, routers, floating IPs and security groups, once, and forget the rest."""

from __future__ import annotations

import contextlib
import json
import uuid

import pytest
from django.utils import timezone
from msgspec.structs import replace

from compute_agent.contract.build import SecurityRule
from compute_agent.contract.messages import DOCUMENTS, MAX_DOCUMENT, Owned, encode
from compute_agent.contract.network import FLOATING_IP, NETWORK, ROUTER, SECURITY_GROUP, AddressRanges, PortForward
from provisioning.common.context import RequestContext
from provisioning.compute.actions.delete import delete
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.models import Instance
from provisioning.hosts import audits, liveness
from provisioning.hosts.models import Host, HostCommand
from provisioning.network import services
from provisioning.network.delivery import jobs, sending
from provisioning.network.models import (
    AddressGroup,
    Delivery,
    DeliveryMark,
    FixedIP,
    FloatingIP,
    Network,
    Port,
    PortForwarding,
    RbacPolicy,
    Router,
    SecurityGroup,
    SecurityGroupRule,
)
from provisioning.network.records.marks import HOST, PORTS, mark, ports_changed
from provisioning.network.records.owners import AGENT_GATEWAY, ROUTER_GATEWAY
from tests.network.delivery.conftest import kinds, known, leg
from tests.support.clouds import Cloud
from tests.support.jobs import drain
from tests.support.ports import guest_ports
from tests.support.scripted_agent import ScriptedAgent


def two_guests(cloud: Cloud, alice: RequestContext) -> tuple[Instance, Instance, ScriptedAgent, ScriptedAgent]:
    """Run a guest on each of the two hosts."""
    first = cloud.running(alice, flavor_ref="2")
    second = cloud.running(alice, flavor_ref="2")
    one, two = cloud.agent_of(first), cloud.agent_of(second)
    if one is two:
        pytest.fail("both guests are on one host")
    return first, second, one, two


def port_of(instance: Instance) -> Port:
    return guest_ports().get(device_id=instance.id)


def address_of(instance: Instance) -> str:
    return port_of(instance).fixed_ips.get().address


@pytest.mark.slow
def test_both_hosts_of_a_network_know_each_other_and_the_other_s_guests(cloud: Cloud, alice: RequestContext) -> None:
    first, second, one, two = two_guests(cloud, alice)
    here, there = (known(agent, NETWORK, cloud.network.id) for agent in (one, two))
    assert (here.peers, there.peers) == ([two.host.host_ip], [one.host.host_ip])
    assert [(port.mac_address, port.addresses, port.underlay) for port in here.remote_ports] == [
        (port_of(second).mac_address, [address_of(second)], two.host.host_ip)
    ]
    assert [port.addresses for port in there.remote_ports] == [[address_of(first)]]
    assert here.segment.type == "vxlan"
    assert [subnet.cidr for subnet in here.subnets] == ["10.20.0.0/24"]


@pytest.mark.slow
@pytest.mark.parametrize(("domain", "served"), [("example.org.", "example.org"), ("", "novalocal")])
def test_hosts_are_notified_a_domain_that_can_be_served(
    cloud: Cloud, alice: RequestContext, domain: str, served: str
) -> None:
    _, _, one, _ = two_guests(cloud, alice)
    services.update_network(cloud.network, {"dns_domain": domain})
    cloud.run()
    assert known(one, NETWORK, cloud.network.id).dns_domain == served


@pytest.mark.slow
def test_both_hosts_are_notified_of_whose_domains_names_are_in_when_a_network_is_shared_and_when_it_is_no_more(
    cloud: Cloud, alice: RequestContext
) -> None:
    network = services.create_network(alice.project_id, "own")
    services.create_subnet(network, "10.40.0.0/24")
    requested = [NetworkRequest(network_id=str(network.id))]
    guests = [cloud.running(alice, flavor_ref="2", networks=requested) for _ in range(2)]
    one, two = (cloud.agent_of(each) for each in guests)
    assert one is not two

    def notified() -> tuple[list[str], list[str]]:
        """Return the domains of guests that their own hosts are about to be told, and of those on other hosts."""
        waiting = HostCommand.objects.filter(kind="refresh_ports_request", finished_at=None)
        specs = [json.loads(command.body)["instance"] for command in waiting]
        cloud.run()
        others = [port.dns_domain for agent in (one, two) for port in known(agent, NETWORK, network.id).remote_ports]
        return [spec["ports"][0].get("dns_domain", "") for spec in specs], others

    assert notified() == ([], ["", ""])
    own = f"{alice.project_id.hex[:12]}.novalocal"
    policy = services.create_rbac_policy(alice.project_id, "network", network, RbacPolicy.SHARED, uuid.uuid4().hex)
    assert notified() == ([own, own], [own, own])
    services.update_rbac_policy(policy, uuid.uuid4().hex)
    second = services.create_rbac_policy(alice.project_id, "network", network, RbacPolicy.SHARED, uuid.uuid4().hex)
    services.delete_rbac_policy(second)
    assert notified() == ([], [own, own])  # nothing of it changed a name
    services.delete_rbac_policy(policy)
    assert notified() == (["", ""], ["", ""])
    services.update_network(network, {"shared": True, "dns_domain": "example.org."})
    own = f"{alice.project_id.hex[:12]}.example.org"
    assert notified() == ([own, own], [own, own])


@pytest.mark.slow
def test_the_members_of_a_group_are_known_on_every_host_of_the_group(cloud: Cloud, alice: RequestContext) -> None:
    first, second, one, two = two_guests(cloud, alice)
    group = SecurityGroup.objects.get(project_id=alice.project_id)
    document = known(one, SECURITY_GROUP, group.id)
    assert known(two, SECURITY_GROUP, group.id) == document
    assert sorted(member.address for member in document.members) == sorted([address_of(first), address_of(second)])
    assert {member.network_id for member in document.members} == {str(cloud.network.id)}
    assert {rule.remote_group_id for rule in document.rules if rule.direction == "ingress"} == {str(group.id)}


@pytest.mark.slow
def test_a_host_forgets_what_its_last_guest_needed_and_the_other_hears_of_it(
    cloud: Cloud, alice: RequestContext
) -> None:
    first, _, one, two = two_guests(cloud, alice)
    delete(alice, first.id)
    cloud.run()
    assert one.documents == {}
    assert kinds(two) == [NETWORK, SECURITY_GROUP]
    document = known(two, NETWORK, cloud.network.id)
    assert (document.peers, document.remote_ports) == ([], [])
    assert not HostCommand.objects.filter(finished_at=None).exists()
    assert not DeliveryMark.objects.exists()


@pytest.mark.slow
def test_a_rule_reaches_every_host_and_an_address_group_comes_with_its_ranges(
    cloud: Cloud, alice: RequestContext
) -> None:
    _, _, one, two = two_guests(cloud, alice)
    group = SecurityGroup.objects.get(project_id=alice.project_id)
    addresses = AddressGroup.objects.create(project_id=group.project_id, addresses=["192.0.2.0/28", "198.51.100.7/32"])
    rule = SecurityGroupRule.objects.create(
        group=group, direction="ingress", protocol="tcp", port_range_min=22, port_range_max=22,
        remote_address_group=addresses,
    )  # fmt: skip
    services.allow_ingress(group, "icmp")
    cloud.run()
    for agent in (one, two):
        document = known(agent, SECURITY_GROUP, group.id)
        rules = document.rules
        assert document.address_groups == [AddressRanges(id=str(addresses.id), addresses=addresses.addresses)]
        named = [each.remote_address_group_id for each in rules if each.id == str(rule.id)]
        assert named == [str(addresses.id)]
        assert [each for each in rules if each.protocol == "icmp"] == [
            SecurityRule(
                direction="ingress",
                protocol="icmp",
                remote_ip_prefix="0.0.0.0/0",
                id=str(SecurityGroupRule.objects.get(protocol="icmp").id),
            )
        ]


@pytest.mark.slow
def test_a_group_that_a_rule_names_is_sent_where_the_rule_is(cloud: Cloud, alice: RequestContext) -> None:
    one, named = cloud.running(alice), SecurityGroup.objects.create(project_id=alice.project_id, name="clients")
    group = SecurityGroup.objects.get(project_id=alice.project_id, name="default")
    SecurityGroupRule.objects.create(group=group, direction="ingress", remote_group=named)
    mark(SECURITY_GROUP, [group.id, named.id])
    cloud.run()
    assert known(cloud.agent_of(one), SECURITY_GROUP, named.id).members == []


@pytest.mark.slow
def test_many_changes_are_one_command_while_the_host_works_on_the_one_before(
    cloud: Cloud, alice: RequestContext
) -> None:
    instance = cloud.running(alice)
    agent, group = cloud.agent_of(instance), SecurityGroup.objects.get(project_id=alice.project_id)
    before = agent.documents[SECURITY_GROUP, str(group.id)][0]
    services.allow_ingress(group, "tcp", 1)
    drain()
    (command,) = agent.take()
    for port in range(2, 30):
        services.allow_ingress(group, "tcp", port)
        drain()
    assert agent.take() == []
    agent.carry_out(command)
    cloud.run()
    generation, document = agent.documents[SECURITY_GROUP, str(group.id)]
    assert generation == before + 2
    assert len([rule for rule in document.rules if rule.protocol == "tcp"]) == 29


@pytest.mark.slow
def test_what_is_too_long_for_an_agent_is_not_sent_and_is_reported(
    cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    agent, group = cloud.agent_of(cloud.running(alice)), SecurityGroup.objects.get(project_id=alice.project_id)
    monkeypatch.setattr(sending, "MAX_DOCUMENT", 100)
    services.allow_ingress(group, "tcp", 1)
    drain()
    assert agent.take() == []
    assert "agents accept 100" in Delivery.objects.get(kind=SECURITY_GROUP, subject_id=group.id).error
    monkeypatch.undo()
    mark(SECURITY_GROUP, [group.id])
    cloud.run()
    assert len(known(agent, SECURITY_GROUP, group.id).rules) == 5


@pytest.mark.slow
def test_thousands_of_rules_and_hundreds_of_ports_fit_into_what_an_agent_takes(
    cloud: Cloud, alice: RequestContext
) -> None:
    agent, group = cloud.agent_of(cloud.running(alice)), SecurityGroup.objects.get(project_id=alice.project_id)
    SecurityGroupRule.objects.bulk_create(
        SecurityGroupRule(group=group, direction="ingress", protocol="tcp", port_range_min=port, port_range_max=port)
        for port in range(1, 4001)
    )
    subnet = services.create_subnet(cloud.network, "10.77.0.0/16")
    ports = Port.objects.bulk_create(
        Port(
            network=cloud.network, project_id=alice.project_id, device_owner="compute:nova", device_id=uuid.uuid4(),
            mac_address=f"fa:16:3e:77:{number >> 8:02x}:{number & 255:02x}",
        )
        for number in range(300)
    )  # fmt: skip
    FixedIP.objects.bulk_create(
        FixedIP(
            port=port,
            subnet=subnet,
            number=number + 10,
            address=f"10.77.1.{number}" if number < 256 else f"10.77.2.{number - 256}",
        )
        for number, port in enumerate(ports)
    )
    Port.security_groups.through.objects.bulk_create(
        Port.security_groups.through(port=port, securitygroup=group) for port in ports
    )
    mark(SECURITY_GROUP, [group.id])
    mark(NETWORK, [cloud.network.id])
    cloud.run()
    document = known(agent, SECURITY_GROUP, group.id)
    assert (len(document.rules), len(document.members)) == (4004, 301)
    assert len(encode(document)) < MAX_DOCUMENT


@pytest.mark.both_databases("locks")
def test_a_hundred_marks_are_one_job(cloud: Cloud) -> None:
    for _ in range(100):
        mark(NETWORK, [cloud.network.id])
    assert DeliveryMark.objects.count() == 1
    assert drain() == 1


def test_what_a_port_changes_is_one_job(cloud: Cloud) -> None:
    group = services.ensure_default_security_group(cloud.network.project_id)
    port = Port(network=cloud.network, project_id=cloud.network.project_id, host="one")
    port.save()
    port.security_groups.add(group)
    ports_changed([port])
    assert {row.kind for row in DeliveryMark.objects.all()} == {HOST, PORTS, SECURITY_GROUP}
    assert drain() == 1
    assert not DeliveryMark.objects.exists()


def test_a_subject_that_cannot_be_sent_to_hosts_holds_up_no_other(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    other, sent = services.create_network(cloud.network.project_id, "other"), []

    def bring(kind: str, key: uuid.UUID) -> None:
        if key == cloud.network.id:
            raise ValueError(kind)
        sent.append(key)

    monkeypatch.setattr(sending, "bring", bring)
    jobs.deliver([(NETWORK, str(key)) for key in sorted([cloud.network.id, other.id])])
    for _ in range(2):  # the one that fails comes out of it
        with contextlib.suppress(ValueError):
            drain()
    assert other.id in sent
    with pytest.raises(ValueError, match=NETWORK):
        jobs.deliver([(NETWORK, str(cloud.network.id))])


@pytest.mark.slow
def test_what_did_not_change_is_not_reported_again(cloud: Cloud, alice: RequestContext) -> None:
    two_guests(cloud, alice)
    many = HostCommand.objects.count()
    jobs.look_over()
    cloud.run()
    assert HostCommand.objects.count() == many


def router_between(cloud: Cloud, alice: RequestContext) -> tuple[Router, Network]:
    """Join the cloud's network to another one."""
    other = services.create_network(cloud.network.project_id, "other", shared=True)
    services.create_subnet(other, "10.30.0.0/24")
    router = Router.objects.create(project_id=alice.project_id, name="r", routes=[])
    leg(router, cloud.network, "10.20.0.1")
    leg(router, other, "10.30.0.1")
    return router, other


@pytest.mark.slow
def test_a_router_and_all_it_joins_are_sent_where_one_of_its_networks_is(cloud: Cloud, alice: RequestContext) -> None:
    instance = cloud.running(alice)
    agent = cloud.agent_of(instance)
    router, other = router_between(cloud, alice)
    mark(ROUTER, [router.id])
    cloud.run()
    document = known(agent, ROUTER, router.id)
    assert sorted(each.addresses[0] for each in document.interfaces) == ["10.20.0.1/24", "10.30.0.1/24"]
    assert known(agent, NETWORK, other.id).shared_macs == [
        each.mac_address for each in document.interfaces if each.network_id == str(other.id)
    ]
    assert [subnet.routed for subnet in known(agent, NETWORK, cloud.network.id).subnets] == [True]
    idle = next(each for each in cloud.agents.values() if each is not agent)
    assert idle.documents == {}
    Port.objects.filter(device_id=router.id).delete()
    Router.objects.filter(id=router.id).delete()
    mark(ROUTER, [router.id])
    mark(NETWORK, [cloud.network.id])
    cloud.run()
    assert kinds(agent) == [NETWORK, SECURITY_GROUP]


def with_gateway(cloud: Cloud, alice: RequestContext) -> tuple[Router, Network]:
    external = services.create_network(cloud.network.project_id, "public")
    services.create_subnet(external, "203.0.113.0/24", enable_dhcp=False)
    Network.objects.filter(id=external.id).update(
        external=True, network_type="flat", physical_network="external", segmentation_id=None
    )
    router = Router.objects.create(project_id=alice.project_id, name="r")
    leg(router, cloud.network, "10.20.0.1")
    leg(router, external, "203.0.113.9", owner=ROUTER_GATEWAY)
    return router, external


@pytest.mark.slow
def test_each_host_has_its_own_address_outside_and_one_bears_the_router_s(cloud: Cloud, alice: RequestContext) -> None:
    _, second, one, two = two_guests(cloud, alice)
    router, external = with_gateway(cloud, alice)
    mark(ROUTER, [router.id])
    cloud.run()
    result = [known(agent, NETWORK, external.id).gateway_port for agent in (one, two)]
    assert len({port.mac_address for port in result}) == 2
    assert {address for port in result for address in port.addresses} == {"203.0.113.2/24", "203.0.113.3/24"}
    outside = [known(agent, ROUTER, router.id).external for agent in (one, two)]
    assert sorted(each.here for each in outside) == [False, True]
    assert {(tuple(each.next_hops), tuple(each.addresses)) for each in outside} == {
        (("203.0.113.1",), ("203.0.113.9/24",))
    }
    delete(alice, second.id)
    cloud.run()
    assert two.documents == {}
    assert known(one, ROUTER, router.id).external.here
    assert guest_ports().get(device_owner=AGENT_GATEWAY).device_id == one.host.id


def floating_ip(router: Router, external: Network, guest: Port | None) -> FloatingIP:
    port = Port.objects.create(
        network=external, project_id=router.project_id, mac_address="fa:16:3e:bb:00:01",
        device_owner="network:floatingip",
    )  # fmt: skip
    return FloatingIP.objects.create(
        network=external, project_id=router.project_id, port=port, address="203.0.113.50", router=router,
        fixed_port=guest, fixed_address=guest.fixed_ips.get().address if guest else None,
    )  # fmt: skip


@pytest.mark.slow
def test_a_floating_ip_is_reported_at_its_guest_s_host_and_moves_with_it(cloud: Cloud, alice: RequestContext) -> None:
    first, second, one, two = two_guests(cloud, alice)
    router, external = with_gateway(cloud, alice)
    floating = floating_ip(router, external, port_of(first))
    mark(ROUTER, [router.id])
    mark(FLOATING_IP, [floating.id])
    cloud.run()
    assert known(one, FLOATING_IP, floating.id).fixed_address == address_of(first)
    assert known(two, FLOATING_IP, floating.id) is None
    assert FloatingIP.objects.get().status == "ACTIVE"
    FloatingIP.objects.update(fixed_port=port_of(second), fixed_address=address_of(second))
    mark(FLOATING_IP, [floating.id])
    cloud.run()
    assert known(one, FLOATING_IP, floating.id) is None
    assert known(two, FLOATING_IP, floating.id).fixed_address == address_of(second)
    FloatingIP.objects.update(fixed_port=None, fixed_address=None)
    mark(FLOATING_IP, [floating.id])
    cloud.run()
    assert FloatingIP.objects.get().status == "DOWN"
    assert FLOATING_IP not in kinds(one) + kinds(two)


@pytest.mark.slow
def test_both_hosts_of_a_migration_are_notified_of_the_guest_s_traffic_before_it_moves(
    cloud: Cloud, alice: RequestContext
) -> None:
    first, _, one, two = two_guests(cloud, alice)
    third = cloud.running(alice, flavor_ref="2")  # keeps the network on the host that the first leaves
    services.bind_ports(third.id, one.host.name)
    router, external = with_gateway(cloud, alice)
    port = port_of(first)
    floating = floating_ip(router, external, port)
    mark(ROUTER, [router.id])
    mark(FLOATING_IP, [floating.id])
    cloud.run()
    agents = (one, two)

    def notified() -> list[tuple[str | None, str | None]]:
        """Return the port that each host's document of the floating IP names, and where it sends the port's frames."""
        documents = [known(agent, FLOATING_IP, floating.id) for agent in agents]
        networks = [known(agent, NETWORK, cloud.network.id) for agent in agents]
        ways = [{each.id: each.underlay for each in it.remote_ports}.get(str(port.id)) for it in networks]
        return [(document and document.port_id, way) for document, way in zip(documents, ways, strict=True)]

    assert notified() == [("", None), (None, one.host.host_ip)]
    services.bind_second(first.id, two.host.name)
    cloud.run()
    assert notified() == [(str(port.id), two.host.host_ip), (str(port.id), one.host.host_ip)]
    services.bind_second(first.id, "")
    cloud.run()
    assert notified() == [("", None), (None, one.host.host_ip)]
    services.bind_second(first.id, two.host.name)
    services.bind_ports(first.id, two.host.name)
    cloud.run()
    assert notified() == [(None, two.host.host_ip), ("", None)]


@pytest.mark.slow
def test_a_floating_ip_that_only_forwards_is_borne_with_its_router_and_known_where_it_leads(
    cloud: Cloud, alice: RequestContext
) -> None:
    first, second, one, two = two_guests(cloud, alice)
    router, external = with_gateway(cloud, alice)
    floating = floating_ip(router, external, None)
    for number, guest in enumerate((second, first), start=1):
        PortForwarding.objects.create(
            floating_ip=floating, protocol="tcp", external_port_first=8000 + number, external_port_last=8000 + number,
            internal_port=port_of(guest), internal_ip_address=address_of(guest), internal_port_first=80,
            internal_port_last=80,
        )  # fmt: skip
    mark(ROUTER, [router.id])
    mark(FLOATING_IP, [floating.id])
    cloud.run()
    bears, other = (one, two) if known(one, ROUTER, router.id).external.here else (two, one)
    document = known(bears, FLOATING_IP, floating.id)
    assert (document.fixed_address, document.bearer) == (None, "")
    assert document.forwards[1] == PortForward(
        protocol="tcp", external_first=8002, external_last=8002, internal_address=address_of(first),
        internal_first=80, internal_last=80,
    )  # fmt: skip
    assert known(other, FLOATING_IP, floating.id) == replace(document, bearer=bears.host.host_ip)
    jobs.look_over()
    many = HostCommand.objects.count()
    cloud.run()
    assert HostCommand.objects.count() == many, "it comes to rest"


@pytest.mark.slow
def test_a_floating_ip_of_a_port_on_no_host_is_borne_with_its_router_until_a_guest_has_the_port(
    cloud: Cloud, alice: RequestContext
) -> None:
    """Any guest of the network may bear the address of such a port (allowed address pairs)."""
    _, _, one, two = two_guests(cloud, alice)
    router, external = with_gateway(cloud, alice)
    port = services.create_port(alice.project_id or uuid.uuid4(), cloud.network)
    floating = floating_ip(router, external, port)
    mark(ROUTER, [router.id])
    mark(FLOATING_IP, [floating.id])
    cloud.run()
    bears, other = (one, two) if known(one, ROUTER, router.id).external.here else (two, one)
    document = known(bears, FLOATING_IP, floating.id)
    assert (document.fixed_address, document.bearer) == (port.fixed_ips.get().address, "")
    assert known(other, FLOATING_IP, floating.id) == replace(document, bearer=bears.host.host_ip)
    assert FloatingIP.objects.get().status == "ACTIVE"
    Host.objects.filter(id=bears.host.id).update(last_seen_at="2026-01-01T00:00:00Z")
    jobs.move_bearers()
    cloud.run()
    assert known(other, FLOATING_IP, floating.id).bearer == ""
    Host.objects.filter(id=bears.host.id).update(last_seen_at=timezone.now())
    jobs.look_over()
    cloud.run()
    many = HostCommand.objects.count()
    jobs.look_over()
    cloud.run()
    assert HostCommand.objects.count() == many, "nothing more is to be told"
    third = cloud.running(alice, networks=(NetworkRequest(port_id=str(port.id)),))
    cloud.run()
    here = cloud.agent_of(third)
    assert known(here, FLOATING_IP, floating.id).bearer == ""
    assert known(one if here is two else two, FLOATING_IP, floating.id) is None


@pytest.mark.slow
def test_a_forwarding_to_a_port_on_no_host_is_known_wherever_its_router_is(cloud: Cloud, alice: RequestContext) -> None:
    _, _, one, two = two_guests(cloud, alice)
    router, external = with_gateway(cloud, alice)
    port = services.create_port(alice.project_id or uuid.uuid4(), cloud.network)
    floating = floating_ip(router, external, None)
    PortForwarding.objects.create(
        floating_ip=floating, protocol="tcp", external_port_first=80, external_port_last=80, internal_port=port,
        internal_ip_address=port.fixed_ips.get().address, internal_port_first=80, internal_port_last=80,
    )  # fmt: skip
    mark(ROUTER, [router.id])
    mark(FLOATING_IP, [floating.id])
    cloud.run()
    bears, other = (one, two) if known(one, ROUTER, router.id).external.here else (two, one)
    document = known(bears, FLOATING_IP, floating.id)
    assert (document.bearer, len(document.forwards)) == ("", 1)
    assert known(other, FLOATING_IP, floating.id) == replace(document, bearer=bears.host.host_ip)


@pytest.mark.slow
def test_another_host_bears_the_router_s_address_when_one_is_down(cloud: Cloud, alice: RequestContext) -> None:
    _, _, one, two = two_guests(cloud, alice)
    router, _ = with_gateway(cloud, alice)
    mark(ROUTER, [router.id])
    cloud.run()
    bears, other = (one, two) if known(one, ROUTER, router.id).external.here else (two, one)
    jobs.move_bearers()
    cloud.run()
    assert known(bears, ROUTER, router.id).external.here
    Host.objects.filter(id=bears.host.id).update(last_seen_at="2026-01-01T00:00:00Z")
    jobs.move_bearers()
    cloud.run()
    assert known(other, ROUTER, router.id).external.here
    assert not known(bears, ROUTER, router.id).external.here


@pytest.mark.slow
def test_on_an_external_network_of_our_own_hosts_know_where_addresses_are(cloud: Cloud, alice: RequestContext) -> None:
    _, _, one, two = two_guests(cloud, alice)
    router, external = with_gateway(cloud, alice)
    Network.objects.filter(id=external.id).update(network_type="vxlan", physical_network="", segmentation_id=77)
    mark(ROUTER, [router.id])
    cloud.run()
    jobs.look_over()
    cloud.run()
    bears, other = (one, two) if known(one, ROUTER, router.id).external.here else (two, one)
    result = {tuple(port.addresses): port.underlay for port in known(other, NETWORK, external.id).remote_ports}
    own = known(bears, NETWORK, external.id).gateway_port.addresses[0].partition("/")[0]
    assert result == {("203.0.113.9",): bears.host.host_ip, (own,): bears.host.host_ip}


@pytest.mark.slow
def test_a_failure_is_reported_at_the_network_and_tried_again(cloud: Cloud, alice: RequestContext) -> None:
    instance = cloud.running(alice)
    agent = cloud.agent_of(instance)
    Network.objects.filter(id=cloud.network.id).update(mtu=1400)
    mark(NETWORK, [cloud.network.id])
    drain()
    (command,) = agent.take()
    agent.report(command, "failed", error_code="host_failed", message="No such physical network.")
    network = Network.objects.get(id=cloud.network.id)
    assert (network.status, network.error) == ("ERROR", "No such physical network.")
    assert not agent.take()
    Delivery.objects.filter(kind=NETWORK).update(changed_at="2026-01-01T00:00:00Z")
    jobs.deliver_again()
    cloud.run()
    network.refresh_from_db()
    assert (network.status, network.error) == ("ACTIVE", "")
    assert known(agent, NETWORK, network.id).mtu == 1400


@pytest.mark.slow
def test_a_host_that_lost_its_documents_is_notified_again(
    cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("provisioning.hosts.enrolment.CONTRACT_VERSION", DOCUMENTS)
    instance = cloud.running(alice)
    agent = cloud.agent_of(instance)
    before = dict(agent.documents)
    agent.documents.clear()
    agent.hello(documents=[], contract=DOCUMENTS)
    cloud.run()
    assert {key: document for key, (_, document) in agent.documents.items()} == {
        key: document for key, (_, document) in before.items()
    }
    many = HostCommand.objects.count()
    documents = [
        Owned(subject_kind=kind, subject_id=key, generation=generation)
        for (kind, key), (generation, _) in agent.documents.items()
    ]
    agent.hello(documents=documents, contract=DOCUMENTS)
    cloud.run()
    assert HostCommand.objects.count() == many
    owned = {(each.subject_kind, each.subject_id) for each in liveness.ownership(agent.host.id).subjects}
    assert owned > set(agent.documents)


@pytest.mark.slow
def test_another_underlay_address_is_reported_to_the_others(cloud: Cloud, alice: RequestContext) -> None:
    _, _, one, two = two_guests(cloud, alice)
    two.host.host_ip = "192.0.2.99"
    audits.audit(two.host.id, two.audit(8, 8192, 100), "192.0.2.99")
    cloud.run()
    document = known(one, NETWORK, cloud.network.id)
    assert document.peers == ["192.0.2.99"]
    assert {port.underlay for port in document.remote_ports} == {"192.0.2.99"}


@pytest.mark.slow
@pytest.mark.parametrize("claimed", ["the other's", "192.0.2.99", "not an address; x", "224.0.0.1", "127.0.0.1"])
def test_an_address_that_is_not_a_hosts_own_is_reported_to_nobody(
    cloud: Cloud, alice: RequestContext, claimed: str
) -> None:
    _, _, one, two = two_guests(cloud, alice)
    own = two.host.host_ip
    two.host.host_ip = one.host.host_ip if claimed == "the other's" else claimed
    audits.audit(two.host.id, two.audit(8, 8192, 100), own)
    cloud.run()
    assert known(one, NETWORK, cloud.network.id).peers == [own]
    assert len(Host.objects.get(id=two.host.id).warnings) == 1


@pytest.mark.slow
def test_hosts_of_another_machine_are_not_reported_loopback_addresses(cloud: Cloud, alice: RequestContext) -> None:
    _, _, one, two = two_guests(cloud, alice)
    Host.objects.filter(id=two.host.id).update(host_ip="127.0.0.1")
    mark(NETWORK, [cloud.network.id])
    cloud.run()
    document = known(one, NETWORK, cloud.network.id)
    assert (document.peers, {port.underlay for port in document.remote_ports}) == ([], {""})


@pytest.mark.slow
def test_a_command_that_was_lost_is_sent_anew(cloud: Cloud, alice: RequestContext) -> None:
    instance = cloud.running(alice)
    agent = cloud.agent_of(instance)
    Network.objects.filter(id=cloud.network.id).update(mtu=1400)
    mark(NETWORK, [cloud.network.id])
    drain()
    HostCommand.objects.filter(finished_at=None).delete()
    jobs.deliver_again()
    cloud.run()
    assert known(agent, NETWORK, cloud.network.id).mtu == 1400


@pytest.mark.both_databases("locks")
def test_nothing_is_reported_to_a_host_of_before_or_one_that_is_gone(cloud: Cloud, alice: RequestContext) -> None:
    Host.objects.update(contract_version=DOCUMENTS - 1)
    instance = cloud.running(alice)
    mark(NETWORK, [cloud.network.id])
    mark(HOST, Host.objects.values_list("id", flat=True))
    assert (cloud.agent_of(instance).documents, DeliveryMark.objects.count()) == ({}, 0)
    Delivery.objects.create(host_id=uuid.uuid4(), kind=NETWORK, subject_id=cloud.network.id, digest="x")
    jobs.deliver_again()
    assert not Delivery.objects.exists()
