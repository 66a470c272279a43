"""Security groups, their rules, the rules they begin with, and groups of addresses."""

from __future__ import annotations

import uuid

import pytest

from provisioning.common.errors import InvalidInputError, OverQuotaError
from provisioning.network import services
from provisioning.network.errors import (
    AddressesAlreadyExistError,
    AddressesNotFoundError,
    AddressGroupInUseError,
    DefaultSecurityGroupRuleExistsError,
    DefaultSecurityGroupRuleNotFoundError,
    RevisionNumberConstraintFailedError,
    SecurityGroupCannotRemoveDefaultError,
    SecurityGroupCannotUpdateDefaultError,
    SecurityGroupDefaultAlreadyExistsError,
    SecurityGroupInUseError,
    SecurityGroupMultipleRemoteEntitiesError,
    SecurityGroupNotSingleGroupRulesError,
    SecurityGroupRuleExistsError,
    SecurityGroupRuleNotFoundError,
)
from provisioning.network.models import (
    AddressGroup,
    DefaultSecurityGroupRule,
    Network,
    SecurityGroup,
    SecurityGroupRule,
)
from provisioning.network.records import flows
from provisioning.network.services import RequestedRule
from provisioning.quotas.selectors import usage_of
from provisioning.quotas.services.limits import set_limits
from tests.support.cast import Person

pytestmark = pytest.mark.django_db
SSH = flows.checked("ingress", "IPv4", "tcp", 22, 22, None)


def used(person: Person) -> tuple[int, int]:
    result = usage_of(person.project_id)
    return result["security_groups"], result["security_group_rules"]


def rules_of(group: SecurityGroup) -> set[tuple[str, str, bool]]:
    return {(rule.direction, rule.ethertype, rule.remote_group_id == group.id) for rule in group.rules.all()}


@pytest.fixture
def group(alice: Person) -> SecurityGroup:
    return services.create_security_group(alice.project_id, "web")


def test_a_new_group_lets_everything_out_and_counts(alice: Person, group: SecurityGroup) -> None:
    assert rules_of(group) == {("egress", "IPv4", False), ("egress", "IPv6", False)}
    assert used(alice) == (1, 2)
    services.delete_security_group(group)
    assert used(alice) == (0, 0)


def test_the_default_group_lets_its_members_in_and_stays(alice: Person) -> None:
    group = services.ensure_default_security_group(alice.project_id)
    assert rules_of(group) == {
        (way, kind, way == "ingress") for way in ("ingress", "egress") for kind in ("IPv4", "IPv6")
    }
    assert services.ensure_default_security_group(alice.project_id) == group
    with pytest.raises(SecurityGroupCannotRemoveDefaultError):
        services.delete_security_group(group)
    with pytest.raises(SecurityGroupCannotUpdateDefaultError):
        services.update_security_group(group, {"name": "other"})
    with pytest.raises(SecurityGroupDefaultAlreadyExistsError):
        services.create_security_group(alice.project_id, "default")
    assert services.update_security_group(group, {"description": "x"}).description == "x"


def test_a_group_of_ports_is_in_use(alice: Person, net: Network) -> None:
    port = services.create_port(alice.project_id, net)
    group = services.create_security_group(alice.project_id, "web")
    port.security_groups.set([group])
    for change in (lambda: services.delete_security_group(group),
                   lambda: services.update_security_group(group, {"stateful": False})):  # fmt: skip
        with pytest.raises(SecurityGroupInUseError):
            change()
    port.security_groups.clear()
    services.update_security_group(group, {"stateful": False})
    services.delete_security_group(group)


def test_a_group_that_goes_takes_the_rules_that_name_it_and_their_quota(alice: Person, group: SecurityGroup) -> None:
    other = services.create_security_group(alice.project_id, "db")
    services.create_security_group_rules([RequestedRule(other, SSH, remote_group=group)])
    assert used(alice) == (2, 5)
    services.delete_security_group(group)
    assert used(alice) == (1, 2)
    assert not SecurityGroupRule.objects.filter(protocol="tcp").exists()


def test_a_revision_that_is_another_is_refused(group: SecurityGroup) -> None:
    services.update_security_group(group, {"description": "x"}, revision=0)
    with pytest.raises(RevisionNumberConstraintFailedError):
        services.update_security_group(group, {"description": "y"}, revision=0)
    with pytest.raises(RevisionNumberConstraintFailedError):
        services.delete_security_group(group, revision=0)


