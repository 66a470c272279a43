"""Network interfaces: made, shown, attached and detached, changed, and given further addresses."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.models import Instance
from provisioning.ec2 import ids
from provisioning.network import services
from provisioning.network.models import Network, Port, Subnet
from provisioning.quotas.selectors import usage_of
from provisioning.quotas.services.limits import set_limits
from tests.ec2_api.conftest import refused
from tests.support.cast import People
from tests.support.clouds import Cloud
from tests.support.standing import standing
from tests.support.tables import each_row

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
NOTHING = "eni-0123456789abcdef0"
COMBINATION, WRONG = "InvalidParameterCombination", "InvalidParameterValue"


def named(address: str, **more: bool) -> dict[str, Any]:
    return {"PrivateIpAddress": address, **more}


@pytest.fixture
@standing
def net(people: People) -> Network:
    network = services.create_network(people.alice.project_id, "net")
    services.create_subnet(network, "10.44.0.0/24")
    return network


@pytest.fixture
@standing
def subnet(net: Network) -> str:
    return ids.id_of("subnet", net.subnets.get().id)


@pytest.fixture
@standing
def eni(alice: Any, subnet: str) -> str:
    return str(alice.create_network_interface(SubnetId=subnet)["NetworkInterface"]["NetworkInterfaceId"])


@pytest.fixture
@standing
def server(people: People, cloud: Cloud, net: Network) -> Instance:
    return cloud.running(people.alice.context, networks=(NetworkRequest(str(net.id)),))


def shown(alice: Any, eni: str) -> Any:
    return alice.describe_network_interfaces(NetworkInterfaceIds=[eni])["NetworkInterfaces"][0]


def addresses(alice: Any, eni: str) -> list[str]:
    return [each["PrivateIpAddress"] for each in shown(alice, eni)["PrivateIpAddresses"]]


@pytest.mark.both_databases
def test_an_interface_is_made_shown_and_deleted(alice: Any, people: People, net: Network, subnet: str) -> None:
    group = alice.create_security_group(GroupName="web", Description="x")["GroupId"]
    made = alice.create_network_interface(
        SubnetId=subnet,
        Description="second leg",
        PrivateIpAddress="10.44.0.20",
        Groups=[group],
        TagSpecifications=[{"ResourceType": "network-interface", "Tags": [{"Key": "a", "Value": "b"}]}],
    )["NetworkInterface"]
    eni, port = made["NetworkInterfaceId"], Port.objects.get(description="second leg")
    assert made == {
        "NetworkInterfaceId": eni,
        "InterfaceType": "interface",
        "Description": "second leg",
        "OwnerId": people.alice.project_id.hex,
        "VpcId": ids.id_of("vpc", net.id),
        "SubnetId": subnet,
        "AvailabilityZone": "nova",
        "MacAddress": port.mac_address,
        "Status": "available",
        "SourceDestCheck": True,
        "RequesterManaged": False,
        "Groups": [{"GroupId": group, "GroupName": "web"}],
        "Ipv6Native": False,
        "Ipv6Addresses": [],
        "PrivateIpAddress": "10.44.0.20",
        "PrivateIpAddresses": [{"PrivateIpAddress": "10.44.0.20", "Primary": True}],
        "TagSet": [{"Key": "a", "Value": "b"}],
    }
    assert shown(alice, eni) == made
    alice.delete_network_interface(NetworkInterfaceId=eni)
    assert not Port.objects.filter(pk=port.pk).exists()
    assert refused(alice.delete_network_interface, NetworkInterfaceId=eni) == "InvalidNetworkInterfaceID.NotFound"


def test_a_request_with_a_client_token_makes_one(alice: Any, subnet: str) -> None:
    made = [alice.create_network_interface(SubnetId=subnet, ClientToken="once")["NetworkInterface"] for _ in range(2)]
    assert made[0] == made[1]
    assert Port.objects.filter(device_owner="").count() == 1


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"SecondaryPrivateIpAddressCount": 2}, 3),
        ({"PrivateIpAddresses": [named("10.44.0.30"), named("10.44.0.31")]}, 3),
        (
            {"PrivateIpAddresses": [named("10.44.0.31"), named("10.44.0.30", Primary=True)]},
            ["10.44.0.30", "10.44.0.31"],
        ),
        ({"PrivateIpAddress": "10.44.0.99", "PrivateIpAddresses": [named("10.44.0.9")]}, ["10.44.0.99", "10.44.0.9"]),
    ],
)  # fmt: skip
def test_an_interface_begins_with_several_addresses(
    alice: Any, subnet: str, arguments: dict[str, Any], found: int | list[str]
) -> None:
    made = alice.create_network_interface(SubnetId=subnet, **arguments)["NetworkInterface"]
    has = addresses(alice, made["NetworkInterfaceId"])
    assert found in (has, len(has))
    if found == 3:
        assert has[0] not in {"10.44.0.30", "10.44.0.31"}  # the first one is a free one
    assert [each["Primary"] for each in made["PrivateIpAddresses"]] == [True] + [False] * (len(has) - 1)


@pytest.fixture
def taken(alice: Any, subnet: str) -> None:
    alice.create_network_interface(SubnetId=subnet, PrivateIpAddress="10.44.0.10")


@pytest.mark.slow
@each_row(
    ("arguments", "code"),
    [
        ({"SubnetId": "subnet-0123456789abcdef0"}, "InvalidSubnetID.NotFound"),
        ({"SubnetId": "net"}, "InvalidSubnetID.Malformed"),
        ({"PrivateIpAddress": "10.45.0.2"}, WRONG),
        ({"PrivateIpAddress": "first"}, WRONG),
        ({"PrivateIpAddress": "10.44.0.10"}, "InvalidIPAddress.InUse"),
        ({"PrivateIpAddress": "10.44.0.20", "PrivateIpAddresses": [named("10.44.0.21", Primary=True)]}, COMBINATION),
        ({"SecondaryPrivateIpAddressCount": 1, "PrivateIpAddresses": [named("10.44.0.21")]}, COMBINATION),
        ({"SecondaryPrivateIpAddressCount": 5}, "PrivateIpAddressLimitExceeded"),
        ({"SecondaryPrivateIpAddressCount": -1}, WRONG),
        ({"PrivateIpAddresses": [{"Primary": True}]}, "MissingParameter"),
        ({"Ipv6AddressCount": 1}, WRONG),
        ({"Description": "x" * 256}, WRONG),
        ({"Groups": ["sg-0123456789abcdef0"]}, "InvalidGroup.NotFound"),
        ({"InterfaceType": "efa"}, "UnsupportedOperation"),
    ],
)  # fmt: skip
def test_interfaces_that_cannot_be(alice: Any, subnet: str, taken: None, arguments: dict[str, Any], code: str) -> None:
    assert refused(alice.create_network_interface, **{"SubnetId": subnet, **arguments}) == code
    assert Port.objects.filter(device_owner="").count() == 1


def test_limits_of_interfaces(alice: Any, people: People, net: Network, subnet: str) -> None:
    set_limits(people.alice.project_id, {"ports": 0})
    assert refused(alice.create_network_interface, SubnetId=subnet) == "NetworkInterfaceLimitExceeded"
    set_limits(people.alice.project_id, {"ports": -1, "fixed_ips": 1})
    code = refused(alice.create_network_interface, SubnetId=subnet, SecondaryPrivateIpAddressCount=1)
    assert code == "PrivateIpAddressLimitExceeded"
    set_limits(people.alice.project_id, {"fixed_ips": -1})
    small = services.create_subnet(net, "10.45.0.0/30", enable_dhcp=False)
    subnet_id = ids.id_of("subnet", small.id)
    alice.create_network_interface(SubnetId=subnet_id, Description="the last")
    assert refused(alice.create_network_interface, SubnetId=subnet_id) == "InsufficientFreeAddressesInSubnet"


def test_on_a_shared_network_nobody_chooses_addresses(alice: Any, cloud: Cloud) -> None:
    shared = ids.id_of("subnet", cloud.network.subnets.get().id)
    made = alice.create_network_interface(SubnetId=shared)["NetworkInterface"]
    assert made["VpcId"] == ids.id_of("vpc", cloud.network.id)
    create = alice.create_network_interface
    assert refused(create, SubnetId=shared, PrivateIpAddress="10.20.0.77") == "UnauthorizedOperation"


def attached(alice: Any, server: Instance, eni: str, cloud: Cloud) -> str:
    instance = ids.id_of("i", server.id)
    attachment = alice.attach_network_interface(NetworkInterfaceId=eni, InstanceId=instance, DeviceIndex=1)
    cloud.run()
    return str(attachment["AttachmentId"])


def test_an_interface_is_attached_and_detached(alice: Any, server: Instance, eni: str, cloud: Cloud) -> None:
    attachment, instance = attached(alice, server, eni, cloud), ids.id_of("i", server.id)
    made = shown(alice, eni)
    assert made["Status"] == "in-use"
    del made["Attachment"]["AttachTime"]
    assert made["Attachment"] == {
        "AttachmentId": attachment,
        "InstanceId": instance,
        "InstanceOwnerId": made["OwnerId"],
        "DeviceIndex": 1,
        "NetworkCardIndex": 0,
        "Status": "attached",
        "DeleteOnTermination": False,
    }
    assert made["PrivateDnsName"].startswith(server.hostname)
    assert refused(alice.delete_network_interface, NetworkInterfaceId=eni) == "InvalidNetworkInterface.InUse"
    filters = [{"Name": "attachment.instance-id", "Values": [instance]}]
    both = alice.describe_network_interfaces(Filters=filters)["NetworkInterfaces"]
    first, second = sorted(both, key=lambda each: int(each["Attachment"]["DeviceIndex"]))
    assert (first["Attachment"]["DeviceIndex"], second["NetworkInterfaceId"]) == (0, eni)
    (seen,) = alice.describe_instances(InstanceIds=[instance])["Reservations"][0]["Instances"]
    assert [each["NetworkInterfaceId"] for each in seen["NetworkInterfaces"]] == [first["NetworkInterfaceId"], eni]
    detach = alice.detach_network_interface
    assert refused(detach, AttachmentId=first["Attachment"]["AttachmentId"]) == "OperationNotPermitted"
    detach(AttachmentId=attachment, Force=True)
    cloud.run()
    assert shown(alice, eni)["Status"] == "available"
    assert refused(detach, AttachmentId=attachment) == "InvalidAttachmentID.NotFound"


def test_attachments_that_cannot_be(alice: Any, server: Instance, eni: str, cloud: Cloud, subnet: str) -> None:
    attach, instance = alice.attach_network_interface, ids.id_of("i", server.id)
    given: dict[str, Any] = {"NetworkInterfaceId": eni, "InstanceId": instance, "DeviceIndex": 1}
    assert refused(attach, **given | {"DeviceIndex": 0}) == WRONG
    assert refused(attach, **given | {"DeviceIndex": 2}) == WRONG
    assert refused(attach, **given | {"NetworkCardIndex": 1}) == "UnsupportedOperation"
    assert refused(attach, **given | {"InstanceId": "i-0123456789abcdef0"}) == "InvalidInstanceID.NotFound"
    assert refused(attach, **given | {"NetworkInterfaceId": NOTHING}) == "InvalidNetworkInterfaceID.NotFound"
    attach(**given)
    assert refused(attach, **given | {"DeviceIndex": 2}) == "InvalidNetworkInterface.InUse"
    for index in range(2, 8):
        more = alice.create_network_interface(SubnetId=subnet, Description=str(index))["NetworkInterface"]
        attach(InstanceId=instance, NetworkInterfaceId=more["NetworkInterfaceId"], DeviceIndex=index)
    more = alice.create_network_interface(SubnetId=subnet, Description="more")["NetworkInterface"]["NetworkInterfaceId"]
    one_more = given | {"NetworkInterfaceId": more, "DeviceIndex": 8}
    assert refused(attach, **one_more) == "AttachmentLimitExceeded"


def test_an_interface_goes_with_its_instance_or_stays(
    alice: Any, people: People, server: Instance, eni: str, cloud: Cloud
) -> None:
    """What holds the quota changes, and what the project has of it does not."""
    attachment, modify = attached(alice, server, eni, cloud), alice.modify_network_interface_attribute
    before = usage_of(people.alice.project_id)
    for value in (True, True, False, True):
        requested = {"AttachmentId": attachment, "DeleteOnTermination": value}
        modify(NetworkInterfaceId=eni, Attachment=requested)
        assert shown(alice, eni)["Attachment"]["DeleteOnTermination"] is value
        assert usage_of(people.alice.project_id) == before
    other = {"AttachmentId": "eni-attach-0123456789abcdef0", "DeleteOnTermination": False}
    assert refused(modify, NetworkInterfaceId=eni, Attachment=other) == "InvalidAttachmentID.NotFound"
    assert refused(modify, NetworkInterfaceId=eni, Attachment={"AttachmentId": attachment}) == "MissingParameter"
    alice.terminate_instances(InstanceIds=[ids.id_of("i", server.id)])
    cloud.run()
    assert refused(alice.describe_network_interfaces, NetworkInterfaceIds=[eni]) == "InvalidNetworkInterfaceID.NotFound"
    usage = usage_of(people.alice.project_id)
    assert (usage["ports"], usage["fixed_ips"]) == (0, 0)


def test_attributes_of_an_interface(alice: Any, eni: str) -> None:
    modify, group = (
        alice.modify_network_interface_attribute,
        alice.create_security_group(GroupName="w", Description="x"),
    )

    def attribute(name: str) -> Any:
        return alice.describe_network_interface_attribute(NetworkInterfaceId=eni, Attribute=name)

    modify(NetworkInterfaceId=eni, Description={"Value": "other"})
    assert attribute("description")["Description"] == {"Value": "other"}
    modify(NetworkInterfaceId=eni, Groups=[group["GroupId"]])
    assert [each["GroupId"] for each in attribute("groupSet")["Groups"]] == [group["GroupId"]]
    assert "Attachment" not in attribute("attachment")
    assert refused(modify, NetworkInterfaceId=eni) == COMBINATION
    assert refused(modify, NetworkInterfaceId=eni, Description={"Value": "x" * 256}) == WRONG
    assert refused(modify, NetworkInterfaceId=eni, Description={"Value": ""}, Groups=["x"]) == COMBINATION
    assert refused(modify, NetworkInterfaceId=eni, Groups=["sg-0123456789abcdef0"]) == "InvalidGroup.NotFound"
    assert refused(alice.describe_network_interface_attribute, NetworkInterfaceId=eni) == "MissingParameter"


def test_the_check_of_sources_is_port_security(alice: Any, eni: str) -> None:
    """Groups filter nothing without it: an interface in groups is not let out of it."""
    modify = alice.modify_network_interface_attribute
    code = refused(modify, NetworkInterfaceId=eni, SourceDestCheck={"Value": False})
    assert code == "UnsupportedOperation"
    port = Port.objects.get(device_owner="")
    services.update_port(port, {}, groups=[])
    modify(NetworkInterfaceId=eni, SourceDestCheck={"Value": False})
    assert not shown(alice, eni)["SourceDestCheck"]
    alice.reset_network_interface_attribute(NetworkInterfaceId=eni, SourceDestCheck="sourceDestCheck")
    assert shown(alice, eni)["SourceDestCheck"]


def test_additional_addresses_are_added_and_removed(alice: Any, eni: str) -> None:
    assign, unassign = alice.assign_private_ip_addresses, alice.unassign_private_ip_addresses
    (first,) = addresses(alice, eni)
    made = assign(NetworkInterfaceId=eni, PrivateIpAddresses=["10.44.0.50"])
    assert made["AssignedPrivateIpAddresses"] == [{"PrivateIpAddress": "10.44.0.50"}]
    (free,) = assign(NetworkInterfaceId=eni, SecondaryPrivateIpAddressCount=1)["AssignedPrivateIpAddresses"]
    assert addresses(alice, eni) == [first, "10.44.0.50", free["PrivateIpAddress"]]
    unassign(NetworkInterfaceId=eni, PrivateIpAddresses=["10.44.0.50"])
    assert addresses(alice, eni) == [first, free["PrivateIpAddress"]]
    for given, code in (
        ({"PrivateIpAddresses": ["10.45.0.1"]}, WRONG),
        ({"PrivateIpAddresses": ["10.44.0.51"], "SecondaryPrivateIpAddressCount": 1}, COMBINATION),
        ({"PrivateIpAddresses": ["10.44.0.51"], "AllowReassignment": True}, "UnsupportedOperation"),
        ({"SecondaryPrivateIpAddressCount": 0}, WRONG),
        ({"SecondaryPrivateIpAddressCount": 4}, "PrivateIpAddressLimitExceeded"),
        ({}, "MissingParameter"),
    ):
        assert refused(assign, NetworkInterfaceId=eni, **given) == code
    for gone in (first, "10.44.0.50"):
        assert refused(unassign, NetworkInterfaceId=eni, PrivateIpAddresses=[gone]) == WRONG
    assert len(addresses(alice, eni)) == 2


def test_an_address_of_another_interface_is_in_use(alice: Any, subnet: str, eni: str) -> None:
    other = alice.create_network_interface(SubnetId=subnet, PrivateIpAddress="10.44.0.60")["NetworkInterface"]
    assign = alice.assign_private_ip_addresses
    assert refused(assign, NetworkInterfaceId=eni, PrivateIpAddresses=["10.44.0.60"]) == "InvalidIPAddress.InUse"
    assert addresses(alice, other["NetworkInterfaceId"]) == ["10.44.0.60"]


def test_addresses_of_ipv6_that_are_given_out(alice: Any, net: Network, subnet: str) -> None:
    modes = {"ipv6_ra_mode": "dhcpv6-stateful", "ipv6_address_mode": "dhcpv6-stateful"}
    services.create_subnet(net, "fd00:44::/64", **modes)  # type: ignore[arg-type]
    made = alice.create_network_interface(SubnetId=subnet, Ipv6AddressCount=1)["NetworkInterface"]
    eni = made["NetworkInterfaceId"]
    assert len(made["Ipv6Addresses"]) == len(made["PrivateIpAddresses"]) == 1
    added = alice.assign_ipv6_addresses(NetworkInterfaceId=eni, Ipv6Addresses=["FD00:44:0::99"])
    assert added["AssignedIpv6Addresses"] == ["fd00:44::99"]
    alice.unassign_ipv6_addresses(NetworkInterfaceId=eni, Ipv6Addresses=["fd00:44:0:0::99"])
    assert shown(alice, eni)["Ipv6Addresses"] == made["Ipv6Addresses"]
    assert refused(alice.assign_ipv6_addresses, NetworkInterfaceId=eni) == "MissingParameter"


def test_addresses_of_ipv6_that_guests_make(alice: Any, net: Network, subnet: str) -> None:
    ipv6 = services.create_subnet(net, "fd00:44::/64", ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
    both = alice.create_network_interface(SubnetId=subnet, Ipv6AddressCount=1)["NetworkInterface"]
    assert both["Ipv6Addresses"][0]["Ipv6Address"].startswith("fd00:44::")
    alone = alice.create_network_interface(SubnetId=ids.id_of("subnet", ipv6.id))["NetworkInterface"]
    assert (alone["Ipv6Native"], alone["PrivateIpAddresses"]) == (True, [])
    assign = alice.assign_ipv6_addresses
    given = {"NetworkInterfaceId": both["NetworkInterfaceId"], "Ipv6AddressCount": 1}
    assert refused(assign, **given) == "UnsupportedOperation"


def test_the_clouds_own_ports_are_no_interfaces(alice: Any, people: People, net: Network) -> None:
    router = services.create_router(people.alice.project_id)
    leg = services.add_interface_by_subnet(router, Subnet.objects.get(network=net)).port
    assert alice.describe_network_interfaces()["NetworkInterfaces"] == []
    own = ids.id_of("eni", leg.id)
    assert refused(alice.delete_network_interface, NetworkInterfaceId=own) == "InvalidNetworkInterfaceID.NotFound"


def test_interfaces_of_others_are_not_there(alice: Any, charlie: Any, bob: Any, eni: str, subnet: str) -> None:
    missing = "InvalidNetworkInterfaceID.NotFound"
    assert charlie.describe_network_interfaces()["NetworkInterfaces"] == []
    assert refused(charlie.describe_network_interfaces, NetworkInterfaceIds=[eni]) == missing
    assert refused(charlie.delete_network_interface, NetworkInterfaceId=eni) == missing
    given: dict[str, Any] = {"NetworkInterfaceId": eni}
    assert refused(charlie.assign_private_ip_addresses, **given, SecondaryPrivateIpAddressCount=1) == missing
    assert refused(charlie.modify_network_interface_attribute, **given, Description={"Value": "x"}) == missing
    assert refused(charlie.create_network_interface, SubnetId=subnet) == "InvalidSubnetID.NotFound"
    assert refused(alice.delete_network_interface, NetworkInterfaceId="eni") == "InvalidNetworkInterfaceId.Malformed"
    assert refused(bob.create_network_interface, SubnetId=subnet) == "UnauthorizedOperation"
    assert len(bob.describe_network_interfaces()["NetworkInterfaces"]) == 1


def test_interfaces_are_filtered_tagged_and_paged(alice: Any, subnet: str) -> None:
    for number in range(3):
        alice.create_network_interface(SubnetId=subnet, Description=f"n{number}")

    def descriptions(name: str, value: str) -> list[str]:
        network_interfaces = alice.describe_network_interfaces(Filters=[{"Name": name, "Values": [value]}])[
            "NetworkInterfaces"
        ]
        return [each["Description"] for each in network_interfaces]

    assert descriptions("description", "n[12]") == []
    assert descriptions("description", "n?") == ["n0", "n1", "n2"]
    assert descriptions("subnet-id", subnet) == ["n0", "n1", "n2"]
    assert descriptions("group-name", "default") == ["n0", "n1", "n2"]
    assert descriptions("status", "in-use") == []
    first = alice.describe_network_interfaces()["NetworkInterfaces"][0]["NetworkInterfaceId"]
    alice.create_tags(Resources=[first], Tags=[{"Key": "a", "Value": "b"}])
    assert descriptions("tag:a", "b") == ["n0"]
    pages = alice.get_paginator("describe_network_interfaces").paginate(PaginationConfig={"PageSize": 2})
    assert [len(page["NetworkInterfaces"]) for page in pages] == [2, 1]
