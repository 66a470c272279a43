"""Who can reach an instance: sources resolved through groups, ways from outside, warnings, and changing the groups."""

from __future__ import annotations

from typing import Any

import pytest
from django.test import Client

from portal.dashboard.live import render
from provisioning.compute.models import Instance
from provisioning.events import selectors as events
from provisioning.network import services
from provisioning.network.models import Port, Router, SecurityGroup
from provisioning.network.records.flows import checked
from provisioning.network.selectors.reachability import reach_of
from provisioning.network.services import RequestedRule
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.ports import guest_ports
from tests.support.standing import standing

pytestmark = pytest.mark.slow


@pytest.fixture
@standing
def instance(cloud: Cloud, alice: Person) -> Instance:
    return cloud.running(alice.context, name="web")


@pytest.fixture
@standing
def port(instance: Instance) -> Port:
    return guest_ports().get(device_id=instance.id)


@pytest.fixture
@standing
def group(alice: Person, port: Port) -> SecurityGroup:
    """A group of its own, the only one of the instance."""
    made = services.create_security_group(alice.project_id, "front")
    services.update_port(port, {}, groups=[made])
    return made


def reach(client: Client, instance: Instance) -> dict[str, Any]:
    (item,) = client.get(f"/instances/{instance.id}/network/").context["reach"]["ports"]
    result: dict[str, Any] = item
    return result


def lines(client: Client, instance: Instance) -> list[tuple[str, str, str]]:
    return [(line.who, line.more, line.what) for line in reach(client, instance)["lines"]]


def titles(client: Client, instance: Instance) -> list[str]:
    return [warning.title for warning in reach(client, instance)["warnings"]]


def lead_out(alice: Person, operator: Person, port: Port, *, floating: bool) -> str:
    """Give the port's network a router with a way out, and the port a floating IP if asked; return its address."""
    outside = services.create_network(operator.project_id, "outside", external=True)
    services.create_subnet(outside, "203.0.113.0/24", enable_dhcp=False)
    router = services.create_router(alice.project_id, name="r", gateway=services.Gateway(outside))
    services.add_interface_by_subnet(router, port.network.subnets.get(), anywhere=True)
    return services.create_floating_ip(alice.project_id, outside, port=port if floating else None).address


def test_the_default_group_lets_in_its_members_near_it(
    at_alice: Client, alice: Person, instance: Instance, port: Port
) -> None:
    assert lines(at_alice, instance) == [("Members of default", "no other members over IPv4", "Everything")]
    for network in (port.network, services.create_network(alice.project_id, "elsewhere")):
        if not network.subnets.exists():
            services.create_subnet(network, "10.77.0.0/24")
        member = services.create_port(alice.project_id, network, groups=list(port.security_groups.all()))
        Port.objects.filter(id=member.id).update(device_owner="compute:nova")
    there = Port.objects.get(device_owner="compute:nova", network=port.network, device_id=None).fixed_ips.get()
    assert lines(at_alice, instance) == [("Members of default", there.address, "Everything")]
    assert titles(at_alice, instance) == []
    shown = at_alice.get(f"/instances/{instance.id}/network/").content.decode()
    assert "Who can reach this?" in shown
    assert "not from outside: no floating IP is associated" in shown


def test_nothing_allowed_in_is_reported(at_alice: Client, instance: Instance, group: SecurityGroup) -> None:
    assert titles(at_alice, instance) == ["No inbound traffic is allowed"]
    assert lines(at_alice, instance) == []


def test_rules_of_all_groups_are_gathered_by_who(
    at_alice: Client, alice: Person, instance: Instance, port: Port, group: SecurityGroup
) -> None:
    other = services.create_security_group(alice.project_id, "other")
    services.update_port(port, {}, groups=[group, other])
    ranges = services.create_address_group(alice.project_id, "offices", ["192.0.2.0/24", "2001:db8::/32"])
    services.allow_ingress(group, "tcp", 80)
    services.allow_ingress(other, "tcp", 443)
    services.create_security_group_rules(
        [
            RequestedRule(other, checked("ingress", "IPv4", "icmp", None, None, None), other),
            RequestedRule(other, checked("ingress", "IPv4", "udp", 53, 53, None), None, ranges),
        ]
    )
    services.create_security_group_rules(
        [RequestedRule(group, checked("ingress", "IPv6", "tcp", 22, 22, None))]  # the port has no IPv6
    )
    assert lines(at_alice, instance) == [
        ("Anywhere", "0.0.0.0/0", "TCP 80 and TCP 443"),
        ("Addresses of offices", "192.0.2.0/24", "UDP 53"),
        ("Members of other", "no other members over IPv4", "ICMP"),
    ]


