"""Security groups: made, described and deleted; what they let in and out, in both styles."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.ec2 import ids
from provisioning.network import services
from provisioning.network.models import AddressGroup, RbacPolicy, SecurityGroup, SecurityGroupRule
from provisioning.network.records.flows import checked
from tests.ec2_api.conftest import Boto, refused
from tests.support.cast import People
from tests.support.standing import standing
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
SSH = {"IpProtocol": "tcp", "FromPort": 22, "ToPort": 22, "IpRanges": [{"CidrIp": "10.0.0.0/8", "Description": "us"}]}
NOWHERE = "sg-0123456789abcdef0"


@pytest.fixture
@standing
def web(alice: Any) -> str:
    return str(alice.create_security_group(GroupName="web", Description="the web")["GroupId"])


def ingress(alice: Any, group: str) -> Any:
    return alice.describe_security_groups(GroupIds=[group])["SecurityGroups"][0]["IpPermissions"]


@pytest.mark.slow
def test_a_group_is_made_described_and_deleted(alice: Any, people: People) -> None:
    made = alice.create_security_group(
        GroupName="web",
        Description="the web",
        TagSpecifications=[{"ResourceType": "security-group", "Tags": [{"Key": "a", "Value": "b"}]}],
    )
    assert made["Tags"] == [{"Key": "a", "Value": "b"}]
    (group,) = alice.describe_security_groups(GroupNames=["web"])["SecurityGroups"]
    everywhere = {"IpProtocol": "-1", "UserIdGroupPairs": [], "PrefixListIds": []}
    assert group == {
        "OwnerId": people.alice.project_id.hex,
        "GroupId": made["GroupId"],
        "GroupName": "web",
        "Description": "the web",
        "IpPermissions": [],
        "IpPermissionsEgress": [
            everywhere | {"IpRanges": [{"CidrIp": "0.0.0.0/0"}], "Ipv6Ranges": [{"CidrIpv6": "::/0"}]}
        ],
        "Tags": [{"Key": "a", "Value": "b"}],
    }
    assert alice.delete_security_group(GroupName="web")["GroupId"] == made["GroupId"]
    assert refused(alice.describe_security_groups, GroupIds=[made["GroupId"]]) == "InvalidGroup.NotFound"


def test_the_default_group_is_there_and_stays(alice: Any) -> None:
    (default,) = alice.describe_security_groups()["SecurityGroups"]
    assert default["GroupName"] == "default"
    (permission,) = default["IpPermissions"]
    assert [pair["GroupId"] for pair in permission["UserIdGroupPairs"]] == [default["GroupId"]]  # IPv4 and IPv6: once
    assert refused(alice.delete_security_group, GroupId=default["GroupId"]) == "CannotDelete"
    assert refused(alice.create_security_group, GroupName="default", Description="x") == "InvalidGroup.Reserved"


@each_row(
    ("arguments", "code"),
    [
        ({"GroupName": "web"}, "InvalidGroup.Duplicate"),
        ({"GroupName": "sg-1"}, "InvalidParameterValue"),
        ({"GroupName": "x" * 256}, "InvalidParameterValue"),
        ({"Description": ""}, "InvalidParameterValue"),
        ({"VpcId": "vpc-0123456789abcdef0"}, "InvalidVpcID.NotFound"),
        ({"VpcId": "net-1"}, "InvalidVpcID.Malformed"),
    ],
)
def test_groups_that_cannot_be(alice: Any, web: str, arguments: dict[str, str], code: str) -> None:
    assert refused(alice.create_security_group, **{"GroupName": "db", "Description": "x", **arguments}) == code


@pytest.mark.slow
def test_a_group_in_use_is_kept(alice: Any, web: str, people: People) -> None:
    group = SecurityGroup.objects.get(name="web")
    network = services.create_network(people.alice.project_id, "net")
    port = services.create_port(people.alice.project_id, network, groups=[group])
    assert refused(alice.delete_security_group, GroupId=web) == "DependencyViolation"
    services.delete_port(port)
    other = alice.create_security_group(GroupName="db", Description="x")["GroupId"]
    pair = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": web}]}
    alice.authorize_security_group_ingress(GroupId=other, IpPermissions=[pair])
    assert refused(alice.delete_security_group, GroupId=web) == "DependencyViolation"
    alice.delete_security_group(GroupId=other)
    alice.delete_security_group(GroupId=web)


@pytest.mark.slow
def test_groups_of_others_are_not_there(alice: Any, charlie: Any, bob: Any, web: str) -> None:
    assert refused(charlie.describe_security_groups, GroupIds=[web]) == "InvalidGroup.NotFound"
    assert refused(charlie.delete_security_group, GroupId=web) == "InvalidGroup.NotFound"
    assert (
        refused(charlie.authorize_security_group_ingress, GroupId=web, IpPermissions=[SSH]) == "InvalidGroup.NotFound"
    )
    assert refused(alice.delete_security_group, GroupId="web") == "InvalidGroupId.Malformed"
    assert refused(alice.delete_security_group, GroupId=NOWHERE) == "InvalidGroup.NotFound"
    assert refused(alice.delete_security_group) == "MissingParameter"
    assert refused(bob.delete_security_group, GroupId=web) == "UnauthorizedOperation"
    assert bob.describe_security_groups(GroupIds=[web])["SecurityGroups"]


def test_a_shared_group_is_seen_and_not_changed(charlie: Any, web: str, people: People) -> None:
    group = SecurityGroup.objects.get(name="web")
    target = people.charlie.project_id.hex
    services.create_rbac_policy(people.alice.project_id, "security_group", group, RbacPolicy.SHARED, target)
    (seen,) = charlie.describe_security_groups(GroupIds=[web])["SecurityGroups"]
    assert seen["OwnerId"] == people.alice.project_id.hex
    assert refused(charlie.delete_security_group, GroupId=web) == "UnauthorizedOperation"


@pytest.mark.slow
@pytest.mark.both_databases
def test_permissions_are_authorized_and_revoked(alice: Any, web: str) -> None:
    given = [
        SSH,
        {"IpProtocol": "tcp", "FromPort": 0, "ToPort": 65535, "Ipv6Ranges": [{"CidrIpv6": "2001:db8::/32"}]},
        {"IpProtocol": "icmp", "FromPort": 8, "ToPort": -1, "IpRanges": [{"CidrIp": "0.0.0.0/0"}]},
        {"IpProtocol": "icmpv6", "FromPort": -1, "ToPort": -1, "Ipv6Ranges": [{"CidrIpv6": "::/0"}]},
        {"IpProtocol": "50", "IpRanges": [{"CidrIp": "192.0.2.1/32"}]},
    ]
    made = alice.authorize_security_group_ingress(GroupId=web, IpPermissions=given)["SecurityGroupRules"]
    assert [(rule["IpProtocol"], rule.get("FromPort"), rule.get("ToPort")) for rule in made] == [
        ("tcp", 22, 22), ("tcp", 0, 65535), ("icmp", 8, -1), ("icmpv6", -1, -1), ("50", None, None),
    ]  # fmt: skip
    empty: dict[str, Any] = {key: [] for key in ("IpRanges", "Ipv6Ranges", "UserIdGroupPairs", "PrefixListIds")}
    assert ingress(alice, web) == [empty | each for each in given]
    gone = alice.revoke_security_group_ingress(GroupId=web, IpPermissions=given[:3])["RevokedSecurityGroupRules"]
    assert [rule["SecurityGroupRuleId"] for rule in gone] == [rule["SecurityGroupRuleId"] for rule in made[:3]]
    requested = [rule["SecurityGroupRuleId"] for rule in made[3:]]
    alice.revoke_security_group_ingress(GroupId=web, SecurityGroupRuleIds=requested)
    assert ingress(alice, web) == []


@pytest.mark.slow
def test_a_permission_from_a_group_is_for_both_versions(alice: Any, web: str, people: People) -> None:
    pair = {"IpProtocol": "tcp", "FromPort": 5432, "ToPort": 5432, "UserIdGroupPairs": [{"GroupName": "web"}]}
    (made,) = alice.authorize_security_group_ingress(GroupId=web, IpPermissions=[pair])["SecurityGroupRules"]
    assert made["ReferencedGroupInfo"] == {"GroupId": web, "UserId": people.alice.project_id.hex}
    rows = SecurityGroupRule.objects.filter(port_range_min=5432)
    assert sorted(rows.values_list("ethertype", flat=True)) == ["IPv4", "IPv6"]
    assert refused(alice.authorize_security_group_ingress, GroupId=web, IpPermissions=[pair]) == (
        "InvalidPermission.Duplicate"
    )
    rows.filter(ethertype="IPv6").delete()
    alice.authorize_security_group_ingress(GroupId=web, IpPermissions=[pair])  # what was missing is made
    assert rows.count() == 2
    (permission,) = ingress(alice, web)
    assert permission["UserIdGroupPairs"] == [
        {"GroupId": web, "GroupName": "web", "UserId": people.alice.project_id.hex}
    ]
    either = [ids.id_of("sgr", row.id) for row in rows.all()]  # the id of any of its rules stands for the permission
    assert len(alice.describe_security_group_rules(SecurityGroupRuleIds=either)["SecurityGroupRules"]) == 1
    alice.revoke_security_group_ingress(GroupId=web, SecurityGroupRuleIds=either[1:])
    assert not rows.exists()


@pytest.mark.slow
def test_the_flat_parameters_of_old_clients(alice: Any, web: str) -> None:
    flat = {"IpProtocol": "tcp", "FromPort": 80, "ToPort": 80, "CidrIp": "0.0.0.0/0"}
    alice.authorize_security_group_ingress(GroupName="web", **flat)
    assert [each["IpRanges"] for each in ingress(alice, web)] == [[{"CidrIp": "0.0.0.0/0"}]]
    alice.revoke_security_group_ingress(GroupName="web", **flat)
    alice.authorize_security_group_ingress(GroupName="web", SourceSecurityGroupName="web")
    assert [(each["IpProtocol"], each["FromPort"], each["ToPort"]) for each in ingress(alice, web)] == [
        ("tcp", 0, 65535), ("udp", 0, 65535), ("icmp", -1, -1),
    ]  # fmt: skip
    alice.revoke_security_group_ingress(GroupName="web", SourceSecurityGroupName="web")
    assert ingress(alice, web) == []


@pytest.mark.slow
def test_egress_is_revoked_and_authorized(alice: Any, web: str) -> None:
    everywhere = [{"IpProtocol": "-1", "IpRanges": [{"CidrIp": "0.0.0.0/0"}], "Ipv6Ranges": [{"CidrIpv6": "::/0"}]}]
    alice.revoke_security_group_egress(GroupId=web, IpPermissions=everywhere)
    alice.authorize_security_group_egress(GroupId=web, IpPermissions=[SSH])
    (group,) = alice.describe_security_groups(GroupIds=[web])["SecurityGroups"]
    assert [each["FromPort"] for each in group["IpPermissionsEgress"]] == [22]
    assert group["IpPermissions"] == []
    rules = alice.describe_security_group_rules(Filters=[{"Name": "group-id", "Values": [web]}])["SecurityGroupRules"]
    assert [(rule["IsEgress"], rule["CidrIpv4"], rule["Description"]) for rule in rules] == [(True, "10.0.0.0/8", "us")]
    requested = [rules[0]["SecurityGroupRuleId"]]
    assert refused(alice.revoke_security_group_ingress, GroupId=web, SecurityGroupRuleIds=requested) == (
        "InvalidSecurityGroupRuleId.NotFound"
    )


WRONG: list[tuple[list[dict[str, Any]], str]] = [
    ([SSH, SSH], "InvalidParameterValue"),
    ([SSH | {"FromPort": -1}], "InvalidParameterValue"),
    ([SSH | {"FromPort": 23}], "InvalidParameterValue"),
    ([SSH | {"ToPort": 70000}], "InvalidParameterValue"),
    ([SSH | {"IpProtocol": "carrier-pigeon"}], "InvalidParameterValue"),
    ([SSH | {"IpRanges": [{"CidrIp": "10.0.0.0/33"}]}], "InvalidParameterValue"),
    ([SSH | {"IpRanges": [{"CidrIp": "2001:db8::/32"}]}], "InvalidParameterValue"),
    ([SSH | {"IpRanges": [{"CidrIp": "10.0.0.0/8", "Description": "x" * 256}]}], "InvalidParameterValue"),
    ([SSH | {"IpRanges": [{"Description": "x"}]}], "MissingParameter"),
    ([SSH | {"IpRanges": []}], "MissingParameter"),
    ([{"IpRanges": SSH["IpRanges"]}], "MissingParameter"),
    ([{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": NOWHERE}]}], "InvalidGroup.NotFound"),
    ([{"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupName": "web", "UserId": "0" * 32}]}], "InvalidGroup.NotFound"),
    ([{"IpProtocol": "-1", "PrefixListIds": [{"PrefixListId": "pl-12345678"}]}], "InvalidPrefixListID.NotFound"),
]  # fmt: skip


@pytest.mark.slow
@each_row(("permissions", "code"), WRONG)
def test_permissions_that_cannot_be(alice: Any, web: str, permissions: list[dict[str, Any]], code: str) -> None:
    assert refused(alice.authorize_security_group_ingress, GroupId=web, IpPermissions=permissions) == code
    assert ingress(alice, web) == []


@pytest.mark.slow
def test_what_is_not_allowed_is_not_revoked(alice: Any, web: str) -> None:
    alice.authorize_security_group_ingress(GroupId=web, IpPermissions=[SSH])
    other = SSH | {"FromPort": 23, "ToPort": 23}
    revoke = alice.revoke_security_group_ingress
    assert refused(revoke, GroupId=web, IpPermissions=[SSH, other]) == "InvalidPermission.NotFound"
    assert refused(revoke, GroupId=web) == "MissingParameter"
    assert refused(revoke, GroupId=web, IpPermissions=[SSH], CidrIp="0.0.0.0/0") == "InvalidParameterCombination"
    assert len(ingress(alice, web)) == 1


@pytest.mark.slow
def test_a_full_quota_of_rules(alice: Any, web: str, people: People) -> None:
    many = [SSH | {"FromPort": port, "ToPort": port} for port in range(1, 120)]
    code = refused(alice.authorize_security_group_ingress, GroupId=web, IpPermissions=many)
    assert code == "RulesPerSecurityGroupLimitExceeded"
    assert ingress(alice, web) == []


@pytest.mark.slow
def test_rules_change_and_keep_their_ids(alice: Any, web: str) -> None:
    pair = {"IpProtocol": "tcp", "FromPort": 1, "ToPort": 1, "UserIdGroupPairs": [{"GroupId": web}]}
    made = alice.authorize_security_group_ingress(GroupId=web, IpPermissions=[SSH, pair])["SecurityGroupRules"]
    first, second = (rule["SecurityGroupRuleId"] for rule in made)
    http = {"IpProtocol": "tcp", "FromPort": 80, "ToPort": 80}

    def modify(rule: str, **values: Any) -> Any:
        changes = [{"SecurityGroupRuleId": rule, "SecurityGroupRule": http | values}]
        return alice.modify_security_group_rules(GroupId=web, SecurityGroupRules=changes)

    modify(first, ReferencedGroupId=web, Description="ours")
    modify(second, CidrIpv6="2001:db8::/32")
    rules = alice.describe_security_group_rules(SecurityGroupRuleIds=[first, second])["SecurityGroupRules"]
    assert [rule.get("Description") for rule in rules] == ["ours", None]
    assert rules[0]["ReferencedGroupInfo"]["GroupId"] == web
    assert rules[1]["CidrIpv6"] == "2001:db8::/32"
    assert SecurityGroupRule.objects.filter(direction="ingress", group__name="web").count() == 3
    assert refused(modify, rule=second, ReferencedGroupId=web) == "InvalidPermission.Duplicate"
    assert refused(modify, rule=second) == "InvalidParameterValue"
    assert refused(modify, rule="sgr-0123456789abcdef0", CidrIpv4="0.0.0.0/0") == "InvalidSecurityGroupRuleId.NotFound"


@pytest.mark.slow
def test_descriptions_of_rules(alice: Any, web: str) -> None:
    (made,) = alice.authorize_security_group_ingress(GroupId=web, IpPermissions=[SSH])["SecurityGroupRules"]
    update = alice.update_security_group_rule_descriptions_ingress
    named = [{"SecurityGroupRuleId": made["SecurityGroupRuleId"], "Description": "admins"}]
    update(GroupId=web, SecurityGroupRuleDescriptions=named)
    assert ingress(alice, web)[0]["IpRanges"] == [{"CidrIp": "10.0.0.0/8", "Description": "admins"}]
    update(GroupName="web", IpPermissions=[SSH | {"IpRanges": [{"CidrIp": "10.0.0.0/8"}]}])
    assert ingress(alice, web)[0]["IpRanges"] == [{"CidrIp": "10.0.0.0/8"}]
    egress = alice.update_security_group_rule_descriptions_egress
    assert refused(egress, GroupId=web, IpPermissions=[SSH]) == "InvalidPermission.NotFound"
    named[0]["Description"] = "x" * 256
    assert refused(update, GroupId=web, SecurityGroupRuleDescriptions=named) == "InvalidParameterValue"


@pytest.mark.slow
def test_an_address_group_is_a_prefix_list(alice: Any, web: str, people: People) -> None:
    offices = services.create_address_group(people.alice.project_id, name="offices", addresses=["192.0.2.0/24"])
    group = SecurityGroup.objects.get(name="web")
    flow = checked("ingress", "IPv4", "tcp", 443, 443, None)
    services.create_security_group_rules([services.RequestedRule(group, flow, remote_address_group=offices)])
    (permission,) = ingress(alice, web)
    assert permission["PrefixListIds"][0]["PrefixListId"].startswith("pl-")
    alice.revoke_security_group_ingress(GroupId=web, IpPermissions=[permission])
    alice.authorize_security_group_ingress(GroupId=web, IpPermissions=[permission])
    assert ingress(alice, web) == [permission]
    assert AddressGroup.objects.get().rules.count() == 2


@pytest.mark.slow
def test_groups_are_filtered_tagged_and_paged(alice: Any, web: str) -> None:
    alice.authorize_security_group_ingress(GroupId=web, IpPermissions=[SSH])
    alice.create_security_group(GroupName="db", Description="x")
    alice.create_tags(Resources=[web], Tags=[{"Key": "team", "Value": "ours"}])

    def names(**filters: str) -> list[str]:
        given = [{"Name": name.replace("_", "-"), "Values": [value]} for name, value in filters.items()]
        return [each["GroupName"] for each in alice.describe_security_groups(Filters=given)["SecurityGroups"]]

    assert names(group_name="w*") == ["web"]
    assert names(**{"ip-permission.cidr": "10.0.0.0/8"}) == ["web"]
    assert names(**{"egress.ip-permission.protocol": "-1"}) == ["web", "db", "default"]
    assert names(**{"tag:team": "ours"}) == ["web"]
    pages = alice.get_paginator("describe_security_groups").paginate(PaginationConfig={"PageSize": 1})
    seen = [group["GroupName"] for page in pages for group in page["SecurityGroups"]]
    assert seen == ["web", "db", "default"]


@pytest.mark.slow
def test_tags_of_rules(alice: Any, web: str) -> None:
    given = [{"ResourceType": "security-group-rule", "Tags": [{"Key": "why", "Value": "ssh"}]}]
    alice.authorize_security_group_ingress(GroupId=web, IpPermissions=[SSH], TagSpecifications=given)
    filters = [{"Name": "tag:why", "Values": ["ssh"]}]
    (rule,) = alice.describe_security_group_rules(Filters=filters)["SecurityGroupRules"]
    assert rule["CidrIpv4"] == "10.0.0.0/8"


@pytest.mark.slow
def test_the_number_of_queries_does_not_grow(boto: Boto, people: People, django_assert_max_num_queries: Any) -> None:
    client = boto(people.alice)
    for number in range(6):
        made = client.create_security_group(GroupName=f"g{number}", Description="x")["GroupId"]
        pair = {"IpProtocol": "-1", "UserIdGroupPairs": [{"GroupId": made}]}
        client.authorize_security_group_ingress(GroupId=made, IpPermissions=[SSH, pair])
    client.describe_security_groups()
    with django_assert_max_num_queries(14):
        assert len(client.describe_security_groups()["SecurityGroups"]) == 7
    with django_assert_max_num_queries(14):
        assert len(client.describe_security_group_rules(MaxResults=1000)["SecurityGroupRules"]) > 20


def test_names_of_groups_are_given_once_in_a_vpc(alice: Any) -> None:
    create, given = alice.create_security_group, {"GroupName": "web", "Description": "web"}
    vpcs = [alice.create_vpc(CidrBlock=f"10.{number}.0.0/16")["Vpc"]["VpcId"] for number in (71, 72)]
    for place in ({}, *({"VpcId": vpc} for vpc in vpcs)):
        create(**given, **place)
        assert refused(create, **given, **place) == "InvalidGroup.Duplicate"
    security_groups = alice.describe_security_groups(Filters=[{"Name": "group-name", "Values": ["web"]}])[
        "SecurityGroups"
    ]
    assert [each["VpcId"] for each in security_groups[1:]] == vpcs
