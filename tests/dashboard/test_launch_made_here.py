"""Networks and security groups made in the wizard: chosen at once, and what is wrong said at its field."""

from __future__ import annotations

import pytest
from django.test import Client

from provisioning.network import services
from provisioning.network.models import Network, Port, SecurityGroup
from tests.dashboard.conftest import SignedIn, offered, ticked
from tests.support.cast import Person
from tests.support.clouds import Cloud

PATH = "/instances/launch/"


@pytest.mark.slow
def test_a_network_is_made_and_chosen_beside_those_that_were(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    opened = at_alice.get(PATH)
    free = opened.context["new_network"]["net_cidr"].value()
    typed = {"net_name": "backend", "net_cidr": free, "networks": [str(cloud.network.id)]}
    answer = at_alice.post(f"{PATH}networks/", typed)
    made = Network.objects.get(project_id=alice.project_id)
    assert (made.name, made.subnets.get().cidr) == ("backend", free)
    assert ticked(answer, "networks") == [str(cloud.network.id), str(made.id)]
    assert set(offered(answer, "networks")) == {"net", "backend"}
    assert answer["HX-Trigger-After-Swap"] == "made-in-wizard"
    assert answer.context["new_network"]["net_cidr"].value() != free


def test_it_is_on_the_router_that_leads_out(at_alice: Client, alice: Person, operator: Person, cloud: Cloud) -> None:
    outside = services.create_network(operator.project_id, "outside", external=True)
    services.create_subnet(outside, "203.0.113.0/24", enable_dhcp=False)
    router = services.create_router(alice.project_id, name="r", gateway=services.Gateway(outside))
    typed = {"net_name": "backend", "net_cidr": "10.78.0.0/24", "net_router": str(router.id)}
    at_alice.post(f"{PATH}networks/", typed)
    leg = Port.objects.get(device_id=router.id, device_owner="network:router_interface")
    assert leg.network.name == "backend"


@pytest.mark.parametrize(
    ("typed", "places"),
    [
        ({"net_name": "", "net_cidr": "x"}, {"net_name", "net_cidr"}),
        ({"net_name": "x", "net_cidr": "10.0.0.1"}, {"net_cidr"}),
    ],
)
def test_what_is_wrong_with_a_network_is_reported_and_nothing_is_made(
    at_alice: Client, alice: Person, cloud: Cloud, typed: dict[str, str], places: set[str]
) -> None:
    answer = at_alice.post(f"{PATH}networks/", {**typed, "networks": [str(cloud.network.id)]})
    assert set(answer.context["new_network"].errors) == places
    assert ticked(answer, "networks") == [str(cloud.network.id)]
    assert "HX-Trigger-After-Swap" not in answer
    assert not Network.objects.filter(project_id=alice.project_id).exists()


def test_a_group_is_made_with_its_templates_and_chosen(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    default = services.ensure_default_security_group(alice.project_id)
    typed = {"group_name": "web", "group_allows": ["ssh", "web"], "security_groups": [str(default.id)]}
    answer = at_alice.post(f"{PATH}security-groups/", typed)
    made = SecurityGroup.objects.get(project_id=alice.project_id, name="web")
    rules = made.rules.filter(direction="ingress", ethertype="IPv4").order_by("port_range_min")
    assert list(rules.values_list("port_range_min", "remote_ip_prefix")) == [
        (port, "0.0.0.0/0") for port in (22, 80, 443)
    ]
    assert ticked(answer, "security_groups") == [str(default.id), str(made.id)]


def test_a_group_that_cannot_be_is_not(at_alice: Client, alice: Person, cloud: Cloud) -> None:
    answer = at_alice.post(f"{PATH}security-groups/", {"group_name": "default", "group_allows": "all"})
    assert set(answer.context["new_group"].errors) == {"group_allows"}
    answer = at_alice.post(f"{PATH}security-groups/", {"group_name": "default"})
    assert set(answer.context["new_group"].errors) == {"group_name"}
    assert not SecurityGroup.objects.filter(project_id=alice.project_id).exists()


def test_a_reader_makes_neither(signed_in: SignedIn, bob: Person) -> None:
    client = signed_in(bob)
    assert client.post(f"{PATH}networks/", {"net_name": "x", "net_cidr": "10.78.0.0/24"}).status_code == 403
    assert client.post(f"{PATH}security-groups/", {"group_name": "x"}).status_code == 403
