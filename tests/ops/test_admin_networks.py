"""The operators' pages of networking: each list costs the same however long it is, and is searched."""

from __future__ import annotations

import re
import uuid

import pytest
from django.apps import apps
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from compute_agent.contract.network import NETWORK
from provisioning.network import services
from provisioning.network.models import AddressGroup, Delivery, DeliveryMark, Network, PortForwarding, Router
from provisioning.network.services.floating_ips.port_forwardings import ForwardingRequest
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.jobs import drain
from tests.support.standing import standing

LISTS = (
    "network", "subnet", "subnetpool", "addressscope", "port", "rbacpolicy", "router", "floatingip", "portforwarding",
    "securitygroup", "securitygrouprule", "addressgroup", "defaultsecuritygrouprule", "delivery",
)  # fmt: skip


@pytest.fixture
@standing
def public(operator: Person) -> Network:
    network = services.create_network(
        operator.project_id, "public", external=True, network_type="flat", physical_network="external"
    )
    services.create_subnet(network, "203.0.113.0/24", enable_dhcp=False)
    return network


def one_of_each(alice: Person, public: Network, number: int) -> None:
    """Make another of everything that the lists show."""
    scope = services.create_address_scope(alice.project_id, f"scope-{number}", 4)
    services.create_subnet_pool(alice.project_id, f"pool-{number}", [f"10.{100 + number}.0.0/16"], address_scope=scope)
    network = services.create_network(alice.project_id, f"net-{number}")
    subnet = services.create_subnet(network, f"10.{number}.0.0/24", name=f"subnet-{number}")
    router = services.create_router(alice.project_id, name=f"router-{number}", gateway=services.Gateway(public))
    services.add_interface_by_subnet(router, subnet, anywhere=True)
    port = services.create_port(alice.project_id, network)
    floating = services.create_floating_ip(alice.project_id, public)
    request = ForwardingRequest("tcp", (22, 22), port, port.fixed_ips.get().address, (22, 22))
    services.create_port_forwarding(floating, request)
    services.create_floating_ip(alice.project_id, public)
    group = services.create_security_group(alice.project_id, f"group-{number}")
    services.allow_ingress(group, "tcp", 22)
    services.create_address_group(alice.project_id, f"addresses-{number}", addresses=["192.0.2.0/24"])
    services.create_rbac_policy(alice.project_id, "network", network, "access_as_shared", uuid.uuid4().hex)
    Delivery.objects.create(host_id=uuid.uuid4(), kind=NETWORK, subject_id=network.id)


@pytest.mark.slow
def test_a_list_costs_as_much_with_one_row_as_with_many(admin: Client, alice: Person, public: Network) -> None:
    def cost() -> dict[str, int]:
        result = {}
        for name in LISTS:
            with CaptureQueriesContext(connection) as queries:
                assert admin.get(f"/admin/network/{name}/").status_code == 200
            result[name] = len(queries)
        return result

    one_of_each(alice, public, 1)
    cost()  # what is asked once for a process
    once = cost()
    for number in range(2, 5):
        one_of_each(alice, public, number)
    assert cost() == once


@pytest.mark.slow
def test_records_are_found_by_what_people_know_of_them(admin: Client, alice: Person, public: Network) -> None:
    for number in (1, 2):
        one_of_each(alice, public, number)
    forwarding = PortForwarding.objects.order_by("created_at").first()
    assert forwarding is not None
    for name, words, result in (
        ("network", "10.1.0.0/24", "net-1"),
        ("subnet", "net-2", "subnet-2"),
        ("port", "10.1.0.1", "10.1.0.1"),
        ("router", outer_address("router-2"), "router-2"),
        ("floatingip", forwarding.floating_ip.address, forwarding.floating_ip.address),
        ("securitygroup", "group-1", "group-1"),
        ("securitygrouprule", "group-2", "group-2"),
        ("addressgroup", str(AddressGroup.objects.get(name="addresses-2").id), "addresses-2"),
        ("subnetpool", alice.project_id.hex[:8], "pool-1"),
    ):  # fmt: skip
        answer = admin.get(f"/admin/network/{name}/", {"q": words})
        page = answer.content.decode()
        assert result in page, name
        assert (
            len(answer.context["cl"].result_list) < answer.context["cl"].root_queryset.count() or name == "subnetpool"
        )
        assert alice.project.name in page or name == "securitygrouprule", name


