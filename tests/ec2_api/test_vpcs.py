"""VPCs and subnets: made, shown whoever made the network, and deleted."""

from __future__ import annotations

import re
from typing import Any

import pytest

from provisioning.ec2 import ids
from provisioning.hosts.models import Host
from provisioning.network import services
from provisioning.network.models import Network, Router, Subnet
from provisioning.quotas.services.limits import set_limits
from tests.ec2_api.conftest import refused
from tests.support.cast import People
from tests.support.clouds import Cloud
from tests.support.standing import standing
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
COMBINATION = "InvalidParameterCombination"
NOTHING = "vpc-0123456789abcdef0"


@pytest.fixture
@standing
def vpc(alice: Any) -> str:
    return str(alice.create_vpc(CidrBlock="10.40.0.0/16")["Vpc"]["VpcId"])


@pytest.fixture
@standing
def foreign(people: People) -> Network:
    """A network of alice's, made by the Network API, with a subnet of each IP version."""
    network = services.create_network(people.alice.project_id, "net")
    services.create_subnet(network, "192.168.7.0/24")
    services.create_subnet(network, "fd00:7::/64", ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
    return network


def named(resource_type: str, name: str) -> list[dict[str, Any]]:
    return [{"ResourceType": resource_type, "Tags": [{"Key": "Name", "Value": name}]}]


@pytest.mark.slow
def test_a_vpc_is_a_network_with_a_router(alice: Any, people: People) -> None:
    made = alice.create_vpc(CidrBlock="10.40.1.9/16", TagSpecifications=named("vpc", "inner"))["Vpc"]
    assert made == {
        "VpcId": made["VpcId"],
        "OwnerId": people.alice.project_id.hex,
        "State": "available",
        "CidrBlock": "10.40.0.0/16",
        "CidrBlockAssociationSet": [
            {
                "AssociationId": made["CidrBlockAssociationSet"][0]["AssociationId"],
                "CidrBlock": "10.40.0.0/16",
                "CidrBlockState": {"State": "associated"},
            }
        ],
        "Ipv6CidrBlockAssociationSet": [],
        "InstanceTenancy": "default",
        "IsDefault": False,
        "DhcpOptionsId": "default",
        "Tags": [{"Key": "Name", "Value": "inner"}],
    }
    assert alice.describe_vpcs(VpcIds=[made["VpcId"]])["Vpcs"] == [made]
    assert (Network.objects.get().name, Router.objects.get().name) == ("inner", "inner")
    alice.delete_vpc(VpcId=made["VpcId"])
    assert not Network.objects.exists()
    assert not Router.objects.exists()
    assert refused(alice.delete_vpc, VpcId=made["VpcId"]) == "InvalidVpcID.NotFound"


@each_row(
    ("arguments", "code"),
    [
        ({}, "MissingParameter"),
        ({"CidrBlock": "10.40.0.0/15"}, "InvalidVpc.Range"),
        ({"CidrBlock": "10.40.0.0/29"}, "InvalidVpc.Range"),
        ({"CidrBlock": "10.40.0.0"}, "InvalidParameterValue"),
        ({"CidrBlock": "fd00::/64"}, "InvalidParameterValue"),
        ({"CidrBlock": "127.0.0.0/16"}, "InvalidParameterValue"),
        ({"CidrBlock": "10.40.0.0/16", "InstanceTenancy": "dedicated"}, "UnsupportedOperation"),
        ({"CidrBlock": "10.40.0.0/16", "AmazonProvidedIpv6CidrBlock": True}, "UnsupportedOperation"),
        ({"CidrBlock": "10.40.0.0/16", "DryRun": True}, "DryRunOperation"),
    ],
)
def test_vpcs_that_cannot_be(alice: Any, arguments: dict[str, Any], code: str) -> None:
    assert refused(alice.create_vpc, **arguments) == code
    assert not Network.objects.exists()


def test_a_full_quota_leaves_nothing(alice: Any, people: People) -> None:
    set_limits(people.alice.project_id, {"routers": 0})
    assert refused(alice.create_vpc, CidrBlock="10.40.0.0/16") == "VpcLimitExceeded"
    assert not Network.objects.exists()


@pytest.mark.slow
def test_networks_of_the_network_api_are_vpcs(alice: Any, foreign: Network) -> None:
    (shown,) = alice.describe_vpcs()["Vpcs"]
    assert (shown["CidrBlock"], shown["IsDefault"]) == ("192.168.7.0/24", True)
    assert [each["Ipv6CidrBlock"] for each in shown["Ipv6CidrBlockAssociationSet"]] == ["fd00:7::/64"]
    attributes = alice.describe_account_attributes(AttributeNames=["default-vpc"])["AccountAttributes"]
    assert attributes[0]["AttributeValues"] == [{"AttributeValue": shown["VpcId"]}]
    ipv4, ipv6 = alice.describe_subnets()["Subnets"]
    assert (ipv4["CidrBlock"], ipv4["Ipv6Native"], ipv4["DefaultForAz"]) == ("192.168.7.0/24", False, True)
    assert (ipv6["Ipv6Native"], ipv6["AssignIpv6AddressOnCreation"]) == (True, True)
    assert [each["Ipv6CidrBlock"] for each in ipv6["Ipv6CidrBlockAssociationSet"]] == ["fd00:7::/64"]
    alice.create_vpc(CidrBlock="10.40.0.0/16")
    assert alice.describe_vpcs(Filters=[{"Name": "is-default", "Values": ["true"]}])["Vpcs"] == [shown]


@pytest.mark.slow
def test_shared_networks_are_seen_and_not_changed(alice: Any, cloud: Cloud, people: People) -> None:
    """What others share is a VPC of theirs: instances are put there."""
    (shown,) = alice.describe_vpcs()["Vpcs"]
    assert shown["OwnerId"] == cloud.network.project_id.hex
    assert shown["IsDefault"]
    (subnet,) = alice.describe_subnets(Filters=[{"Name": "vpc-id", "Values": [shown["VpcId"]]}])["Subnets"]
    assert subnet["OwnerId"] == cloud.network.project_id.hex
    assert refused(alice.delete_vpc, VpcId=shown["VpcId"]) == "UnauthorizedOperation"
    assert refused(alice.delete_subnet, SubnetId=subnet["SubnetId"]) == "UnauthorizedOperation"
    assert refused(alice.create_subnet, VpcId=shown["VpcId"], CidrBlock="10.99.0.0/24") == "UnauthorizedOperation"
    assert refused(alice.create_tags, Resources=[shown["VpcId"]], Tags=[{"Key": "a"}]) == "InvalidVpcID.NotFound"


@pytest.mark.slow
def test_external_networks_are_none(alice: Any, people: People) -> None:
    network = services.create_network(people.operator.project_id, "public", external=True)
    services.create_subnet(network, "203.0.113.0/24")
    assert alice.describe_vpcs()["Vpcs"] == []
    assert alice.describe_subnets()["Subnets"] == []
    assert refused(alice.describe_vpcs, VpcIds=[ids.id_of("vpc", network.id)]) == "InvalidVpcID.NotFound"


@pytest.mark.slow
@pytest.mark.both_databases
def test_a_subnet_is_on_the_router_at_once(alice: Any, people: People, vpc: str, cloud: Cloud) -> None:
    given = named("subnet", "front")
    made = alice.create_subnet(VpcId=vpc, CidrBlock="10.40.1.0/24", AvailabilityZone="nova", TagSpecifications=given)
    subnet = made["Subnet"]
    assert subnet == {
        "SubnetId": subnet["SubnetId"],
        "VpcId": vpc,
        "OwnerId": people.alice.project_id.hex,
        "State": "available",
        "CidrBlock": "10.40.1.0/24",
        "AvailableIpAddressCount": 252,  # of 254: one is the gateway, and one for DHCP
        "AvailabilityZone": "nova",
        "AvailabilityZoneId": "nova",
        "DefaultForAz": False,
        "MapPublicIpOnLaunch": False,
        "MapCustomerOwnedIpOnLaunch": False,
        "AssignIpv6AddressOnCreation": False,
        "EnableDns64": False,
        "Ipv6Native": False,
        "Ipv6CidrBlockAssociationSet": [],
        "Tags": [{"Key": "Name", "Value": "front"}],
    }
    row = Subnet.objects.get(name="front")
    assert row.fixed_ips.get(address="10.40.1.1").port.device_id == Router.objects.get().id  # type: ignore[union-attr]
    services.create_port(people.alice.project_id, row.network)
    assert alice.describe_subnets(SubnetIds=[subnet["SubnetId"]])["Subnets"][0]["AvailableIpAddressCount"] == 251
    assert refused(alice.delete_vpc, VpcId=vpc) == "DependencyViolation"
    assert refused(alice.delete_subnet, SubnetId=subnet["SubnetId"]) == "DependencyViolation"
    services.delete_port(row.network.ports.get(device_owner=""))
    alice.delete_subnet(SubnetId=subnet["SubnetId"])
    alice.delete_vpc(VpcId=vpc)
    assert not Router.objects.exists()


@pytest.fixture
def taken(alice: Any, vpc: str) -> None:
    alice.create_subnet(VpcId=vpc, CidrBlock="10.40.1.0/24")


@pytest.mark.slow
@each_row(
    ("arguments", "code"),
    [
        ({}, "MissingParameter"),
        ({"CidrBlock": "10.41.0.0/24"}, "InvalidSubnet.Range"),
        ({"CidrBlock": "10.40.0.0/29"}, "InvalidSubnet.Range"),
        ({"CidrBlock": "10.40.0.0/8"}, "InvalidSubnet.Range"),
        ({"CidrBlock": "10.40.1.128/25"}, "InvalidSubnet.Conflict"),
        ({"CidrBlock": "subnet"}, "InvalidParameterValue"),
        ({"CidrBlock": "10.40.2.0/24", "VpcId": NOTHING}, "InvalidVpcID.NotFound"),
        ({"CidrBlock": "10.40.2.0/24", "VpcId": "net"}, "InvalidVpcID.Malformed"),
        ({"CidrBlock": "10.40.2.0/24", "AvailabilityZone": "moon"}, "InvalidParameterValue"),
        ({"CidrBlock": "10.40.2.0/24", "Ipv6CidrBlock": "fd00::/64"}, "UnsupportedOperation"),
        ({"Ipv6Native": True}, "MissingParameter"),
        ({"Ipv6Native": True, "Ipv6CidrBlock": "fd00::/63"}, "InvalidSubnet.Range"),
        ({"Ipv6Native": True, "Ipv6CidrBlock": "10.40.2.0/24"}, "InvalidSubnet.Range"),
        ({"Ipv6Native": True, "Ipv6CidrBlock": "fd00::/64", "CidrBlock": "10.40.2.0/24"}, COMBINATION),
    ],
)  # fmt: skip
def test_subnets_that_cannot_be(alice: Any, vpc: str, taken: None, arguments: dict[str, Any], code: str) -> None:
    assert refused(alice.create_subnet, **{"VpcId": vpc, **arguments}) == code
    assert Subnet.objects.count() == 1


@pytest.mark.slow
def test_a_subnet_of_ipv6_alone(alice: Any, people: People, vpc: str) -> None:
    made = alice.create_subnet(VpcId=vpc, Ipv6Native=True, Ipv6CidrBlock="fd00:8::/64")["Subnet"]
    assert (made["Ipv6Native"], made["AvailableIpAddressCount"]) == (True, 0)
    port = services.create_port(people.alice.project_id, Network.objects.get())
    assert port.fixed_ips.get().address.startswith("fd00:8::")
    assert alice.describe_vpcs(VpcIds=[vpc])["Vpcs"][0]["Ipv6CidrBlockAssociationSet"][0]["Ipv6CidrBlock"]


@pytest.mark.slow
def test_a_subnet_in_another_zone_is_refused(alice: Any, vpc: str, cloud: Cloud) -> None:
    Host.objects.create(name="h2", availability_zone="two")
    code = refused(alice.create_subnet, VpcId=vpc, CidrBlock="10.40.1.0/24", AvailabilityZone="two")
    assert code == "UnsupportedOperation"


@pytest.mark.slow
def test_what_is_so_of_every_vpc(alice: Any, vpc: str) -> None:
    for name, value in (("enableDnsSupport", True), ("enableDnsHostnames", True)):
        key = name[0].upper() + name[1:]
        result = alice.describe_vpc_attribute(VpcId=vpc, Attribute=name)
        assert (result["VpcId"], result[key]) == (vpc, {"Value": value})
        alice.modify_vpc_attribute(VpcId=vpc, **{key: {"Value": value}})
        assert refused(alice.modify_vpc_attribute, VpcId=vpc, **{key: {"Value": False}}) == "UnsupportedOperation"
    assert refused(alice.modify_vpc_attribute, VpcId=vpc) == "MissingParameter"


def test_the_acl_of_a_vpc_allows_everything(alice: Any, charlie: Any, vpc: str) -> None:
    subnet = alice.create_subnet(VpcId=vpc, CidrBlock="10.40.3.0/24")["Subnet"]["SubnetId"]
    default = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "default", "Values": ["true"]}]
    (acl,) = alice.describe_network_acls(Filters=default)["NetworkAcls"]
    assert [each["SubnetId"] for each in acl["Associations"]] == [subnet]
    first = {(each["Egress"], each["RuleAction"]) for each in acl["Entries"] if each["RuleNumber"] == 100}
    assert first == {(True, "allow"), (False, "allow")}
    tag = [{"Key": "a", "Value": "b"}]
    alice.create_tags(Resources=[acl["NetworkAclId"]], Tags=tag)
    (shown,) = alice.describe_network_acls(NetworkAclIds=[acl["NetworkAclId"]])["NetworkAcls"]
    assert shown == acl | {"Tags": tag}
    describe = charlie.describe_network_acls
    assert refused(describe, NetworkAclIds=[acl["NetworkAclId"]]) == "InvalidNetworkAclID.NotFound"
    assert refused(describe, NetworkAclIds=["acl-1"]) == "InvalidNetworkAclId.Malformed"


