"""Subnet pools and address scopes through the API, with Neutron's refusals."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.network import services
from provisioning.network.models import AddressScope, RbacPolicy, Subnet, SubnetPool
from tests.network.test_subnets import send, subnet
from tests.support.cast import Person
from tests.support.tables import each_row


def pool(person: Person, **values: Any) -> tuple[int, Any]:
    body = {"name": "pool", "prefixes": ["10.0.0.0/16"]} | values
    status, answer = send(person, "POST", "/subnetpools", {"subnetpool": body})
    return status, answer["subnetpool"] if status == 201 else answer["NeutronError"]


def scope(person: Person, **values: Any) -> tuple[int, Any]:
    status, answer = send(person, "POST", "/address-scopes", {"address_scope": {"name": "s", "ip_version": 4} | values})
    return status, answer["address_scope"] if status == 201 else answer["NeutronError"]


def test_a_pool_has_what_follows_from_its_prefixes(alice: Person) -> None:
    status, made = pool(alice, prefixes=["10.1.0.0/16", "10.0.0.0/16", "10.0.3.0/24"])
    assert (status, made["prefixes"], made["ip_version"]) == (201, ["10.0.0.0/15"], 4)
    assert (made["min_prefixlen"], made["max_prefixlen"], made["default_prefixlen"]) == ("8", "32", "8")
    _, six = pool(alice, prefixes=["2001:db8::/48"], default_prefixlen=64)
    assert (six["ip_version"], six["min_prefixlen"], six["max_prefixlen"]) == (6, "64", "128")


@each_row(
    ("values", "kind"),
    [
        ({"prefixes": []}, "InvalidInput"),
        ({"prefixes": ["10.0.0.0/8", "fd00::/48"]}, "PrefixVersionMismatch"),
        ({"prefixes": ["10.0.0.0/33"]}, "HTTPBadRequest"),
        ({"min_prefixlen": 24, "max_prefixlen": 20}, "IllegalSubnetPoolPrefixBounds"),
        ({"default_prefixlen": 4}, "IllegalSubnetPoolPrefixBounds"),
        ({"max_prefixlen": 33}, "IllegalSubnetPoolPrefixBounds"),
        ({"shared": True}, "PolicyNotAuthorized"),
        ({"is_default": True}, "PolicyNotAuthorized"),
        ({"address_scope_id": "7" * 32}, "AddressScopeNotFound"),
    ],
)
def test_a_wrong_pool_is_refused(alice: Person, values: Any, kind: str) -> None:
    status, error = pool(alice, **values)
    assert (status >= 400, error["type"]) == (True, kind), error
    assert not SubnetPool.objects.exists()


@pytest.mark.slow
def test_subnets_are_taken_from_a_pool(alice: Person) -> None:
    _, made = pool(alice, prefixes=["10.0.0.0/22"], default_prefixlen=24, max_prefixlen=26, min_prefixlen=23)
    from_pool = {"subnetpool_id": made["id"]}

    def take(**values: Any) -> tuple[int, Any]:
        network = services.create_network(alice.project_id, "n")
        status, answer = subnet(alice, network, **from_pool, **values)
        return status, answer["cidr"] if status == 201 else answer["type"]

    assert take() == (201, "10.0.0.0/24")
    assert take(cidr="10.0.2.0/24") == (201, "10.0.2.0/24")
    assert take(cidr="10.0.2.64/26") == (400, "SubnetAllocationError")
    assert take(cidr="10.9.0.0/24") == (400, "SubnetAllocationError")
    assert take(prefixlen=26) == (201, "10.0.1.0/26")
    assert take(prefixlen=27) == (400, "MaxPrefixSubnetAllocationError")
    assert take(prefixlen=22) == (400, "MinPrefixSubnetAllocationError")
    assert take(prefixlen=23) == (400, "SubnetAllocationError")
    assert take(prefixlen=24, cidr="10.0.3.0/24") == (400, "BadSubnetRequest")
    assert take(prefixlen=26) == (201, "10.0.1.64/26")
    assert take() == (201, "10.0.3.0/24")
    assert send(alice, "DELETE", f"/subnetpools/{made['id']}")[1]["NeutronError"]["type"] == "SubnetPoolDeleteError"
    services.delete_subnet(Subnet.objects.get(cidr="10.0.3.0/24"))
    assert take() == (201, "10.0.3.0/24")


def test_ranges_of_one_network_come_from_one_pool(alice: Person) -> None:
    network = services.create_network(alice.project_id, "n")
    _, made = pool(alice)
    assert subnet(alice, network, cidr="10.0.7.0/24", subnetpool_id=made["id"])[0] == 201
    assert subnet(alice, network, cidr="10.9.0.0/24")[1]["type"] == "NetworkSubnetPoolAffinityError"


@pytest.mark.slow
def test_a_pool_s_quota_holds_for_each_project(alice: Person) -> None:
    _, made = pool(alice, default_quota=512, default_prefixlen=24)
    network = services.create_network(alice.project_id, "n")
    result = [subnet(alice, network, subnetpool_id=made["id"])[0] for _ in range(3)]
    assert result == [201, 201, 409]


def test_the_default_pool_is_taken_when_none_is_named(alice: Person, operator: Person) -> None:
    assert pool(operator, shared=True, is_default=True, default_prefixlen=26)[0] == 201
    assert pool(operator, is_default=True)[1]["type"] == "InvalidInput"
    network = services.create_network(alice.project_id, "n")
    status, made = subnet(alice, network, use_default_subnetpool=True)
    assert (status, made["cidr"]) == (201, "10.0.0.0/26")
    assert made["subnetpool_id"]


def test_prefixes_only_grow(alice: Person) -> None:
    _, made = pool(alice)
    path = f"/subnetpools/{made['id']}"
    grown = send(alice, "PUT", path, {"subnetpool": {"prefixes": ["10.0.0.0/16", "10.7.0.0/16"]}})[1]["subnetpool"]
    assert (grown["prefixes"], grown["revision_number"]) == (["10.0.0.0/16", "10.7.0.0/16"], 1)
    for wrong, kind in (
        ({"prefixes": ["10.7.0.0/16"]}, "IllegalSubnetPoolPrefixUpdate"),
        ({"prefixes": ["fd00::/48"]}, "PrefixVersionMismatch"),
        ({"shared": True}, "HTTPBadRequest"),
        ({"min_prefixlen": 30, "max_prefixlen": 28}, "IllegalSubnetPoolPrefixBounds"),
    ):
        assert send(alice, "PUT", path, {"subnetpool": wrong})[1]["NeutronError"]["type"] == kind
    assert send(alice, "DELETE", path)[0] == 204


@pytest.mark.slow
def test_scopes(alice: Person, charlie: Person, operator: Person) -> None:
    _, made = scope(alice)
    assert pool(alice, address_scope_id=made["id"])[0] == 201
    again = {"address_scope_id": made["id"], "name": "again", "prefixes": ["10.0.0.0/8"], "default_prefixlen": 24}
    conflict = send(alice, "POST", "/subnetpools", {"subnetpool": again})
    assert (conflict[0], conflict[1]["NeutronError"]["type"]) == (409, "AddressScopePrefixConflict")
    status, six = pool(alice, address_scope_id=made["id"], prefixes=["fd00::/48"])
    assert (status, six["type"]) == (400, "IllegalSubnetPoolIpVersionAssociationToAddressScope")
    path = f"/address-scopes/{made['id']}"
    assert send(alice, "DELETE", path)[1]["NeutronError"]["type"] == "AddressScopeInUse"
    assert scope(alice, shared=True)[1]["type"] == "PolicyNotAuthorized"
    _, everybodys = scope(operator, shared=True, name="all")
    assert [row["name"] for row in send(charlie, "GET", "/address-scopes")[1]["address_scopes"]] == ["all"]
    given = pool(charlie, address_scope_id=everybodys["id"])[1]
    assert given["address_scope_id"] == everybodys["id"]
    assert send(charlie, "DELETE", f"/subnetpools/{given['id']}")[0] == 204
    assert pool(charlie, address_scope_id=made["id"])[1]["type"] == "AddressScopeNotFound"
    services.create_rbac_policy(
        alice.project_id,
        "address_scope",
        AddressScope.objects.get(pk=made["id"]),
        RbacPolicy.SHARED,
        charlie.project_id.hex,
    )
    shared = pool(charlie, address_scope_id=made["id"], prefixes=["10.8.0.0/16"])[1]
    assert shared["address_scope_id"] == made["id"]
    assert send(charlie, "DELETE", f"/subnetpools/{shared['id']}")[0] == 204
    status, answer = send(operator, "PUT", f"/address-scopes/{everybodys['id']}", {"address_scope": {"shared": False}})
    assert (status, answer["NeutronError"]["type"]) == (400, "AddressScopeUpdateError")
    assert send(alice, "PUT", path, {"address_scope": {"name": "other"}})[1]["address_scope"]["name"] == "other"
    for row in SubnetPool.objects.filter(address_scope=made["id"]):
        assert send(alice, "DELETE", f"/subnetpools/{row.id}")[0] == 204
    assert send(alice, "DELETE", path)[0] == 204
    assert AddressScope.objects.count() == 1


@pytest.mark.both_databases("locks")
def test_a_network_shows_the_scopes_of_its_ranges(alice: Person) -> None:
    _, made = scope(alice)
    _, taken = pool(alice, address_scope_id=made["id"], default_prefixlen=24)
    inside, outside = (services.create_network(alice.project_id, name) for name in ("in", "out"))
    assert subnet(alice, inside, subnetpool_id=taken["id"])[0] == 201
    shown = send(alice, "GET", f"/networks/{inside.id}")[1]["network"]
    assert (shown["ipv4_address_scope"], shown["ipv6_address_scope"]) == (made["id"], None)
    assert send(alice, "GET", f"/networks/{outside.id}")[1]["network"]["ipv4_address_scope"] is None
    networks = send(alice, "GET", f"/networks?ipv4_address_scope={made['id']}")[1]["networks"]
    assert [row["name"] for row in networks] == ["in"]
