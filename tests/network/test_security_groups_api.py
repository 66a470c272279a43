"""Security groups, rules and address groups over the Networking API."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from provisioning.network.models import SecurityGroup, SecurityGroupRule
from provisioning.network.services.security import security_group_rules
from tests.support.cast import Api, Person
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
V2 = "/network/v2.0"


@pytest.fixture
def api(alice: Person) -> Api:
    return Api(alice)


def made(api: Api, kind: str, **values: Any) -> dict[str, Any]:
    answer = api.post(f"{V2}/{kind.replace('_', '-')}s", {kind: values})
    assert answer.status_code == 201, answer.content
    result: dict[str, Any] = answer.json()[kind]
    return result


def refused(answer: Any, status: int, kind: str) -> str:
    assert answer.status_code == status, answer.content
    fault = answer.json()["NeutronError"]
    assert fault["type"] == kind, fault
    return str(fault["message"])


def rule(api: Api, group: str, **values: Any) -> Any:
    body = {"security_group_id": group, "direction": "ingress", **values}
    return api.post(f"{V2}/security-group-rules", {"security_group_rule": body})


def test_a_group_begins_with_its_rules_and_is_changed_and_deleted(api: Api) -> None:
    group = made(api, "security_group", name="web", description="d")
    assert group["stateful"] is True
    rules = [(each["direction"], each["ethertype"]) for each in group["security_group_rules"]]
    assert rules == [("egress", "IPv4"), ("egress", "IPv6")]
    url = f"{V2}/security-groups/{group['id']}"
    changed = api.put(url, {"security_group": {"name": "www", "stateful": False}}).json()["security_group"]
    assert (changed["name"], changed["stateful"], changed["revision_number"]) == ("www", False, 1)
    assert api.delete(url).status_code == 204
    refused(api.get(url), 404, "SecurityGroupNotFound")


def test_the_default_group_is_protected(api: Api) -> None:
    (default,) = api.get(f"{V2}/security-groups?name=default").json()["security_groups"]
    url = f"{V2}/security-groups/{default['id']}"
    refused(api.delete(url), 409, "SecurityGroupCannotRemoveDefault")
    refused(api.put(url, {"security_group": {"name": "x"}}), 409, "SecurityGroupCannotUpdateDefault")
    body = {"security_group": {"name": "default"}}
    refused(api.post(f"{V2}/security-groups", body), 409, "SecurityGroupDefaultAlreadyExists")


def test_a_rule_is_made_shown_and_deleted(api: Api) -> None:
    group = made(api, "security_group", name="web")["id"]
    security_group_rule = rule(api, group, protocol="TCP", port_range_min="22", port_range_max=22).json()[
        "security_group_rule"
    ]
    assert (
        security_group_rule["protocol"],
        security_group_rule["port_range_min"],
        security_group_rule["ethertype"],
    ) == ("tcp", 22, "IPv4")
    (listed,) = api.get(f"{V2}/security-group-rules?protocol=tcp&security_group_id={group}").json()[
        "security_group_rules"
    ]
    assert listed["id"] == security_group_rule["id"]
    message = refused(
        rule(api, group, protocol="6", port_range_min=22, port_range_max=22), 409, "SecurityGroupRuleExists"
    )
    assert security_group_rule["id"] in message
    url = f"{V2}/security-group-rules/{security_group_rule['id']}"
    assert api.delete(url).status_code == 204
    refused(api.delete(url), 404, "SecurityGroupRuleNotFound")


@each_row(
    ("values", "kind"),
    [
        ({"protocol": "tcp", "port_range_min": 2, "port_range_max": 1}, "SecurityGroupInvalidPortRange"),
        ({"protocol": "tcp", "port_range_min": 0, "port_range_max": 1}, "SecurityGroupInvalidPortValue"),
        ({"port_range_min": 1, "port_range_max": 1}, "SecurityGroupProtocolRequiredWithPorts"),
        ({"protocol": "icmp", "port_range_min": 300}, "SecurityGroupInvalidIcmpValue"),
        ({"protocol": "icmp", "port_range_max": 0}, "SecurityGroupMissingIcmpType"),
        ({"protocol": "icmpv6"}, "SecurityGroupEthertypeConflictWithProtocol"),
        ({"remote_ip_prefix": "2001:db8::/32"}, "SecurityGroupRuleParameterConflict"),
        ({"protocol": "tcp", "port_range_min": -16, "port_range_max": 22}, "SecurityGroupInvalidPortValue"),
        ({"protocol": "icmp", "port_range_min": -1}, "SecurityGroupInvalidPortValue"),
        ({"protocol": "43"}, "SecurityGroupEthertypeConflictWithProtocol"),
        ({"protocol": 44}, "SecurityGroupEthertypeConflictWithProtocol"),
        ({"ethertype": "IPv5"}, "SecurityGroupRuleInvalidEtherType"),
        ({"direction": "sideways"}, "HTTPBadRequest"),
        ({"remote_ip_prefix": "10.0.0.0/33"}, "InvalidCIDR"),
    ],
)
def test_a_rule_that_cannot_be_is_refused_with_neutron_s_message(api: Api, values: dict[str, Any], kind: str) -> None:
    group = made(api, "security_group", name="web")["id"]
    refused(rule(api, group, **values), 400, kind)
    assert SecurityGroupRule.objects.filter(group_id=group).count() == 2


def test_one_remote_only(api: Api) -> None:
    group = made(api, "security_group", name="web")["id"]
    answer = rule(api, group, remote_group_id=group, remote_ip_prefix="10.0.0.0/8")
    refused(answer, 400, "SecurityGroupMultipleRemoteEntites")


def test_several_rules_are_all_made_or_none(api: Api) -> None:
    group = made(api, "security_group", name="web")["id"]
    base = {"security_group_id": group, "direction": "ingress", "protocol": "tcp"}
    good = [{**base, "port_range_min": port, "port_range_max": port} for port in (22, 80)]
    bad = [*good, {**base, "port_range_min": 22, "port_range_max": 22}]
    refused(api.post(f"{V2}/security-group-rules", {"security_group_rules": bad}), 409, "SecurityGroupRuleExists")
    assert SecurityGroupRule.objects.filter(group_id=group).count() == 2
    answer = api.post(f"{V2}/security-group-rules", {"security_group_rules": good})
    assert (answer.status_code, len(answer.json()["security_group_rules"])) == (201, 2)


def test_another_project_s_groups_cannot_be_seen_used_or_changed(api: Api, charlie: Person) -> None:
    theirs = made(Api(charlie), "security_group", name="theirs")["id"]
    mine = made(api, "security_group", name="mine")["id"]
    url = f"{V2}/security-groups/{theirs}"
    for answer in (
        api.get(url),
        api.put(url, {"security_group": {"name": "x"}}),
        api.delete(url),
        rule(api, theirs, protocol="tcp"),
        rule(api, mine, remote_group_id=theirs),
    ):
        refused(answer, 404, "SecurityGroupNotFound")
    refused(rule(api, mine, remote_address_group_id=str(uuid.uuid4())), 404, "AddressGroupNotFound")
    assert SecurityGroup.objects.get(id=theirs).name == "theirs"


def test_an_operator_works_in_other_projects(operator: Person, alice: Person) -> None:
    api = Api(operator)
    group = made(api, "security_group", name="web", project_id=alice.project_id.hex)
    assert group["tenant_id"] == alice.project_id.hex
    assert rule(api, group["id"], protocol="tcp").status_code == 201
    body = {"security_group": {"name": "web", "project_id": operator.project_id.hex}}
    refused(Api(alice).post(f"{V2}/security-groups", body), 400, "HTTPBadRequest")


def test_address_groups_grow_and_shrink_and_are_named_by_rules(api: Api) -> None:
    group = made(api, "address_group", name="office", addresses=["192.0.2.7", "198.51.100.0/24"])
    assert group["addresses"] == ["192.0.2.7/32", "198.51.100.0/24"]
    url = f"{V2}/address-groups/{group['id']}"
    body = {"address_group": {"addresses": ["203.0.113.0/24"]}}
    assert len(api.put(f"{url}/add_addresses", body).json()["address_group"]["addresses"]) == 3
    refused(api.put(f"{url}/add_addresses", body), 400, "AddressesAlreadyExist")
    plain = body["address_group"]  # openstacksdk leaves the name of the group out
    assert len(api.put(f"{url}/remove_addresses", plain).json()["address_group"]["addresses"]) == 2
    refused(api.put(f"{url}/remove_addresses", body), 404, "AddressesNotFound")
    refused(api.put(f"{url}/add_addresses", {"address_group": {"addresses": "x"}}), 400, "HTTPBadRequest")
    web = made(api, "security_group", name="web")["id"]
    named = rule(api, web, remote_address_group_id=group["id"]).json()["security_group_rule"]
    assert named["remote_address_group_id"] == group["id"]
    refused(api.delete(url), 409, "AddressGroupInUse")
    assert api.put(url, {"address_group": {"name": "home"}}).json()["address_group"]["name"] == "home"


@pytest.mark.slow
def test_the_rules_of_a_group_name_few_address_groups(api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(security_group_rules, "MOST_ADDRESS_GROUPS", 1)
    one, two = (made(api, "address_group", addresses=["192.0.2.7"])["id"] for _ in range(2))
    web = made(api, "security_group", name="web")["id"]
    for port in (22, 80):
        assert rule(api, web, remote_address_group_id=one, **tcp(port)).status_code == 201
    refused(rule(api, web, remote_address_group_id=two, **tcp(22)), 400, "InvalidInput")
    assert rule(api, web, **tcp(443)).status_code == 201


def tcp(port: int) -> dict[str, object]:
    return {"protocol": "tcp", "port_range_min": port, "port_range_max": port}


DEFAULTS = f"{V2}/default-security-group-rules"


def test_operators_say_what_new_groups_begin_with(api: Api, operator: Person) -> None:
    first = api.get(DEFAULTS).json()["default_security_group_rules"]
    assert sorted((each["direction"], each["remote_group_id"]) for each in first) == [
        *[("egress", None)] * 2,
        *[("ingress", "PARENT")] * 2,
    ]
    body = {"default_security_group_rule": {"direction": "ingress", "protocol": "tcp", "port_range_min": 22}}
    assert api.post(DEFAULTS, body).status_code == 403
    refused(Api(operator).post(DEFAULTS, body), 400, "SecurityGroupInvalidPortRange")
    body["default_security_group_rule"]["port_range_max"] = 22
    answer = Api(operator).post(DEFAULTS, body)
    assert answer.status_code == 201, answer.content
    rule = answer.json()["default_security_group_rule"]
    assert (rule["used_in_default_sg"], rule["used_in_non_default_sg"], rule["ethertype"]) == (False, True, "IPv4")
    refused(Api(operator).post(DEFAULTS, body), 409, "DefaultSecurityGroupRuleExists")
    assert api.get(f"{DEFAULTS}/{rule['id']}").json()["default_security_group_rule"] == rule
    (default_security_group_rules,) = api.get(f"{DEFAULTS}?protocol=tcp&fields=id").json()[
        "default_security_group_rules"
    ]
    assert default_security_group_rules == {"id": rule["id"]}
    refused(api.get(f"{DEFAULTS}?colour=red"), 400, "InvalidInput")
    rules = made(api, "security_group", name="web")["security_group_rules"]
    assert ("ingress", 22) in [(each["direction"], each["port_range_min"]) for each in rules]
    assert api.delete(f"{DEFAULTS}/{rule['id']}").status_code == 403
    assert Api(operator).delete(f"{DEFAULTS}/{rule['id']}").status_code == 204
    refused(api.get(f"{DEFAULTS}/{rule['id']}"), 404, "DefaultSecurityGroupRuleNotFound")


def test_default_rules_are_sorted_and_paged_both_ways(api: Api) -> None:
    def page(query: str) -> list[str]:
        answer = api.get(f"{DEFAULTS}?sort_key=direction&sort_dir=desc&sort_key=ethertype{query}").json()
        return [each["id"] for each in answer["default_security_group_rules"]]

    every = page("")
    assert len(every) == 4
    assert page("&limit=2") == every[:2]
    assert page(f"&limit=2&marker={every[1]}") == every[2:]
    assert page(f"&limit=1&page_reverse=True&marker={every[2]}") == [every[1]]
    refused(api.get(f"{DEFAULTS}?marker=x"), 404, "DefaultSecurityGroupRuleNotFound")


def test_a_default_rule_about_a_group_that_is_gone_lets_nobody_in(api: Api, operator: Person) -> None:
    office = made(Api(operator), "security_group", name="office")["id"]
    requested = {"direction": "ingress", "protocol": "tcp", "remote_group_id": office}
    assert Api(operator).post(DEFAULTS, {"default_security_group_rule": requested}).status_code == 201
    assert len(made(api, "security_group", name="before")["security_group_rules"]) == 3
    assert Api(operator).delete(f"{V2}/security-groups/{office}").status_code == 204
    after = made(api, "security_group", name="after")["security_group_rules"]
    assert [each["direction"] for each in after] == ["egress", "egress"]


def test_a_list_of_groups_costs_the_same_however_long_it_is(api: Api, django_assert_max_num_queries: Any) -> None:
    for number in range(8):
        made(api, "security_group", name=f"web-{number}")
    with django_assert_max_num_queries(12):
        assert len(api.get(f"{V2}/security-groups").json()["security_groups"]) == 9