@pytest.mark.slow
def test_attributes_of_subnets_are_what_they_are(alice: Any, vpc: str) -> None:
    subnet = alice.create_subnet(VpcId=vpc, CidrBlock="10.40.1.0/24")["Subnet"]["SubnetId"]
    modify = alice.modify_subnet_attribute
    modify(SubnetId=subnet, MapPublicIpOnLaunch={"Value": False})
    assert refused(modify, SubnetId=subnet, MapPublicIpOnLaunch={"Value": True}) == "UnsupportedOperation"
    assert refused(modify, SubnetId=subnet) == "InvalidParameterCombination"


@pytest.mark.slow
def test_guests_of_a_subnet_that_get_floating_ips(alice: Any, people: People, vpc: str, settings: Any) -> None:
    settings.AUTO_FLOATING_IP = "public"
    network = services.create_network(people.operator.project_id, "public", external=True)
    services.create_subnet(network, "203.0.113.0/24", enable_dhcp=False)
    alice.create_subnet(VpcId=vpc, CidrBlock="10.40.1.0/24")
    assert not alice.describe_subnets()["Subnets"][0]["MapPublicIpOnLaunch"]
    gateway = alice.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    alice.attach_internet_gateway(InternetGatewayId=gateway, VpcId=vpc)
    assert alice.describe_subnets()["Subnets"][0]["MapPublicIpOnLaunch"]