def outer_address(name: str) -> str:
    port = Router.objects.get(name=name).gateway_port
    assert port is not None
    return port.fixed_ips.get().address


@pytest.mark.slow
def test_every_record_of_networking_can_be_opened(admin: Client, alice: Person, public: Network) -> None:
    one_of_each(alice, public, 1)
    for name in LISTS:
        first = apps.get_model("network", name)._default_manager.first()
        if first is not None:
            assert admin.get(f"/admin/network/{name}/{first.pk}/change/").status_code == 200, name


@pytest.mark.slow
def test_an_operator_tells_a_host_again(admin: Client, alice: Person, db: None) -> None:
    cloud = Cloud.make()
    agent = cloud.add_host("one", documents=True)
    cloud.running(alice.context)
    row = Delivery.objects.get(kind=NETWORK)
    before, _ = agent.documents[NETWORK, str(cloud.network.id)]
    admin.post("/admin/network/delivery/", {"action": "tell_again", "_selected_action": [str(row.pk)]})
    assert DeliveryMark.objects.get().subject_id == cloud.network.id
    assert drain() == 1
    cloud.run()
    assert agent.documents[NETWORK, str(cloud.network.id)][0] == before + 1


@pytest.mark.slow
def test_one_page_leads_to_another(admin: Client, alice: Person, public: Network) -> None:
    one_of_each(alice, public, 1)
    network, router = Network.objects.get(name="net-1"), Router.objects.get(name="router-1")
    ports = f"/admin/network/port/?network__id__exact={network.id}"
    project = f"/admin/identity/project/{alice.project_id}/change/"
    for name, links in (
        ("network", [ports, project]),
        ("subnet", [f"/admin/network/network/{network.id}/change/"]),
        ("router", [f"/admin/network/network/{each.id}/change/" for each in (network, public)]),
        ("port", [f"/admin/network/router/{router.id}/change/"]),
        ("floatingip", [f"/admin/network/network/{public.id}/change/"]),
        ("delivery", [f"/admin/network/network/{network.id}/change/"]),
    ):
        page = admin.get(f"/admin/network/{name}/").content.decode()
        for link in links:
            assert f'href="{link}"' in page, name
    there = {row.network_id for row in admin.get(ports).context["cl"].result_list}
    assert there == {network.id}
    group = alice.project.name
    assert {row.name for row in admin.get("/admin/network/router/", {"q": group}).context["cl"].result_list} == {
        "router-1"
    }


def test_the_page_of_a_record_begins_with_what_it_is_called(admin: Client, alice: Person, public: Network) -> None:
    network = Network.objects.get(id=public.id)
    shown = re.findall(
        r'<div class="[^"]*field-([a-z_]+)"', admin.get(f"/admin/network/network/{network.id}/change/").content.decode()
    )
    assert shown[:5] == ["name", "id", "state", "error", "project"]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "field"), [("router", "host"), ("subnet", "ipv6_ra_mode"), ("port", "device_owner")])
def test_each_choice_of_a_filter_has_a_name(
    admin: Client, alice: Person, public: Network, name: str, field: str
) -> None:
    one_of_each(alice, public, 1)
    Router.objects.create(project_id=alice.project_id, name="elsewhere", host="host-1")
    (network,) = Network.objects.filter(name="net-1")
    services.create_subnet(network, "fd00:1::/64", ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
    shown = admin.get(f"/admin/network/{name}/").content.decode()
    names = re.findall(rf'<a href="\?{field}=[^"]*">\s*([^<]*?)\s*</a>', shown)
    assert "none" in names
    assert all(names)
