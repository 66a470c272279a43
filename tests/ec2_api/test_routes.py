"""Internet gateways, route tables and routes: the gateway, the networks and the extra routes of a router."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.ec2 import ids
from provisioning.ec2_services.internet_gateways import MOST_ON_THE_SHELF
from provisioning.network import services
from provisioning.network.models import InternetGateway, Network, Router, Subnet
from tests.ec2_api.conftest import refused
from tests.support.cast import People
from tests.support.standing import standing

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
EVERYWHERE = "0.0.0.0/0"


@pytest.fixture
@standing
def external(people: People) -> Network:
    network = services.create_network(people.operator.project_id, "public", external=True)
    services.create_subnet(network, "203.0.113.0/24", enable_dhcp=False)
    return network


@pytest.fixture
@standing
def vpc(alice: Any, external: Network) -> str:
    made = str(alice.create_vpc(CidrBlock="10.40.0.0/16")["Vpc"]["VpcId"])
    alice.create_subnet(VpcId=made, CidrBlock="10.40.1.0/24")
    return made


@pytest.fixture
@standing
def igw(alice: Any) -> str:
    return str(alice.create_internet_gateway()["InternetGateway"]["InternetGatewayId"])


@pytest.fixture
@standing
def attached(alice: Any, vpc: str, igw: str) -> str:
    alice.attach_internet_gateway(InternetGatewayId=igw, VpcId=vpc)
    return igw


@pytest.fixture
@standing
def routed(alice: Any, attached: str, table: str) -> str:
    """The gateway, once the default route leads through it."""
    alice.create_route(RouteTableId=table, DestinationCidrBlock=EVERYWHERE, GatewayId=attached)
    return attached


@pytest.fixture
@standing
def table(alice: Any, vpc: str) -> str:
    return str(table_of(alice, vpc)["RouteTableId"])


def table_of(alice: Any, vpc: str) -> Any:
    main = [{"Name": "vpc-id", "Values": [vpc]}, {"Name": "association.main", "Values": ["true"]}]
    (result,) = alice.describe_route_tables(Filters=main)["RouteTables"]
    return result


def routes(alice: Any, table: str) -> dict[str, str]:
    """Range → where it leads to."""
    (route_table,) = alice.describe_route_tables(RouteTableIds=[table])["RouteTables"]
    targets = ("GatewayId", "NetworkInterfaceId")
    return {
        str(route.get("DestinationCidrBlock") or route["DestinationIpv6CidrBlock"]): next(
            (str(route[name]) for name in targets if name in route), ""
        )
        for route in route_table["Routes"]
    }


def attachments(alice: Any, igw: str) -> list[str]:
    (shown,) = alice.describe_internet_gateways(InternetGatewayIds=[igw])["InternetGateways"]
    return [each["VpcId"] for each in shown["Attachments"]]


def test_a_gateway_is_made_attached_detached_and_deleted(
    alice: Any, people: People, vpc: str, external: Network
) -> None:
    given = [{"ResourceType": "internet-gateway", "Tags": [{"Key": "a", "Value": "b"}]}]
    made = alice.create_internet_gateway(TagSpecifications=given)["InternetGateway"]
    igw = made["InternetGatewayId"]
    owner = people.alice.project_id.hex
    assert made == {"InternetGatewayId": igw, "OwnerId": owner, "Attachments": [], "Tags": given[0]["Tags"]}
    alice.attach_internet_gateway(InternetGatewayId=igw, VpcId=vpc)
    assert attachments(alice, igw) == [vpc]
    gateway_port = Router.objects.get().gateway_port
    assert gateway_port is not None
    assert gateway_port.network_id == external.id
    assert refused(alice.delete_internet_gateway, InternetGatewayId=igw) == "DependencyViolation"
    subnet = alice.describe_subnets()["Subnets"][0]["SubnetId"]
    assert refused(alice.delete_vpc, VpcId=vpc) == "DependencyViolation"
    alice.delete_subnet(SubnetId=subnet)
    assert refused(alice.delete_vpc, VpcId=vpc) == "DependencyViolation"
    alice.detach_internet_gateway(InternetGatewayId=igw, VpcId=vpc)
    assert Router.objects.get().gateway_port is None
    assert attachments(alice, igw) == []
    alice.delete_vpc(VpcId=vpc)
    assert refused(alice.detach_internet_gateway, InternetGatewayId=igw, VpcId=vpc) == "Gateway.NotAttached"
    alice.delete_internet_gateway(InternetGatewayId=igw)
    assert refused(alice.delete_internet_gateway, InternetGatewayId=igw) == "InvalidInternetGatewayID.NotFound"


def test_gateways_that_cannot_be_attached(alice: Any, vpc: str, attached: str) -> None:
    attach, detach = alice.attach_internet_gateway, alice.detach_internet_gateway
    other_vpc = alice.create_vpc(CidrBlock="10.50.0.0/16")["Vpc"]["VpcId"]
    other = alice.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
    assert refused(attach, InternetGatewayId=attached, VpcId=other_vpc) == "Resource.AlreadyAssociated"
    assert refused(attach, InternetGatewayId=other, VpcId=vpc) == "Resource.AlreadyAssociated"
    assert refused(detach, InternetGatewayId=other, VpcId=vpc) == "Gateway.NotAttached"
    assert refused(attach, InternetGatewayId="igw-0123456789abcdef0", VpcId=vpc) == "InvalidInternetGatewayID.NotFound"
    assert refused(attach, InternetGatewayId=other, VpcId="vpc-12345678") == "InvalidVpcID.NotFound"


def test_a_gateway_that_addresses_need_stays(alice: Any, people: People, vpc: str, attached: str) -> None:
    port = services.create_port(people.alice.project_id, Subnet.objects.get(cidr="10.40.1.0/24").network)
    address = alice.allocate_address()["PublicIp"]
    alice.associate_address(PublicIp=address, NetworkInterfaceId=ids.id_of("eni", port.id))
    assert refused(alice.detach_internet_gateway, InternetGatewayId=attached, VpcId=vpc) == "DependencyViolation"
    assert attachments(alice, attached) == [vpc]


def test_without_an_external_network_no_gateway_leads_anywhere(alice: Any, igw: str) -> None:
    vpc = alice.create_vpc(CidrBlock="10.40.0.0/16")["Vpc"]["VpcId"]
    assert refused(alice.attach_internet_gateway, InternetGatewayId=igw, VpcId=vpc) == "UnsupportedOperation"
    assert attachments(alice, igw) == []


def test_ways_out_of_the_network_api_are_gateways(alice: Any, people: People, external: Network) -> None:
    network = services.create_network(people.alice.project_id, "net")
    subnet = services.create_subnet(network, "192.168.7.0/24")
    router = services.create_router(people.alice.project_id, gateway=services.Gateway(external))
    services.add_interface_by_subnet(router, subnet)
    vpc = ids.id_of("vpc", network.id)
    (shown,) = alice.describe_internet_gateways()["InternetGateways"]
    igw = shown["InternetGatewayId"]
    assert [each["VpcId"] for each in shown["Attachments"]] == [vpc]
    assert alice.describe_internet_gateways()["InternetGateways"] == [shown]
    assert routes(alice, table_of(alice, vpc)["RouteTableId"])[EVERYWHERE] == igw
    assert not InternetGateway.objects.exists()  # what is only shown is not written
    services.update_router(router, {"gateway": None})
    assert alice.describe_internet_gateways()["InternetGateways"] == []
    services.update_router(router, {"gateway": services.Gateway(external)})
    alice.detach_internet_gateway(InternetGatewayId=igw, VpcId=vpc)
    assert attachments(alice, igw) == []  # it is alice's now
    alice.attach_internet_gateway(InternetGatewayId=igw, VpcId=vpc)
    router.refresh_from_db()
    assert router.gateway_port is not None


def test_a_network_without_a_router_gets_one_with_its_gateway(
    alice: Any, people: People, external: Network, igw: str
) -> None:
    network = services.create_network(people.alice.project_id, "net")
    services.create_subnet(network, "192.168.7.0/24")
    vpc = ids.id_of("vpc", network.id)
    assert alice.describe_route_tables()["RouteTables"] == []
    alice.attach_internet_gateway(InternetGatewayId=igw, VpcId=vpc)
    table = table_of(alice, vpc)["RouteTableId"]
    assert routes(alice, table) == {"192.168.7.0/24": "local"}
    alice.create_route(RouteTableId=table, DestinationCidrBlock=EVERYWHERE, GatewayId=igw)
    assert routes(alice, table) == {"192.168.7.0/24": "local", EVERYWHERE: igw}


def test_gateways_on_the_shelf_are_limited(alice: Any) -> None:
    for number in range(MOST_ON_THE_SHELF):  # each request is another one: two alike are for a moment only
        tag = {"Key": "number", "Value": str(number)}
        alice.create_internet_gateway(TagSpecifications=[{"ResourceType": "internet-gateway", "Tags": [tag]}])
    assert refused(alice.create_internet_gateway) == "InternetGatewayLimitExceeded"
    assert InternetGateway.objects.count() == MOST_ON_THE_SHELF


@pytest.mark.both_databases
def test_a_route_table_is_the_router(alice: Any, people: People, vpc: str, routed: str) -> None:
    table, active = table_of(alice, vpc), {"State": "active"}
    assert table == {
        "RouteTableId": ids.id_of("rtb", Router.objects.get().id),
        "VpcId": vpc,
        "OwnerId": people.alice.project_id.hex,
        "Associations": [
            {
                "Main": True,
                "RouteTableAssociationId": table["Associations"][0]["RouteTableAssociationId"],
                "RouteTableId": table["RouteTableId"],
                "AssociationState": {"State": "associated"},
            }
        ],
        "Routes": [
            active | {"DestinationCidrBlock": "10.40.0.0/16", "GatewayId": "local", "Origin": "CreateRouteTable"},
            active | {"DestinationCidrBlock": EVERYWHERE, "GatewayId": routed, "Origin": "CreateRoute"},
        ],
        "PropagatingVgws": [],
        "Tags": [],
    }  # fmt: skip
    assert refused(alice.create_route_table, VpcId=vpc) == "InvalidAction"


def test_the_default_route_is_the_gateway(alice: Any, vpc: str, attached: str, table: str) -> None:
    create, delete = alice.create_route, alice.delete_route
    local = {"10.40.0.0/16": "local"}
    for _ in range(2):
        assert routes(alice, table) == local
        assert not Router.objects.get().enable_snat
        for _ in range(2):
            assert create(RouteTableId=table, DestinationCidrBlock=EVERYWHERE, GatewayId=attached)["Return"]
        assert routes(alice, table) == local | {EVERYWHERE: attached}
        assert Router.objects.get().enable_snat
        delete(RouteTableId=table, DestinationCidrBlock=EVERYWHERE)
    assert attachments(alice, attached) == [vpc]
    ipv6 = {"DestinationIpv6CidrBlock": "::/0", "GatewayId": attached}
    assert refused(create, RouteTableId=table, **ipv6) == "UnsupportedOperation"
    assert refused(delete, RouteTableId=table, DestinationCidrBlock=EVERYWHERE) == "InvalidRoute.NotFound"
    create(RouteTableId=table, DestinationCidrBlock=EVERYWHERE, GatewayId=attached)
    assert routes(alice, table)[EVERYWHERE] == attached
    assert refused(delete, RouteTableId=table, DestinationCidrBlock="10.40.0.0/16") == "InvalidParameterValue"
    code = refused(create, RouteTableId=table, DestinationCidrBlock="10.60.0.0/16", GatewayId=attached)
    assert code == "UnsupportedOperation"


def interface(people: People) -> str:
    port = services.create_port(people.alice.project_id, Subnet.objects.get(cidr="10.40.1.0/24").network)
    return ids.id_of("eni", port.id)


@pytest.mark.both_databases
def test_routes_through_interfaces(alice: Any, people: People, vpc: str, table: str) -> None:
    one, other = interface(people), interface(people)
    route = {"RouteTableId": table, "DestinationCidrBlock": "10.60.0.0/16"}
    alice.create_route(**route, NetworkInterfaceId=one)
    assert routes(alice, table)["10.60.0.0/16"] == one
    assert refused(alice.create_route, **route, NetworkInterfaceId=other) == "RouteAlreadyExists"
    alice.replace_route(**route, NetworkInterfaceId=other)
    assert routes(alice, table)["10.60.0.0/16"] == other
    alice.delete_route(**route)
    assert refused(alice.replace_route, **route, NetworkInterfaceId=one) == "InvalidRoute.NotFound"
    assert routes(alice, table) == {"10.40.0.0/16": "local"}


def test_the_default_route_moves_to_an_interface_and_back(
    alice: Any, people: People, vpc: str, routed: str, table: str
) -> None:
    eni, route = interface(people), {"RouteTableId": table, "DestinationCidrBlock": EVERYWHERE}
    assert refused(alice.create_route, **route, NetworkInterfaceId=eni) == "RouteAlreadyExists"
    alice.replace_route(**route, NetworkInterfaceId=eni)
    assert routes(alice, table)[EVERYWHERE] == eni
    alice.replace_route(**route, GatewayId=routed)
    assert routes(alice, table)[EVERYWHERE] == routed


def test_routes_that_cannot_be(
    alice: Any, charlie: Any, people: People, vpc: str, igw: str, table: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    eni, create = interface(people), alice.create_route
    there = {"DestinationCidrBlock": "10.60.0.0/16"}
    nowhere = services.create_port(people.alice.project_id, services.create_network(people.alice.project_id, "x"))
    for given, code in (
        ({}, "MissingParameter"),
        (there, "MissingParameter"),
        (there | {"NetworkInterfaceId": eni, "GatewayId": igw}, "InvalidParameterCombination"),
        ({"DestinationCidrBlock": "there", "NetworkInterfaceId": eni}, "InvalidParameterValue"),
        ({"DestinationCidrBlock": "fd00::/64", "NetworkInterfaceId": eni}, "InvalidParameterValue"),
        ({"DestinationIpv6CidrBlock": "fd00::/64", "NetworkInterfaceId": eni}, "InvalidParameterValue"),
        ({"DestinationCidrBlock": "10.40.0.0/16", "NetworkInterfaceId": eni}, "RouteAlreadyExists"),
        ({"DestinationCidrBlock": EVERYWHERE, "GatewayId": igw}, "InvalidParameterValue"),
        ({"DestinationCidrBlock": EVERYWHERE, "GatewayId": "local"}, "UnsupportedOperation"),
        (there | {"NetworkInterfaceId": ids.id_of("eni", nowhere.id)}, "InvalidParameterValue"),
        (there | {"InstanceId": "i-0123456789abcdef0"}, "InvalidInstanceID.NotFound"),
        (there | {"NatGatewayId": "nat-1"}, "UnsupportedOperation"),
    ):  # fmt: skip
        assert refused(create, RouteTableId=table, **given) == code, given
    monkeypatch.setattr("provisioning.network.services.routing.routers.MAX_ROUTES", 3)
    for number in range(3):
        create(RouteTableId=table, DestinationCidrBlock=f"10.{100 + number}.0.0/16", NetworkInterfaceId=eni)
    one_more = {"RouteTableId": table, "DestinationCidrBlock": "10.99.0.0/16"}
    assert refused(create, **one_more, NetworkInterfaceId=eni) == "RouteLimitExceeded"
    assert refused(charlie.create_route, **one_more, NetworkInterfaceId=eni) == "InvalidRouteTableID.NotFound"


def test_a_subnet_is_associated_with_the_table_of_its_router(alice: Any, people: People, vpc: str, table: str) -> None:
    subnet = alice.describe_subnets()["Subnets"][0]["SubnetId"]
    association = alice.associate_route_table(RouteTableId=table, SubnetId=subnet)["AssociationId"]
    shown = {each.get("SubnetId"): each["RouteTableAssociationId"] for each in table_of(alice, vpc)["Associations"]}
    assert shown[subnet] == association
    disassociate = alice.disassociate_route_table
    assert refused(disassociate, AssociationId=shown[None]) == "InvalidParameterValue"
    disassociate(AssociationId=association)
    assert len(table_of(alice, vpc)["Associations"]) == 1
    assert refused(disassociate, AssociationId=association) == "InvalidAssociationID.NotFound"
    other_vpc = alice.create_vpc(CidrBlock="10.50.0.0/16")["Vpc"]["VpcId"]
    other = table_of(alice, other_vpc)["RouteTableId"]
    assert refused(alice.associate_route_table, RouteTableId=other, SubnetId=subnet) == "InvalidParameterValue"


def test_a_second_router_is_a_second_table(alice: Any, people: People, vpc: str, table: str) -> None:
    """The Network API has put a router of its own on one subnet, and left another one without any."""
    network = Subnet.objects.get(cidr="10.40.1.0/24").network
    side, alone = (services.create_subnet(network, f"10.40.{number}.0/24") for number in (2, 3))
    router = services.create_router(people.alice.project_id, name="side")
    services.add_interface_by_subnet(router, side)
    second = ids.id_of("rtb", router.id)
    (shown,) = alice.describe_route_tables(RouteTableIds=[second])["RouteTables"]
    (association,) = shown["Associations"]
    assert (association["Main"], association["SubnetId"]) == (False, ids.id_of("subnet", side.id))
    associate, side_id = alice.associate_route_table, ids.id_of("subnet", side.id)
    assert refused(associate, RouteTableId=table, SubnetId=side_id) == "UnsupportedOperation"
    disassociate, made = alice.disassociate_route_table, association["RouteTableAssociationId"]
    assert refused(disassociate, AssociationId=made) == "UnsupportedOperation"
    associate(RouteTableId=table, SubnetId=ids.id_of("subnet", alone.id))
    assert alone.fixed_ips.get(address="10.40.3.1").port.device_id == Router.objects.get(name="vpc 10.40.0.0/16").id  # type: ignore[union-attr]  # fmt: skip


@pytest.mark.deep
def test_tables_of_others_are_not_there(
    alice: Any, charlie: Any, bob: Any, vpc: str, attached: str, table: str
) -> None:
    assert charlie.describe_route_tables()["RouteTables"] == []
    assert charlie.describe_internet_gateways()["InternetGateways"] == []
    assert refused(charlie.describe_route_tables, RouteTableIds=[table]) == "InvalidRouteTableID.NotFound"
    code = refused(charlie.describe_internet_gateways, InternetGatewayIds=[attached])
    assert code == "InvalidInternetGatewayID.NotFound"
    assert refused(charlie.describe_route_tables, RouteTableIds=["table"]) == "InvalidRouteTableId.Malformed"
    assert len(bob.describe_route_tables()["RouteTables"]) == 1
    assert refused(bob.create_internet_gateway) == "UnauthorizedOperation"


@pytest.mark.deep  # the baseline of queries has these lists
def test_the_number_of_queries_does_not_grow(
    alice: Any, people: People, external: Network, django_assert_max_num_queries: Any
) -> None:
    for number in range(3):
        vpc = alice.create_vpc(CidrBlock=f"10.{number}.0.0/16")["Vpc"]["VpcId"]
        alice.create_subnet(VpcId=vpc, CidrBlock=f"10.{number}.0.0/24")
        igw = alice.create_internet_gateway()["InternetGateway"]["InternetGatewayId"]
        alice.attach_internet_gateway(InternetGatewayId=igw, VpcId=vpc)
    alice.describe_route_tables()
    with django_assert_max_num_queries(24):
        assert len(alice.describe_route_tables()["RouteTables"]) == 3
    with django_assert_max_num_queries(16):
        assert len(alice.describe_internet_gateways()["InternetGateways"]) == 3
    pages = alice.get_paginator("describe_route_tables").paginate(PaginationConfig={"PageSize": 2})
    assert [len(page["RouteTables"]) for page in pages] == [2, 1]