@pytest.mark.slow
def test_a_group_remembers_its_vpc(alice: Any, vpc: str, foreign: Network) -> None:
    other = ids.id_of("vpc", foreign.id)
    made = alice.create_security_group(GroupName="web", Description="x", VpcId=vpc)["GroupId"]
    assert alice.describe_security_groups(GroupIds=[made])["SecurityGroups"][0]["VpcId"] == vpc

    def within(vpc_id: str) -> list[str]:
        result = alice.describe_security_groups(Filters=[{"Name": "vpc-id", "Values": [vpc_id]}])["SecurityGroups"]
        return [group["GroupName"] for group in result]

    assert within(vpc) == ["default", "web"]
    assert within(other) == []
    alice.delete_vpc(VpcId=vpc)
    assert "VpcId" not in alice.describe_security_groups(GroupIds=[made])["SecurityGroups"][0]


@pytest.mark.slow
@pytest.mark.deep
def test_vpcs_of_others_are_not_there(alice: Any, charlie: Any, bob: Any, vpc: str) -> None:
    subnet = alice.create_subnet(VpcId=vpc, CidrBlock="10.40.1.0/24")["Subnet"]["SubnetId"]
    assert charlie.describe_vpcs()["Vpcs"] == charlie.describe_subnets()["Subnets"] == []
    for call in (charlie.delete_vpc, charlie.describe_vpc_attribute, charlie.create_subnet):
        more = {"Attribute": "enableDnsSupport"} if call == charlie.describe_vpc_attribute else {}
        assert refused(call, VpcId=vpc, **more) == "InvalidVpcID.NotFound"
    assert refused(charlie.delete_subnet, SubnetId=subnet) == "InvalidSubnetID.NotFound"
    assert refused(charlie.delete_subnet, SubnetId="sub") == "InvalidSubnetID.Malformed"
    assert refused(bob.create_vpc, CidrBlock="10.50.0.0/16") == "UnauthorizedOperation"
    assert len(bob.describe_subnets()["Subnets"]) == 1


