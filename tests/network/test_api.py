"""The Networking API, by Neutron's reference."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from provisioning.network import services
from provisioning.network.models import Network, Port, Subnet
from tests.support.cast import Api, People, Person
from tests.support.tables import each_row

V2 = "/network/v2.0"
STANDARD_FIELDS = {
    "id",
    "name",
    "description",
    "project_id",
    "tenant_id",
    "created_at",
    "updated_at",
    "revision_number",
    "tags",
}
NETWORK_FIELDS = STANDARD_FIELDS | {
    "status",
    "admin_state_up",
    "shared",
    "mtu",
    "subnets",
    "router:external",
    "port_security_enabled",
    "is_default",
    "dns_domain",
    "ipv4_address_scope",
    "ipv6_address_scope",
    "availability_zones",
    "availability_zone_hints",
}
SUBNET_FIELDS = STANDARD_FIELDS | {
    "network_id",
    "ip_version",
    "cidr",
    "gateway_ip",
    "enable_dhcp",
    "allocation_pools",
    "dns_nameservers",
    "host_routes",
    "subnetpool_id",
    "ipv6_ra_mode",
    "ipv6_address_mode",
    "service_types",
}
PORT_FIELDS = STANDARD_FIELDS | {
    "network_id",
    "mac_address",
    "admin_state_up",
    "status",
    "device_id",
    "device_owner",
    "dns_name",
    "dns_assignment",
    "fixed_ips",
    "security_groups",
    "allowed_address_pairs",
    "extra_dhcp_opts",
    "port_security_enabled",
    "binding:vnic_type",
}
BINDING = {"binding:host_id", "binding:vif_type", "binding:vif_details", "binding:profile", "trusted"}


@pytest.fixture
def port(alice: Person, net: Network) -> Port:
    requested = [{"network_id": str(net.id), "fixed_ip": None}]
    return services.allocate(uuid.uuid4(), alice.project_id, requested, [], "secret-host", "nova")[0]


def get(person: Person | None, path: str) -> Any:
    answer = Api(person).get(f"{V2}{path}")
    assert answer.status_code == 200, answer.content
    return answer.json()


def test_versions_and_resources_are_public(db: None) -> None:
    [version] = Api(None).get("/network").json()["versions"]
    assert (version["id"], version["status"]) == ("v2.0", "CURRENT")
    assert version["links"][0]["href"].endswith("/network/v2.0/")
    for path in ("/network/", "/network/v2.0", "/network/v2.0/"):
        assert Api(None).get(path).status_code == 200
    named = {entry["collection"] for entry in get(None, "")["resources"]}
    assert {"networks", "subnets", "subnetpools", "address_scopes", "ports", "security_groups"} <= named


def test_without_a_token_nothing_is_reported(net: Network) -> None:
    for path in ("/networks", f"/networks/{net.id}", "/ports", "/extensions"):
        answer = Api(None).get(V2 + path)
        assert answer.status_code == 401
        assert answer.json()["error"]["code"] == 401


def test_shapes_have_neutrons_names(bob: Person, port: Port, net: Network) -> None:
    [network] = get(bob, "/networks")["networks"]
    assert set(network) == NETWORK_FIELDS
    assert network["project_id"] == network["tenant_id"] == bob.project_id.hex
    assert (network["status"], network["router:external"], network["mtu"]) == ("ACTIVE", False, 1450)
    [subnet] = get(bob, "/subnets")["subnets"]
    assert set(subnet) == SUBNET_FIELDS
    assert network["subnets"] == [subnet["id"]]
    assert subnet["allocation_pools"] == [{"start": "10.20.0.2", "end": "10.20.0.254"}]
    [shown] = get(bob, "/ports?device_owner=compute:nova")["ports"]
    assert set(shown) == PORT_FIELDS
    assert shown["fixed_ips"] == [{"subnet_id": subnet["id"], "ip_address": "10.20.0.2"}]
    assert (shown["device_owner"], shown["device_id"]) == ("compute:nova", str(port.device_id))
    assert "secret-host" not in str(shown)
    assert get(bob, f"/ports/{port.id}")["port"] == shown
    assert get(bob, f"/networks/{net.id}.json")["network"] == network


def test_operators_see_where_a_port_is_bound(operator: Person, port: Port) -> None:
    [shown] = get(operator, "/ports?device_owner=compute:nova")["ports"]
    assert set(shown) == PORT_FIELDS | BINDING
    assert shown["binding:host_id"] == "secret-host"
    assert get(operator, "/ports?binding:host_id=elsewhere")["ports"] == []
    assert get(operator, "/networks")["networks"][0]["provider:network_type"] == "vxlan"


def test_other_projects_objects_do_not_exist(charlie: Person, port: Port, net: Network) -> None:
    group = port.security_groups.get()
    rule = group.rules.all()[0]
    assert get(charlie, "/networks") == {"networks": []}
    assert get(charlie, f"/ports?device_id={port.device_id}") == {"ports": []}
    for path, kind in (
        (f"/networks/{net.id}", "NetworkNotFound"),
        (f"/subnets/{net.subnets.get().id}", "SubnetNotFound"),
        (f"/ports/{port.id}", "PortNotFound"),
        (f"/security-groups/{group.id}", "SecurityGroupNotFound"),
        (f"/security-group-rules/{rule.id}", "SecurityGroupRuleNotFound"),
        ("/networks/net", "NetworkNotFound"),
    ):
        answer = Api(charlie).get(V2 + path)
        assert answer.status_code == 404
        fault = answer.json()["NeutronError"]
        assert (fault["type"], fault["detail"]) == (kind, "")
        assert path.rsplit("/", 1)[1] in fault["message"]
        assert answer["X-Openstack-Request-Id"].startswith("req-")


def test_shared_networks_are_seen_by_all(charlie: Person, net: Network) -> None:
    services.update_network(Network.objects.get(), {"shared": True})
    assert [network["id"] for network in get(charlie, "/networks?shared=True")["networks"]] == [str(net.id)]
    assert len(get(charlie, f"/subnets?network_id={net.id}")["subnets"]) == 1
    assert get(charlie, "/networks?shared=false")["networks"] == []


@pytest.mark.slow
def test_filters(alice: Person, port: Port, net: Network) -> None:
    other = services.create_network(alice.project_id, "other")

    def names(query: str) -> list[str]:
        return sorted(network["name"] for network in get(alice, f"/networks?{query}")["networks"])

    assert names("name=net") == ["net"]
    assert names("name=net&name=other") == ["net", "other"]
    assert names(f"id={other.id}") == names(f"id={other.id.hex}") == ["other"]
    assert names("id=nonsense") == []
    assert names(f"project_id={alice.project_id.hex}&name=net") == ["net"]
    assert names(f"tenant_id={uuid.uuid4().hex}") == []
    assert names("router:external=False") == names("status=ACTIVE") == ["net", "other"]
    assert names("router:external=True") == names("status=DOWN") == []

    def ports(query: str) -> int:
        return len(get(alice, f"/ports?{query}")["ports"])

    assert ports("fixed_ips=ip_address=10.20.0.2") == ports(f"mac_address={port.mac_address.upper()}") == 1
    assert ports("fixed_ips=ip_address=10.20.0.3") == ports("fixed_ips=ip_address=nonsense") == 0
    assert (
        ports(f"fixed_ips=subnet_id={net.subnets.get().id}&device_owner=compute:nova")
        == ports(f"device_id={port.device_id}")
        == 1
    )
    assert ports("status=ACTIVE&device_owner=compute:nova") == 0


@each_row(
    "query",
    [
        "nonsense=1",
        "admin_state_up=perhaps",
        "limit=-1",
        "limit=x",
        "sort_key=nonsense",
        "sort_dir=asc",
        "sort_key=name&sort_dir=up",
        "binding:host_id=x",
        "fixed_ips=nonsense=1",
    ],
)
def test_a_wrong_query_is_refused(alice: Person, query: str) -> None:
    answer = Api(alice).get(f"{V2}/ports?{query}")
    assert answer.status_code == 400, answer.content
    assert answer.json()["NeutronError"]["type"] == "InvalidInput"


def test_fields_sorting_and_pages(alice: Person, net: Network) -> None:
    for name in ("c", "a", "b"):
        services.create_network(alice.project_id, name)
    assert get(alice, "/networks?sort_key=name&sort_dir=desc&fields=name")["networks"] == [
        {"name": name} for name in ("net", "c", "b", "a")
    ]
    assert get(alice, f"/networks/{net.id}?fields=id&fields=name") == {"network": {"id": str(net.id), "name": "net"}}
    seen: list[str] = []
    path = "/networks?limit=3&sort_key=name&sort_dir=asc&sort_key=id"
    for _ in range(3):
        body = get(alice, path)
        seen += [network["name"] for network in body["networks"]]
        links = {link["rel"]: link["href"] for link in body.get("networks_links", [])}
        if "next" not in links:
            break
        path = links["next"].partition(V2)[2]
    assert seen == ["a", "b", "c", "net"]
    last = Network.objects.get(name="net").id
    before = get(alice, f"/networks?limit=2&sort_key=name&page_reverse=True&marker={last}")["networks"]
    assert [network["name"] for network in before] == ["b", "c"]


def test_a_marker_of_another_project_is_unknown(charlie: Person, net: Network) -> None:
    for path, kind in ((f"networks?marker={net.id}", "NetworkNotFound"), ("ports?marker=x", "PortNotFound")):
        answer = Api(charlie).get(f"{V2}/{path}")
        assert (answer.status_code, answer.json()["NeutronError"]["type"]) == (404, kind)


def test_the_default_group_is_there_at_the_first_look(charlie: Person) -> None:
    [group] = get(charlie, "/security-groups")["security_groups"]
    assert group["name"] == "default"
    rules = get(charlie, f"/security-group-rules?security_group_id={group['id']}")["security_group_rules"]
    assert sorted((rule["direction"], rule["ethertype"], rule["remote_group_id"]) for rule in rules) == [
        ("egress", "IPv4", None),
        ("egress", "IPv6", None),
        ("ingress", "IPv4", group["id"]),
        ("ingress", "IPv6", group["id"]),
    ]
    assert sorted(rule["id"] for rule in group["security_group_rules"]) == sorted(rule["id"] for rule in rules)
    assert get(charlie, f"/security-group-rules/{rules[0]['id']}")["security_group_rule"] == rules[0]
    assert len(get(charlie, "/security-group-rules?direction=ingress")["security_group_rules"]) == 2


@each_row("value", ["--1", "-", "1-", "٣", "9" * 40])
def test_what_is_no_number_matches_nothing(alice: Person, value: str) -> None:
    answer = Api(alice).get(f"/network/v2.0/security-group-rules?port_range_min={value}")
    assert (answer.status_code, answer.json()) == (200, {"security_group_rules": []})


@pytest.mark.parametrize("path", ["/extensions", "/quotas"])
def test_writing_is_refused_with_neutrons_message(alice: Person, path: str) -> None:
    answer = Api(alice).post(V2 + path, {"anything": {}})
    assert answer.status_code == 405
    assert answer.json()["NeutronError"]["type"] == "HTTPMethodNotAllowed"


def test_unknown_paths_have_neutrons_fault(alice: Person) -> None:
    for path in ("/network/v2.0/trunks", "/network/v3", "/network/v2.0/extensions/trunk"):
        answer = Api(alice).get(path)
        assert answer.status_code == 404
        assert set(answer.json()["NeutronError"]) == {"type", "message", "detail"}


def test_extensions(alice: Person) -> None:
    aliases = {extension["alias"] for extension in get(alice, "/extensions")["extensions"]}
    assert {"security-group", "port-security", "binding"} <= aliases
    assert "trunk" not in aliases
    assert get(alice, "/extensions/security-group")["extension"]["alias"] == "security-group"


def test_queries_do_not_grow_with_the_lists(people: People, net: Network) -> None:
    most = {"networks": 6, "subnets": 3, "ports": 6, "security-groups": 5, "security-group-rules": 4}
    alice = people.alice
    requested = [{"network_id": str(net.id), "fixed_ip": None}]
    api = Api(alice)
    api.get(f"{V2}/networks")
    for _ in range(2):
        for _ in range(4):
            services.allocate(uuid.uuid4(), alice.project_id, requested, [], "host", "nova")
            number = Subnet.objects.count()
            services.create_subnet(services.create_network(alice.project_id, "n"), f"10.{40 + number}.0.0/24")
        counts = {}
        for path in most:
            with CaptureQueriesContext(connection) as queries:
                assert api.get(f"{V2}/{path}").status_code == 200
            counts[path] = len(queries)
        assert counts == most
