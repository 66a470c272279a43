"""Security groups: the list, rules in sentences, templates, errors at their fields, and who may do what."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.test import Client

from portal.dashboard.live import render
from provisioning.events import selectors as events
from provisioning.network import services
from provisioning.network.models import SecurityGroup, SecurityGroupRule
from tests.dashboard.conftest import SignedIn
from tests.support.cast import Person
from tests.support.standing import standing
from tests.support.tables import each_row

Said = list[tuple[object, ...]]


@pytest.fixture
@standing
def group(alice: Person) -> SecurityGroup:
    return services.create_security_group(alice.project_id, "web <1>", description="for the web")


def ingress(group: SecurityGroup) -> Said:
    rows = group.rules.filter(direction="ingress").order_by("ethertype", "port_range_min")
    return list(rows.values_list("ethertype", "protocol", "port_range_min", "port_range_max", "remote_ip_prefix"))


def add(client: Client, to: SecurityGroup, **typed: str) -> Any:
    return client.post(f"/security-groups/{to.id}/rules/add/", typed)


def test_the_first_look_makes_the_default_group(at_alice: Client, alice: Person) -> None:
    shown = at_alice.get("/security-groups/").content.decode()
    default = SecurityGroup.objects.get(project_id=alice.project_id)
    assert f'href="/security-groups/{default.id}/"' in shown
    assert f"/security-groups/{default.id}/delete/" not in shown


def test_a_group_is_made_changed_and_deleted(at_alice: Client, alice: Person) -> None:
    answer = at_alice.post("/security-groups/create/", {"name": "web", "description": "x", "stateful": "on"})
    made = SecurityGroup.objects.get(project_id=alice.project_id, name="web")
    assert answer["Location"] == f"/security-groups/{made.id}/"
    at_alice.post(f"/security-groups/{made.id}/edit/", {"name": "api", "description": ""})
    made.refresh_from_db()
    assert (made.name, made.description, made.stateful) == ("api", "", False)
    assert "Delete api?" in at_alice.get(f"/security-groups/{made.id}/delete/").content.decode()
    assert at_alice.post(f"/security-groups/{made.id}/delete/")["Location"] == "/security-groups/"
    assert not SecurityGroup.objects.filter(id=made.id).exists()


def test_the_default_group_keeps_its_name_and_is_not_deleted(at_alice: Client, alice: Person) -> None:
    default = services.ensure_default_security_group(alice.project_id)
    answer = at_alice.post(f"/security-groups/{default.id}/edit/", {"name": "other", "stateful": "on"})
    assert answer.status_code == 422
    assert list(answer.context["form"].errors) == ["name"]
    at_alice.post(f"/security-groups/{default.id}/delete/")
    assert SecurityGroup.objects.filter(id=default.id).exists()


def test_rules_are_sentences(at_alice: Client, group: SecurityGroup) -> None:
    add(at_alice, group, template="ssh", remote="anywhere")
    shown = at_alice.get(f"/security-groups/{group.id}/").content.decode()
    for sentence in (
        "TCP 22 from anywhere (0.0.0.0/0)",
        "TCP 22 from anywhere (::/0)",
        "Everything to anywhere (::/0)",
    ):
        assert sentence in shown
    assert "web &lt;1&gt;" in shown


@each_row(
    ("template", "expected"),
    [
        ("ssh", [("tcp", 22, 22)]),
        ("web", [("tcp", 80, 80), ("tcp", 443, 443)]),
        ("rdp", [("tcp", 3389, 3389)]),
        ("mysql", [("tcp", 3306, 3306)]),
        ("postgresql", [("tcp", 5432, 5432)]),
    ],
)
def test_templates_allow_what_they_say(
    at_alice: Client, group: SecurityGroup, template: str, expected: list[tuple[str, int, int]]
) -> None:
    assert add(at_alice, group, template=template, remote="anywhere").status_code == 303
    assert ingress(group) == [
        *(("IPv4", *each, "0.0.0.0/0") for each in expected),
        *(("IPv6", *each, "::/0") for each in expected),
    ]


def test_ping_is_the_echo_request_of_each_version(at_alice: Client, group: SecurityGroup) -> None:
    add(at_alice, group, template="ping", remote="range", cidr="2001:db8::7")
    add(at_alice, group, template="ping", remote="range", cidr="192.0.2.7/24")
    assert ingress(group) == [
        ("IPv4", "icmp", 8, None, "192.0.2.0/24"),
        ("IPv6", "ipv6-icmp", 128, None, "2001:db8::7/128"),
    ]


def test_members_reach_each_other(at_alice: Client, group: SecurityGroup) -> None:
    add(at_alice, group, template="members")
    rules = SecurityGroupRule.objects.filter(group=group, direction="ingress")
    assert {(rule.ethertype, rule.remote_group_id, rule.protocol) for rule in rules} == {
        ("IPv4", group.id, None),
        ("IPv6", group.id, None),
    }


def test_a_rule_in_full(at_alice: Client, alice: Person, group: SecurityGroup) -> None:
    ranges = services.create_address_group(alice.project_id, "offices", ["192.0.2.0/24"])
    own = {"template": "own", "direction": "egress", "protocol": "UDP", "ports": "8000 - 8010", "ethertype": "IPv4"}
    add(at_alice, group, **own, remote="address_group", address_group=str(ranges.id), description="out")
    rule = SecurityGroupRule.objects.get(group=group, protocol="udp")
    assert (rule.direction, rule.port_range_min, rule.port_range_max) == ("egress", 8000, 8010)
    assert (rule.remote_address_group_id, rule.description) == (ranges.id, "out")
    assert "UDP 8000-8010 to the addresses of offices" in at_alice.get(f"/security-groups/{group.id}/").content.decode()
    add(at_alice, group, template="own", protocol="icmp", icmp_type="3", icmp_code="4", ethertype="IPv4")
    assert ("IPv4", "icmp", 3, 4, "0.0.0.0/0") in ingress(group)
    add(at_alice, group, template="own", protocol="47")
    assert ("IPv6", "47", None, None, "::/0") in ingress(group)


@pytest.mark.parametrize(
    ("typed", "places"),
    [
        ({"template": "ssh", "remote": "range", "cidr": "10.0.0.0/33"}, {"cidr"}),
        ({"template": "ssh", "remote": "group"}, {"group"}),
        ({"template": "own", "protocol": "tpc", "ports": "x", "remote": "range"}, {"protocol", "ports", "cidr"}),
        ({"template": "own", "protocol": "tcp", "ports": "90-80"}, {"ports"}),
        ({"template": "own", "protocol": "tcp", "ports": "70000"}, {"ports"}),
        ({"template": "own"}, {"protocol"}),
        ({"template": "own", "protocol": "any", "ports": "80"}, {"ports"}),
        ({"template": "own", "protocol": "tcp", "icmp_type": "8"}, {"icmp_type"}),
        ({"template": "own", "protocol": "icmp", "ports": "8", "icmp_type": "300"}, {"ports", "icmp_type"}),
        ({"template": "own", "protocol": "icmp", "icmp_code": "0"}, {"icmp_type"}),
        (
            {"template": "own", "protocol": "any", "ethertype": "IPv6", "remote": "range", "cidr": "10.0.0.0/8"},
            {"cidr"},
        ),
        ({"template": "own", "ethertype": "IPv4", "protocol": "ipv6-icmp"}, {"ethertype"}),
        ({"template": "nothing"}, {"template"}),
    ],
)
def test_all_that_is_wrong_is_reported_at_once(
    at_alice: Client, group: SecurityGroup, typed: dict[str, str], places: set[str]
) -> None:
    answer = add(at_alice, group, **typed)
    assert answer.status_code == 422
    assert set(answer.context["form"].errors) == places
    assert not ingress(group)


def test_what_is_there_is_not_added_twice(at_alice: Client, group: SecurityGroup) -> None:
    services.allow_ingress(group, "tcp", 80)
    assert add(at_alice, group, template="web").status_code == 303
    assert len(ingress(group)) == 4
    again = add(at_alice, group, template="web")
    assert again.status_code == 422
    assert "already allows this" in str(again.context["form"].non_field_errors())


def test_a_rule_is_deleted_after_a_question(at_alice: Client, group: SecurityGroup) -> None:
    rule = services.allow_ingress(group, "tcp", 22)
    path = f"/security-group-rules/{rule.id}/delete/"
    assert "TCP 22 from anywhere (0.0.0.0/0)" in at_alice.get(path).content.decode()
    assert at_alice.post(path)["Location"] == f"/security-groups/{group.id}/"
    assert not ingress(group)


@pytest.mark.slow
def test_another_project_s_groups_are_not_there(signed_in: SignedIn, charlie: Person, group: SecurityGroup) -> None:
    rule = services.allow_ingress(group, "tcp", 22)
    client = signed_in(charlie)
    assert "web &lt;1&gt;" not in client.get("/security-groups/").content.decode()
    for tail in ("", "edit/", "delete/", "rules/add/"):
        assert client.get(f"/security-groups/{group.id}/{tail}").status_code == 404
        if tail:
            assert client.post(f"/security-groups/{group.id}/{tail}", {"name": "x"}).status_code == 404
    assert client.post(f"/security-group-rules/{rule.id}/delete/").status_code == 404
    own = services.create_security_group(charlie.project_id, "own")
    answer = add(client, own, template="ssh", remote="group", group=str(group.id))
    assert list(answer.context["form"].errors) == ["group"]


def test_a_group_that_is_shared_can_be_looked_at_only(
    signed_in: SignedIn, alice: Person, charlie: Person, group: SecurityGroup
) -> None:
    services.create_rbac_policy(alice.project_id, "security_group", group, "access_as_shared", charlie.project_id.hex)
    client = signed_in(charlie)
    shown = client.get(f"/security-groups/{group.id}/").content.decode()
    assert "rules/add/" not in shown
    assert "/edit/" not in shown
    assert add(client, group, template="ssh").status_code == 403
    assert client.post(f"/security-groups/{group.id}/delete/").status_code == 403


def test_a_reader_looks_and_changes_nothing(signed_in: SignedIn, bob: Person, group: SecurityGroup) -> None:
    client = signed_in(bob)
    for path in ("/security-groups/", f"/security-groups/{group.id}/"):
        shown = client.get(path)
        assert shown.status_code == 200
        assert "/delete/" not in shown.content.decode()
        assert "/add/" not in shown.content.decode()
    assert add(client, group, template="ssh").status_code == 403
    assert client.post("/security-groups/create/", {"name": "x"}).status_code == 403


def test_pages_follow_their_groups(at_alice: Client, alice: Person, group: SecurityGroup) -> None:
    page = f"security_group/{group.id}"
    assert f'data-live-page="{page}"' in at_alice.get(f"/security-groups/{group.id}/").content.decode()
    before = events.latest_id()
    services.allow_ingress(group, "tcp", 443)
    log = events.since([f"project:{alice.project_id}"], before)
    assert "TCP 443 from anywhere" in render(page, log, alice.context)
    listed = render("security_groups", log, alice.context)
    assert "1 rule<" in listed
    assert f'id="security-group-{group.id}"' in listed
    services.delete_security_group(group)
    assert "This was deleted" in render(page, log, alice.context)
    assert render(f"security_group/{uuid.uuid4()}", [], alice.context) == ""
