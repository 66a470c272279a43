"""Routers: interfaces, ways out, routes, and what is refused."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from provisioning.common.errors import NovellaError
from provisioning.ec2_services.internet_gateways import stand_for_routers
from provisioning.network import services
from provisioning.network.errors import (
    BadRequestError,
    InvalidRoutesError,
    IpAddressInUseError,
    PortInUseError,
    RevisionNumberConstraintFailedError,
    RouterExternalGatewayInUseByFloatingIpError,
    RouterInterfaceInUseByFloatingIPError,
    RouterInterfaceInUseByRouteError,
    RouterInterfaceNotFoundError,
    RouterInterfaceNotFoundForSubnetError,
    RouterInUseError,
    RoutesExhaustedError,
)
from provisioning.network.models import InternetGateway, Network, Port, Router, Subnet
from provisioning.network.records.owners import ROUTER_GATEWAY, ROUTER_INTERFACE
from provisioning.network.services import Gateway
from provisioning.quotas.selectors import usage_of
from tests.support.cast import Person
from tests.support.ports import guest_ports
from tests.support.standing import standing

pytestmark = pytest.mark.django_db
MakeSubnet = Callable[[str], Subnet]


@pytest.fixture
@standing
def router(alice: Person) -> Router:
    return services.create_router(alice.project_id, name="r")


@pytest.fixture
@standing
def external(operator: Person) -> Network:
    network = services.create_network(operator.project_id, "public")
    services.create_subnet(network, "203.0.113.0/24", enable_dhcp=False)
    services.update_network(network, {"external": True})
    network.refresh_from_db()
    return network


@pytest.fixture
def subnet(net: Network) -> Subnet:
    return net.subnets.get()


@pytest.fixture
def make_subnet(alice: Person) -> MakeSubnet:
    def make(cidr: str, **options: object) -> Subnet:
        return services.create_subnet(services.create_network(alice.project_id, cidr), cidr, **options)  # type: ignore[arg-type]

    return make


def addresses(router: Router, owner: str = ROUTER_INTERFACE) -> list[str]:
    ports = Port.objects.filter(device_id=router.id, device_owner=owner)
    return sorted(ports.values_list("fixed_ips__address", flat=True))


def test_an_interface_has_the_gateway_s_address_and_goes_with_its_port(router: Router, subnet: Subnet) -> None:
    added = services.add_interface_by_subnet(router, subnet)
    assert addresses(router) == ["10.20.0.1"]
    assert (added.port.device_owner, added.port.network_id) == (ROUTER_INTERFACE, subnet.network_id)
    with pytest.raises(BadRequestError, match="already has a port"):
        services.add_interface_by_subnet(router, subnet)
    assert services.remove_interface_by_subnet(router, subnet).port.mac_address == added.port.mac_address
    assert not guest_ports().exists()
    with pytest.raises(RouterInterfaceNotFoundForSubnetError):
        services.remove_interface_by_subnet(router, subnet)
    with pytest.raises(RouterInterfaceNotFoundError):
        services.remove_interface_by_port(router, str(added.port.id))


def test_a_port_of_the_project_becomes_the_router_s_and_leaves_the_quota(
    alice: Person, router: Router, net: Network
) -> None:
    port = services.create_port(alice.project_id, net)
    assert usage_of(alice.project_id)["ports"] == 1
    services.add_interface_by_port(router, port)
    assert addresses(router) == ["10.20.0.2"]
    assert usage_of(alice.project_id)["ports"] == 0
    other = services.create_router(alice.project_id)
    with pytest.raises(PortInUseError, match=str(router.id)):
        services.add_interface_by_port(other, guest_ports().get())
    services.remove_interface_by_port(router, str(port.id))
    assert not guest_ports().exists()


def test_the_gateway_of_another_project_s_network_is_not_taken_by_a_port(operator: Person, router: Router) -> None:
    """Not even by one that was given the address; operators may."""
    shared = services.create_network(operator.project_id, "shared")
    subnet = services.create_subnet(shared, "10.30.0.0/24")
    services.update_network(shared, {"shared": True})
    given = [{"subnet_id": subnet.id, "ip_address": "10.30.0.1"}]
    port = services.create_port(router.project_id, shared, fixed_ips=given)
    with pytest.raises(BadRequestError, match="another project's network"):
        services.add_interface_by_port(router, port)
    port.refresh_from_db()
    services.add_interface_by_port(router, port, anywhere=True)
    assert addresses(router) == ["10.30.0.1"]


def test_ranges_that_overlap_are_refused_on_one_router_only(
    alice: Person, router: Router, subnet: Subnet, make_subnet: MakeSubnet
) -> None:
    services.add_interface_by_subnet(router, subnet)
    inner = Subnet.objects.create(
        network=services.create_network(alice.project_id, "inner"), project_id=alice.project_id,
        cidr="10.20.0.0/25", gateway_ip="10.20.0.1",
    )  # fmt: skip
    with pytest.raises(BadRequestError, match="overlaps"):
        services.add_interface_by_subnet(router, inner)
    services.add_interface_by_subnet(services.create_router(alice.project_id), inner)
    services.add_interface_by_subnet(router, make_subnet("10.30.0.0/24"))
    assert addresses(router) == ["10.20.0.1", "10.30.0.1"]


def test_a_subnet_without_a_gateway_or_with_a_taken_one_is_refused(
    alice: Person, router: Router, subnet: Subnet, make_subnet: MakeSubnet
) -> None:
    closed = make_subnet("10.40.0.0/24", gateway_ip=None)  # type: ignore[call-arg]
    with pytest.raises(BadRequestError, match="must have a gateway IP"):
        services.add_interface_by_subnet(router, closed)
    services.add_interface_by_subnet(router, subnet)
    with pytest.raises(IpAddressInUseError, match="is in use"):
        services.add_interface_by_subnet(services.create_router(alice.project_id), subnet)


def test_a_way_out_takes_an_address_and_gives_it_back(alice: Person, router: Router, external: Network) -> None:
    services.update_router(router, {"gateway": Gateway(external)})
    router.refresh_from_db()
    assert addresses(router, ROUTER_GATEWAY) == ["203.0.113.2"]
    services.update_router(router, {"gateway": Gateway(external, enable_snat=False)})
    router.refresh_from_db()
    assert (router.enable_snat, addresses(router, ROUTER_GATEWAY)) == (False, ["203.0.113.2"])
    services.update_router(router, {"gateway": Gateway(external, fixed_ips=({"ip_address": "203.0.113.77"},))})
    assert addresses(router, ROUTER_GATEWAY) == ["203.0.113.77"]
    services.update_router(router, {"gateway": None})
    router.refresh_from_db()
    assert (router.gateway_port, guest_ports().count()) == (None, 0)


def test_ways_out_that_are_none_are_refused(router: Router, net: Network, external: Network) -> None:
    with pytest.raises(BadRequestError, match="is not an external network"):
        services.update_router(router, {"gateway": Gateway(net)})
    for requested in ({"ip_address": "198.51.100.1"}, {"subnet_id": str(net.subnets.get().id)}):
        with pytest.raises(BadRequestError, match="is not of external network"):
            services.update_router(router, {"gateway": Gateway(external, fixed_ips=(requested,))})
    assert not guest_ports().exists()


def test_routes_lead_through_the_router_s_networks(router: Router, subnet: Subnet) -> None:
    services.add_interface_by_subnet(router, subnet)
    way = {"destination": "10.9.0.0/16", "nexthop": "10.20.0.9"}
    services.add_routes(router, [way])
    router.refresh_from_db()
    assert router.routes == [way]
    with pytest.raises(RouterInterfaceInUseByRouteError):
        services.remove_interface_by_subnet(router, subnet)
    for wrong in (
        {"destination": "10.9.0.0/16", "nexthop": "192.0.2.1"},
        {"destination": "10.9.0.0/16", "nexthop": "10.20.0.1"},
        {"destination": "2001:db8::/32", "nexthop": "10.20.0.9"},
        {"destination": "nowhere", "nexthop": "10.20.0.9"},
        {"nexthop": "10.20.0.9"},
    ):
        with pytest.raises(InvalidRoutesError):
            services.update_router(router, {"routes": [wrong]})
    with pytest.raises(InvalidRoutesError, match="duplicate"):
        services.update_router(router, {"routes": [way, way]})
    many = [{"destination": f"10.9.{number}.0/24", "nexthop": "10.20.0.9"} for number in range(31)]
    with pytest.raises(RoutesExhaustedError):
        services.update_router(router, {"routes": many})
    services.remove_routes(router, [way, {"destination": "10.1.0.0/16", "nexthop": "10.20.0.9"}])
    router.refresh_from_db()
    assert router.routes == []


def test_a_router_with_interfaces_stays(alice: Person, router: Router, subnet: Subnet, external: Network) -> None:
    services.update_router(router, {"gateway": Gateway(external)})
    services.add_interface_by_subnet(router, subnet)
    with pytest.raises(RouterInUseError):
        services.delete_router(router)
    services.remove_interface_by_subnet(router, subnet)
    with pytest.raises(RevisionNumberConstraintFailedError):
        services.delete_router(router, revision=0)
    assert usage_of(alice.project_id)["routers"] == 1
    services.delete_router(router)
    assert (usage_of(alice.project_id)["routers"], guest_ports().count()) == (0, 0)


def test_nothing_that_floating_ips_need_is_taken_away(
    alice: Person, router: Router, subnet: Subnet, external: Network
) -> None:
    services.update_router(router, {"gateway": Gateway(external)})
    services.add_interface_by_subnet(router, subnet)
    port = services.create_port(alice.project_id, subnet.network)
    services.create_floating_ip(alice.project_id, external, port=port)
    refused: list[tuple[type[NovellaError], Callable[[], object]]] = [
        (RouterInterfaceInUseByFloatingIPError, lambda: services.remove_interface_by_subnet(router, subnet)),
        (RouterExternalGatewayInUseByFloatingIpError, lambda: services.update_router(router, {"gateway": None})),
    ]
    for error, change in refused:
        with pytest.raises(error):
            change()


@pytest.mark.both_databases("constraints")
def test_one_internet_gateway_stands_for_a_router_however_many_look(router: Router) -> None:
    for _ in range(2):
        stand_for_routers(router.project_id, [router.id])
    assert InternetGateway.objects.filter(router=router).count() == 1