@pytest.mark.slow
def test_vpcs_and_subnets_are_filtered_and_paged(alice: Any, vpc: str) -> None:
    alice.create_vpc(CidrBlock="10.50.0.0/16", TagSpecifications=named("vpc", "second"))
    for number in range(3):
        alice.create_subnet(VpcId=vpc, CidrBlock=f"10.40.{number}.0/24")
    filters = [{"Name": "cidr", "Values": ["10.5*"]}, {"Name": "tag:Name", "Values": ["second"]}]
    assert len(alice.describe_vpcs(Filters=filters)["Vpcs"]) == 1
    assert len(alice.describe_subnets(Filters=[{"Name": "cidr-block", "Values": ["*.1.0/24"]}])["Subnets"]) == 1
    for name, key, many in (("describe_vpcs", "Vpcs", 2), ("describe_subnets", "Subnets", 3)):
        pages = alice.get_paginator(name).paginate(PaginationConfig={"PageSize": 1})
        assert [len(each[key]) for each in pages] == [1] * many


@pytest.mark.deep  # the baseline of queries has these lists
def test_the_number_of_queries_does_not_grow(alice: Any, django_assert_max_num_queries: Any) -> None:
    for number in range(4):
        vpc = alice.create_vpc(CidrBlock=f"10.{number}.0.0/16")["Vpc"]["VpcId"]
        alice.create_subnet(VpcId=vpc, CidrBlock=f"10.{number}.0.0/24")
    alice.describe_vpcs()
    with django_assert_max_num_queries(14):
        assert len(alice.describe_vpcs()["Vpcs"]) == 4
    with django_assert_max_num_queries(13):
        assert len(alice.describe_subnets()["Subnets"]) == 4


