"""Ranges whose address has bits behind the prefix: accepted, shown as sent, and meant as the range they are in."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.network import addressing, services
from provisioning.network.delivery.documents import _rule
from provisioning.network.models import Network, Router, SecurityGroupRule, Subnet
from provisioning.network.selectors.host_refs import subnet_refs
from tests.network.test_security_groups_api import V2, made, refused, rule
from tests.support.cast import Api, Person
from tests.support.tables import each_row

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


@pytest.fixture
def api(alice: Person) -> Api:
    return Api(alice)


@pytest.fixture
def group(api: Api) -> str:
    return str(made(api, "security_group", name="g")["id"])


@each_row(
    ("sent", "shown", "normalized"),
    [
        ("10.0.0.5/24", "10.0.0.5/24", "10.0.0.0/24"),
        ("10.0.0.5", "10.0.0.5/32", "10.0.0.5/32"),
        ("10.0.0.0/24", "10.0.0.0/24", "10.0.0.0/24"),
        ("0.0.0.7/0", "0.0.0.7/0", "0.0.0.0/0"),
        ("2001:DB8::5/64", "2001:db8::5/64", "2001:db8::/64"),
    ],
)
def test_a_rule_keeps_its_prefix_and_shows_the_range(
    api: Api, group: str, sent: str, shown: str, normalized: str
) -> None:
    more = {"ethertype": "IPv6" if ":" in sent else "IPv4", "remote_ip_prefix": sent}
    first = rule(api, group, **more).json()["security_group_rule"]
    assert (first["remote_ip_prefix"], first["normalized_cidr"]) == (shown, normalized)
    again = api.get(f"{V2}/security-group-rules/{first['id']}").json()["security_group_rule"]
    assert again == first
    assert len(api.get(f"{V2}/security-group-rules?remote_ip_prefix={sent}").json()["security_group_rules"]) == 1
    refused(rule(api, group, **more | {"remote_ip_prefix": normalized}), 409, "SecurityGroupRuleExists")
    assert _rule(SecurityGroupRule.objects.get(id=first["id"])).remote_ip_prefix == normalized


def test_a_subnet_has_the_range_that_its_cidr_is_in(api: Api, net: Network) -> None:
    subnet = made(api, "subnet", network_id=str(net.id), ip_version=4, cidr="10.67.0.5/24")
    assert (subnet["cidr"], subnet["gateway_ip"]) == ("10.67.0.0/24", "10.67.0.1")
    assert services.create_subnet(net, "10.68.0.9/24").cidr == "10.68.0.0/24"


def test_routes_and_pairs_are_shown_as_sent(api: Api, alice: Person, net: Network) -> None:
    routes = [{"destination": "10.9.0.7/24", "nexthop": "10.67.0.9"}]
    subnet = made(api, "subnet", network_id=str(net.id), ip_version=4, cidr="10.67.0.0/24", host_routes=routes)
    assert subnet["host_routes"] == routes
    row = Subnet.objects.get(id=subnet["id"])
    assert [each.destination for each in subnet_refs([row], set())[0].host_routes] == ["10.9.0.0/24"]

    pairs = [{"ip_address": "10.67.0.200/29"}, {"ip_address": "10.67.0.7"}]
    port = made(api, "port", network_id=str(net.id), allowed_address_pairs=pairs)
    assert [each["ip_address"] for each in port["allowed_address_pairs"]] == ["10.67.0.200/29", "10.67.0.7"]
    assert addressing.network_of("10.67.0.203/29") == "10.67.0.200/29"

    router = made(api, "router", name="r")
    services.add_interface_by_subnet(Router.objects.get(id=router["id"]), row)
    url = f"{V2}/routers/{router['id']}"
    changed: dict[str, Any] = api.put(url, {"router": {"routes": routes}}).json()["router"]
    assert changed["routes"] == routes
    twice = [*routes, {"destination": "10.9.0.0/24", "nexthop": "10.67.0.9"}]
    refused(api.put(url, {"router": {"routes": twice}}), 400, "InvalidRoutes")
    removed = api.put(f"{url}/remove_extraroutes", {"router": {"routes": routes}}).json()["router"]
    assert removed["routes"] == []