def test_ssh_for_everybody_is_a_warning_once_something_leads_here(
    at_alice: Client, alice: Person, operator: Person, instance: Instance, port: Port, group: SecurityGroup
) -> None:
    services.allow_ingress(group, "tcp", 22)
    assert titles(at_alice, instance) == ["SSH is allowed from anywhere"]
    address = lead_out(alice, operator, port, floating=True)
    assert titles(at_alice, instance) == ["SSH is open to the world"]
    assert f"at the floating IP {address}" in " ".join(reach(at_alice, instance)["ways"])


def test_a_range_for_ssh_is_no_warning(at_alice: Client, instance: Instance, group: SecurityGroup) -> None:
    services.create_security_group_rules(
        [RequestedRule(group, checked("ingress", "IPv4", "tcp", 22, 22, "198.51.100.0/24"))]
    )
    assert titles(at_alice, instance) == []
    assert lines(at_alice, instance) == [("198.51.100.0/24", "", "TCP 22")]


def test_without_port_security_everything_passes(at_alice: Client, instance: Instance, port: Port) -> None:
    services.update_port(port, {"port_security_enabled": False}, groups=[])
    assert titles(at_alice, instance) == ["Port security is off"]
    assert not reach(at_alice, instance)["can_change_groups"]


def test_networks_behind_a_router_are_named(
    at_alice: Client, alice: Person, operator: Person, instance: Instance, port: Port
) -> None:
    lead_out(alice, operator, port, floating=False)
    router = Port.objects.get(device_owner="network:router_interface").device_id
    beside = services.create_network(alice.project_id, "beside")
    subnet = services.create_subnet(beside, "10.99.0.0/24")
    services.add_interface_by_subnet(Router.objects.get(id=router), subnet, anywhere=True)
    assert "through a router from beside" in reach(at_alice, instance)["ways"]


def test_the_groups_of_a_port_are_changed_on_its_instance_s_page(
    at_alice: Client, alice: Person, instance: Instance, port: Port
) -> None:
    front = services.create_security_group(alice.project_id, "front")
    path = f"/ports/{port.id}/security-groups/"
    assert path in at_alice.get(f"/instances/{instance.id}/network/").content.decode()
    assert "No inbound rules" in at_alice.get(path).content.decode()
    answer = at_alice.post(path, {"security_groups": [str(front.id)]})
    assert answer["Location"] == f"/instances/{instance.id}/network/"
    assert list(port.security_groups.all()) == [front]
    at_alice.post(path, {})
    assert not port.security_groups.exists()


def test_a_group_of_many_rules_is_reported_shortly(at_alice: Client, port: Port, group: SecurityGroup) -> None:
    for number in range(1, 20):
        services.allow_ingress(group, "tcp", number)
    choices = (
        at_alice.get(f"/ports/{port.id}/security-groups/").context["form"].fields["security_groups"].widget.choices
    )
    (summary,) = [label.sub for _, label in choices if str(label) == "front"]
    assert summary == "Allows TCP 1, TCP 2, TCP 3, TCP 4, TCP 5, TCP 6 and 13 more"


def test_groups_and_ports_of_others_are_refused(
    at_alice: Client, signed_in: SignedIn, charlie: Person, bob: Person, port: Port
) -> None:
    theirs = services.create_security_group(charlie.project_id, "theirs")
    path = f"/ports/{port.id}/security-groups/"
    refused = at_alice.post(path, {"security_groups": [str(theirs.id)]})
    assert refused.status_code == 422
    assert list(refused.context["form"].errors) == ["security_groups"]
    assert signed_in(charlie).post(path, {}).status_code == 404
    assert signed_in(bob).post(path, {}).status_code == 403
    assert port.security_groups.count() == 1
    assert path not in signed_in(bob).get(f"/instances/{port.device_id}/network/").content.decode()


def test_the_page_follows_rules_that_change(alice: Person, instance: Instance, group: SecurityGroup) -> None:
    before = events.latest_id()
    services.allow_ingress(group, "tcp", 8080)
    html = render(
        f"instance/{instance.id}/network", events.since([f"project:{alice.project_id}"], before), alice.context
    )
    assert html.lstrip().startswith('<section id="instance-reach"')
    assert "TCP 8080" in html


def test_it_needs_few_queries(instance: Instance, django_assert_max_num_queries: Any) -> None:
    with django_assert_max_num_queries(12):
        reach_of(instance.id)