def test_the_same_rule_twice_is_refused_and_none_of_its_company_stays(alice: Person, group: SecurityGroup) -> None:
    (rule,) = services.create_security_group_rules([RequestedRule(group, SSH)])
    web = flows.checked("ingress", "IPv4", "tcp", 80, 80, None)
    again = flows.checked("ingress", "IPv4", "6", 22, 22, "0.0.0.0/0")
    with pytest.raises(SecurityGroupRuleExistsError, match=str(rule.id)):
        services.create_security_group_rules([RequestedRule(group, web), RequestedRule(group, again)])
    with pytest.raises(SecurityGroupRuleExistsError):
        services.create_security_group_rules([RequestedRule(group, web), RequestedRule(group, web)])
    assert used(alice) == (1, 3)


def test_one_request_is_about_one_group_and_one_remote(alice: Person, group: SecurityGroup) -> None:
    other = services.create_security_group(alice.project_id, "db")
    with pytest.raises(SecurityGroupNotSingleGroupRulesError):
        services.create_security_group_rules([RequestedRule(group, SSH), RequestedRule(other, SSH)])
    both = RequestedRule(group, flows.checked("ingress", "IPv4", None, None, None, "10.0.0.0/8"), remote_group=other)
    with pytest.raises(SecurityGroupMultipleRemoteEntitiesError):
        services.create_security_group_rules([both])


def test_rules_are_limited_and_given_back(alice: Person, group: SecurityGroup) -> None:
    set_limits(alice.project_id, {"security_group_rules": 3})
    (rule,) = services.create_security_group_rules([RequestedRule(group, SSH)])
    with pytest.raises(OverQuotaError):
        services.allow_ingress(group, "icmp")
    services.delete_security_group_rule(rule)
    with pytest.raises(SecurityGroupRuleNotFoundError):
        services.delete_security_group_rule(rule)
    kept = services.allow_ingress(group, "icmp")
    assert services.allow_ingress(group, "icmp") == kept
    assert used(alice) == (1, 3)


def test_operators_change_what_new_groups_begin_with(alice: Person) -> None:
    assert [(rule.direction, rule.ethertype) for rule in services.default_rules()] == [
        (way, kind) for way in ("egress", "ingress") for kind in ("IPv4", "IPv6")
    ]
    for rule in services.default_rules():
        if rule.ethertype == "IPv6":
            services.delete_default_rule(rule.id)
    ping = {"direction": "ingress", "ethertype": "IPv4", "protocol": "icmp", "used_in_non_default_sg": True}
    made = services.create_default_rule(ping)
    with pytest.raises(DefaultSecurityGroupRuleExistsError):
        services.create_default_rule(ping)
    group = services.create_security_group(alice.project_id, "web")
    assert {(rule.direction, rule.protocol) for rule in group.rules.all()} == {("egress", None), ("ingress", "icmp")}
    default = services.ensure_default_security_group(alice.project_id)
    assert rules_of(default) == {("egress", "IPv4", False), ("ingress", "IPv4", True)}
    services.delete_default_rule(made.id)
    for rule in services.default_rules():
        services.delete_default_rule(rule.id)
    assert services.default_rules() == []
    assert not services.create_security_group(alice.project_id, "bare").rules.exists()
    for gone in (made.id, DefaultSecurityGroupRule.objects.filter(removed=True)[0].id, uuid.uuid4()):
        with pytest.raises(DefaultSecurityGroupRuleNotFoundError):
            services.delete_default_rule(gone)


def test_a_group_of_addresses_changes_while_rules_name_it(alice: Person, group: SecurityGroup) -> None:
    addresses = services.create_address_group(alice.project_id, "office", ["192.0.2.7", "198.51.100.0/24"])
    assert addresses.addresses == ["192.0.2.7/32", "198.51.100.0/24"]
    services.create_security_group_rules([RequestedRule(group, SSH, remote_address_group=addresses)])
    with pytest.raises(AddressGroupInUseError):
        services.delete_address_group(addresses)
    with pytest.raises(AddressesAlreadyExistError):
        services.add_addresses(addresses, ["192.0.2.7/32"])
    services.add_addresses(addresses, ["2001:db8::/32"])
    with pytest.raises(AddressesNotFoundError):
        services.remove_addresses(addresses, ["203.0.113.0/24"])
    assert services.remove_addresses(addresses, ["192.0.2.7"]).addresses == ["198.51.100.0/24", "2001:db8::/32"]
    with pytest.raises(InvalidInputError):
        services.add_addresses(addresses, ["office"])
    group.rules.filter(protocol="tcp").delete()
    services.delete_address_group(addresses)
    assert not AddressGroup.objects.exists()