@pytest.mark.slow
def test_ranges_have_associations_with_ids_that_stay(alice: Any, foreign: Network) -> None:
    def of(name: str) -> set[str]:
        return {each["AssociationId"] for vpc in alice.describe_vpcs()["Vpcs"] for each in vpc[name]}

    first = str(alice.create_vpc(CidrBlock="10.40.0.0/16")["Vpc"]["CidrBlockAssociationSet"][0]["AssociationId"])
    assert re.fullmatch("vpc-cidr-assoc-[0-9a-f]{17}", first)
    ipv4 = of("CidrBlockAssociationSet")
    assert (first in ipv4, len(ipv4)) == (True, 2)
    assert (len(of("Ipv6CidrBlockAssociationSet")), of("CidrBlockAssociationSet")) == (1, ipv4)
    filters = [{"Name": "cidr-block-association.association-id", "Values": [first]}]
    assert [vpc["CidrBlock"] for vpc in alice.describe_vpcs(Filters=filters)["Vpcs"]] == ["10.40.0.0/16"]
    (block,) = [each for net in alice.describe_subnets()["Subnets"] for each in net["Ipv6CidrBlockAssociationSet"]]
    assert re.fullmatch("subnet-cidr-assoc-[0-9a-f]{17}", block["AssociationId"])


