"""Elastic IP addresses: allocated, led to interfaces and instances, and released."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.compute.launch.request import NetworkRequest
from provisioning.ec2 import ids
from provisioning.network import services
from provisioning.network.models import FloatingIP, Network, Port
from provisioning.network.services.floating_ips.port_forwardings import ForwardingRequest
from provisioning.quotas.services.limits import set_limits
from tests.ec2_api.conftest import refused
from tests.support.cast import People
from tests.support.clouds import Cloud
from tests.support.standing import standing
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db
NOTHING = "eipalloc-0123456789abcdef0"


@pytest.fixture
@standing
def external(people: People) -> Network:
    network = services.create_network(people.operator.project_id, "public", external=True)
    services.create_subnet(network, "203.0.113.0/29", enable_dhcp=False)
    return network


@pytest.fixture
@standing
def net(people: People) -> Network:
    network = services.create_network(people.alice.project_id, "net")
    services.create_subnet(network, "10.44.0.0/24")
    return network


@pytest.fixture
@standing
def way_out(people: People, external: Network, net: Network) -> None:
    router = services.create_router(people.alice.project_id, gateway=services.Gateway(external))
    services.add_interface_by_subnet(router, net.subnets.get())


def interface(people: People, net: Network, **columns: Any) -> tuple[Port, str]:
    port = services.create_port(people.alice.project_id, net, **columns)
    return port, ids.id_of("eni", port.id)


def led(alice: Any, address: str) -> str | None:
    """The private address that a public one leads to."""
    (shape,) = alice.describe_addresses(PublicIps=[address])["Addresses"]
    return shape.get("PrivateIpAddress")


@pytest.mark.slow
@pytest.mark.both_databases
def test_an_address_is_allocated_associated_and_released(
    alice: Any, people: People, net: Network, way_out: None
) -> None:
    given = [{"ResourceType": "elastic-ip", "Tags": [{"Key": "a", "Value": "b"}]}]
    made = alice.allocate_address(Domain="vpc", TagSpecifications=given)
    allocation, address = made["AllocationId"], made["PublicIp"]
    port, eni = interface(people, net)
    association = alice.associate_address(AllocationId=allocation, NetworkInterfaceId=eni)["AssociationId"]
    (shown,) = alice.describe_addresses(AllocationIds=[allocation])["Addresses"]
    assert shown == {
        "PublicIp": address,
        "AllocationId": allocation,
        "AssociationId": association,
        "Domain": "vpc",
        "NetworkInterfaceId": eni,
        "NetworkInterfaceOwnerId": people.alice.project_id.hex,
        "PrivateIpAddress": port.fixed_ips.get().address,
        "PublicIpv4Pool": "public",
        "NetworkBorderGroup": "RegionOne",
        "Tags": [{"Key": "a", "Value": "b"}],
    }
    assert alice.associate_address(PublicIp=address, NetworkInterfaceId=eni)["AssociationId"] == association
    assert refused(alice.release_address, AllocationId=allocation) == "InvalidIPAddress.InUse"
    alice.disassociate_address(AssociationId=association)
    assert refused(alice.disassociate_address, AssociationId=association) == "InvalidAssociationID.NotFound"
    alice.disassociate_address(PublicIp=address)  # as old clients do: nothing is to be done
    alice.release_address(PublicIp=address)
    assert alice.describe_addresses()["Addresses"] == []
    assert refused(alice.release_address, AllocationId=allocation) == "InvalidAllocationID.NotFound"


@pytest.mark.slow
def test_an_instance_has_its_address(alice: Any, people: People, cloud: Cloud, net: Network, way_out: None) -> None:
    server = cloud.running(people.alice.context, networks=(NetworkRequest(str(net.id)),))
    instance, address = ids.id_of("i", server.id), alice.allocate_address()["PublicIp"]
    alice.associate_address(PublicIp=address, InstanceId=instance)
    (shown,) = alice.describe_addresses(Filters=[{"Name": "instance-id", "Values": [instance]}])["Addresses"]
    assert (shown["PublicIp"], shown["InstanceId"]) == (address, instance)
    assert refused(alice.associate_address, PublicIp=address, InstanceId=instance, PrivateIpAddress="10.9.9.9") == (
        "InvalidParameterValue"
    )


@pytest.mark.slow
def test_what_leads_elsewhere_is_moved_or_refused(alice: Any, people: People, net: Network, way_out: None) -> None:
    (_, one), (_, other) = interface(people, net), interface(people, net)
    first, second = (alice.allocate_address() for _ in range(2))
    alice.associate_address(AllocationId=first["AllocationId"], NetworkInterfaceId=one)

    def stay(address: dict[str, Any], eni: str) -> str:
        return refused(
            alice.associate_address,
            AllocationId=address["AllocationId"],
            NetworkInterfaceId=eni,
            AllowReassociation=False,
        )

    assert stay(first, other) == "Resource.AlreadyAssociated"
    assert stay(second, one) == "Resource.AlreadyAssociated"
    assert led(alice, first["PublicIp"])
    alice.associate_address(AllocationId=second["AllocationId"], NetworkInterfaceId=one)
    assert led(alice, second["PublicIp"])
    assert led(alice, first["PublicIp"]) is None
    alice.associate_address(AllocationId=second["AllocationId"], NetworkInterfaceId=other)
    assert FloatingIP.objects.filter(fixed_port__isnull=False).count() == 1


@pytest.mark.slow
def test_an_interface_with_two_addresses_has_a_first_one(
    alice: Any, people: People, net: Network, way_out: None
) -> None:
    subnet = net.subnets.get().id
    fixed_ips = [{"subnet_id": subnet, "ip_address": f"10.44.0.{number}"} for number in (20, 10)]
    _, eni = interface(people, net, fixed_ips=fixed_ips)
    address = alice.allocate_address()["PublicIp"]
    alice.associate_address(PublicIp=address, NetworkInterfaceId=eni)
    assert led(alice, address) == "10.44.0.20"
    alice.associate_address(PublicIp=address, NetworkInterfaceId=eni, PrivateIpAddress="10.44.0.10")
    assert led(alice, address) == "10.44.0.10"


def test_without_a_way_out_nothing_is_led(alice: Any, people: People, net: Network, external: Network) -> None:
    _, eni = interface(people, net)
    address = alice.allocate_address()["PublicIp"]
    assert refused(alice.associate_address, PublicIp=address, NetworkInterfaceId=eni) == "Gateway.NotAttached"
    assert led(alice, address) is None


@pytest.mark.slow
def test_addresses_that_cannot_be_had(alice: Any, boto: Any, people: People, external: Network) -> None:
    allocate, operator = alice.allocate_address, boto(people.operator)
    assert refused(allocate, Domain="standard") == "UnsupportedOperation"
    assert refused(allocate, PublicIpv4Pool="elsewhere") == "InvalidParameterValue"
    assert refused(allocate, NetworkBorderGroup="elsewhere") == "InvalidParameterValue"
    assert refused(allocate, Address="203.0.113.5") == "UnauthorizedOperation"
    assert operator.allocate_address(Address="203.0.113.5", PublicIpv4Pool="public")["PublicIp"] == "203.0.113.5"
    assert refused(operator.allocate_address, Address="203.0.113.5") == "InvalidIPAddress.InUse"
    assert refused(operator.allocate_address, Address="10.0.0.1") == "InvalidParameterValue"
    set_limits(people.alice.project_id, {"floatingips": 1})
    allocate()
    assert refused(allocate) == "AddressLimitExceeded"
    set_limits(people.alice.project_id, {"floatingips": -1})
    for _ in range(3):
        allocate()
    assert refused(allocate) == "InsufficientAddressCapacity"


def test_a_cloud_without_an_external_network_has_no_address(alice: Any) -> None:
    assert refused(alice.allocate_address) == "InsufficientAddressCapacity"


@pytest.mark.slow
def test_addresses_of_others_are_not_there(
    alice: Any, charlie: Any, bob: Any, people: People, net: Network, way_out: None
) -> None:
    made = alice.allocate_address()
    _, eni = interface(people, net)
    for call in (charlie.release_address, charlie.associate_address):
        more = {"NetworkInterfaceId": eni} if call == charlie.associate_address else {}
        assert refused(call, AllocationId=made["AllocationId"], **more) == "InvalidAllocationID.NotFound"
        assert refused(call, PublicIp=made["PublicIp"], **more) == "InvalidAddress.NotFound"
    own = charlie.allocate_address()
    assert refused(charlie.associate_address, AllocationId=own["AllocationId"], NetworkInterfaceId=eni) == (
        "InvalidNetworkInterfaceID.NotFound"
    )
    assert charlie.describe_addresses()["Addresses"][0]["PublicIp"] == own["PublicIp"]
    assert refused(bob.release_address, AllocationId=made["AllocationId"]) == "UnauthorizedOperation"
    assert len(bob.describe_addresses()["Addresses"]) == 1


@each_row(
    ("arguments", "code"),
    [
        ({}, "MissingParameter"),
        ({"AllocationId": "address"}, "InvalidAllocationID.Malformed"),
        ({"AllocationId": NOTHING, "PublicIp": "203.0.113.3"}, "InvalidParameterCombination"),
        ({"PublicIp": "203.0.113.3"}, "MissingParameter"),
        ({"PublicIp": "203.0.113.3", "InstanceId": "i-1"}, "InvalidInstanceID.Malformed"),
        ({"PublicIp": "203.0.113.3", "InstanceId": "i-0123456789abcdef0"}, "InvalidInstanceID.NotFound"),
        ({"PublicIp": "203.0.113.3", "InstanceId": "i-1", "NetworkInterfaceId": "x"}, "InvalidParameterCombination"),
    ],
)
def test_wrong_associations(alice: Any, way_out: None, arguments: dict[str, str], code: str) -> None:
    assert alice.allocate_address()["PublicIp"] == "203.0.113.3"
    assert refused(alice.associate_address, **arguments) == code


@pytest.mark.both_databases("sql")
def test_text_that_is_no_address_is_not_found(alice: Any, external: Network) -> None:
    for text in ("²", "elsewhere", "203.0.113.3/29"):
        assert refused(alice.release_address, PublicIp=text) == "InvalidAddress.NotFound"
        assert refused(alice.describe_addresses, PublicIps=[text]) == "InvalidAddress.NotFound"


def test_an_address_that_forwards_ports_is_in_use(alice: Any, people: People, net: Network, way_out: None) -> None:
    address = alice.allocate_address()["PublicIp"]
    floating, (port, eni) = FloatingIP.objects.get(address=address), interface(people, net)
    forwarding = ForwardingRequest("tcp", (80, 80), port, port.fixed_ips.get().address, (8080, 8080))
    services.create_port_forwarding(floating, forwarding)
    assert refused(alice.release_address, PublicIp=address) == "InvalidIPAddress.InUse"
    assert refused(alice.associate_address, PublicIp=address, NetworkInterfaceId=eni) == "Resource.AlreadyAssociated"


@pytest.mark.slow
def test_the_number_of_queries_does_not_grow(
    alice: Any, people: People, net: Network, way_out: None, django_assert_max_num_queries: Any
) -> None:
    for _ in range(4):
        _, eni = interface(people, net)
        alice.associate_address(PublicIp=alice.allocate_address()["PublicIp"], NetworkInterfaceId=eni)
    alice.describe_addresses()
    with django_assert_max_num_queries(12):
        assert len(alice.describe_addresses()["Addresses"]) == 4


def test_no_address_has_a_domain_name(alice: Any, charlie: Any, external: Network) -> None:
    made = alice.allocate_address()["AllocationId"]
    attributes = alice.describe_addresses_attribute
    assert attributes()["Addresses"] == attributes(AllocationIds=[made], Attribute="domain-name")["Addresses"] == []
    assert refused(charlie.describe_addresses_attribute, AllocationIds=[made]) == "InvalidAllocationID.NotFound"