def default_groups(client: Any, vpc: str) -> list[dict[str, Any]]:
    """Terraform's ``aws_default_security_group`` asks for these."""
    filters = [{"Name": "group-name", "Values": ["default"]}, {"Name": "vpc-id", "Values": [vpc]}]
    return list(client.describe_security_groups(Filters=filters)["SecurityGroups"])


@pytest.mark.slow
def test_a_vpc_has_a_default_group_of_its_own(alice: Any, people: People, vpc: str) -> None:
    other = str(alice.create_vpc(CidrBlock="10.41.0.0/16")["Vpc"]["VpcId"])
    (group,), (second,) = default_groups(alice, vpc), default_groups(alice, other)
    assert (group["VpcId"], second["VpcId"], group["GroupId"] == second["GroupId"]) == (vpc, other, False)
    every = services.ensure_default_security_group(people.alice.project_id)
    rules = {rule.id for rule in every.rules.all()}
    for side, call in (
        ("IpPermissions", alice.revoke_security_group_ingress),
        ("IpPermissionsEgress", alice.revoke_security_group_egress),
    ):
        assert group[side]
        call(GroupId=group["GroupId"], IpPermissions=group[side])
    (empty,) = default_groups(alice, vpc)
    assert (empty["IpPermissions"], empty["IpPermissionsEgress"]) == ([], [])
    assert {rule.id for rule in every.rules.all()} == rules
    assert default_groups(alice, other) == [second]
    assert refused(alice.delete_security_group, GroupId=group["GroupId"]) == "CannotDelete"
    alice.delete_vpc(VpcId=vpc)
    assert refused(alice.describe_security_groups, GroupIds=[group["GroupId"]]) == "InvalidGroup.NotFound"


@pytest.mark.slow
def test_the_projects_default_group_is_that_of_its_only_vpc(alice: Any, foreign: Network) -> None:
    (first,) = [vpc["VpcId"] for vpc in alice.describe_vpcs()["Vpcs"]]
    (group,) = default_groups(alice, first)
    assert "VpcId" not in group
    alice.create_vpc(CidrBlock="10.40.0.0/16")
    assert default_groups(alice, first) == []
    assert alice.describe_security_groups(GroupNames=["default"])["SecurityGroups"][0]["GroupId"] == group["GroupId"]


@pytest.mark.slow
def test_interfaces_on_a_vpc_are_in_its_default_group(alice: Any, vpc: str) -> None:
    subnet = alice.create_subnet(VpcId=vpc, CidrBlock="10.40.1.0/24")["Subnet"]["SubnetId"]
    made = alice.create_network_interface(SubnetId=subnet)["NetworkInterface"]
    (group,) = default_groups(alice, vpc)
    assert [each["GroupId"] for each in made["Groups"]] == [group["GroupId"]]
    alice.delete_network_interface(NetworkInterfaceId=made["NetworkInterfaceId"])


@pytest.mark.slow
def test_instances_on_a_vpc_are_in_its_default_group(alice: Any, people: People, vpc: str) -> None:
    cloud = Cloud.make()
    cloud.add_host("h1").serve()
    subnet = alice.create_subnet(VpcId=vpc, CidrBlock="10.40.1.0/24")["Subnet"]["SubnetId"]
    given = {
        "InstanceType": cloud.small.name,
        "ImageId": ids.id_of("ami", cloud.image.id),
        "MinCount": 1,
        "MaxCount": 1,
    }
    alice.run_instances(**given, SubnetId=subnet)
    alice.run_instances(**given, NetworkInterfaces=[{"DeviceIndex": 0, "SubnetId": subnet}])
    cloud.run()
    (group,) = default_groups(alice, vpc)
    result = [each for one in alice.describe_instances()["Reservations"] for each in one["Instances"]]
    assert [[each["GroupId"] for each in instance["SecurityGroups"]] for instance in result] == [[group["GroupId"]]] * 2
