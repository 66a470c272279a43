"""Floating IPs and port forwardings: taken, led, moved, given back, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from provisioning.network import services
from provisioning.network.errors import (
    BadRequestError,
    ExternalGatewayForFloatingIPNotFoundError,
    FipInUseByPortForwardingError,
    FloatingIPPortAlreadyAssociatedError,
    IpAddressInUseError,
    OutOfAddressesError,
    PortHasBindingFloatingIPError,
    PortHasPortForwardingError,
)
from provisioning.network.models import FixedIP, FloatingIP, Network, Port, PortForwarding, Router
from provisioning.network.services import Gateway
from provisioning.network.services.floating_ips.floating_ips import leave_ports
from provisioning.network.services.floating_ips.port_forwardings import ForwardingRequest
from provisioning.quotas.selectors import usage_of
from tests.support.cast import Person
from tests.support.ports import guest_addresses, guest_ports
from tests.support.standing import standing

pytestmark = pytest.mark.django_db


@pytest.fixture
@standing
def external(operator: Person) -> Network:
    network = services.create_network(operator.project_id, "public")
    services.create_subnet(network, "203.0.113.0/29", enable_dhcp=False)
    services.update_network(network, {"external": True})
    network.refresh_from_db()
    return network


@pytest.fixture
@standing
def router(alice: Person, external: Network, net: Network) -> Router:
    router = services.create_router(alice.project_id, gateway=Gateway(external))
    services.add_interface_by_subnet(router, net.subnets.get())
    return router


@pytest.fixture
@standing
def port(alice: Person, net: Network) -> Port:
    return services.create_port(alice.project_id, net)


def fixed_of(port: Port) -> str:
    return port.fixed_ips.get().address


def test_one_is_taken_led_moved_and_given_back(
    alice: Person, router: Router, external: Network, net: Network, port: Port
) -> None:
    floating = services.create_floating_ip(alice.project_id, external)
    assert (floating.address, floating.status, floating.router) == ("203.0.113.3", "DOWN", None)
    services.associate(floating, port)
    floating.refresh_from_db()
    assert (floating.fixed_port, floating.fixed_address, floating.router) == (port, fixed_of(port), router)
    other = services.create_port(alice.project_id, net)
    services.associate(floating, other)
    floating.refresh_from_db()
    assert floating.fixed_port == other
    services.disassociate(floating)
    floating.refresh_from_db()
    assert (floating.fixed_port, floating.router) == (None, None)
    services.delete_floating_ip(floating)
    assert usage_of(alice.project_id)["floatingips"] == 0
    assert not guest_addresses().filter(address="203.0.113.3").exists()


def test_a_requested_address_is_given_once_and_only_from_the_range(alice: Person, external: Network) -> None:
    floating = services.create_floating_ip(alice.project_id, external, address="203.0.113.5")
    assert floating.address == "203.0.113.5"
    with pytest.raises(IpAddressInUseError):
        services.create_floating_ip(alice.project_id, external, address="203.0.113.5")
    for wrong in ("203.0.113.1", "203.0.113.0", "203.0.113.7", "198.51.100.1"):
        with pytest.raises(BadRequestError):
            services.create_floating_ip(alice.project_id, external, address=wrong)


def test_the_pool_ends_and_nothing_is_left_of_who_came_too_late(alice: Person, external: Network) -> None:
    while True:
        try:
            services.create_floating_ip(alice.project_id, external)
        except OutOfAddressesError:
            break
    assert FloatingIP.objects.count() == guest_ports().count() == usage_of(alice.project_id)["floatingips"] == 5


@pytest.mark.both_databases("locks")
def test_what_it_cannot_lead_to(alice: Person, external: Network, net: Network, port: Port) -> None:
    with pytest.raises(BadRequestError, match="not a valid external network"):
        services.create_floating_ip(alice.project_id, net)
    with pytest.raises(ExternalGatewayForFloatingIPNotFoundError):
        services.create_floating_ip(alice.project_id, external, port=port)
    assert not FloatingIP.objects.exists()
    floating = services.create_floating_ip(alice.project_id, external)
    with pytest.raises(BadRequestError, match="does not have fixed ip"):
        services.associate(floating, port, "10.20.0.99")
    port.fixed_ips.all().delete()
    with pytest.raises(BadRequestError, match="no fixed IPv4"):
        services.associate(floating, port)


@pytest.mark.usefixtures("router")
def test_an_address_has_one_and_one_of_several_must_be_named(
    alice: Person, external: Network, net: Network, port: Port
) -> None:
    services.create_floating_ip(alice.project_id, external, port=port)
    with pytest.raises(FloatingIPPortAlreadyAssociatedError):
        services.create_floating_ip(alice.project_id, external, port=port)
    subnet = net.subnets.get()
    FixedIP.objects.create(port=port, subnet=subnet, address="10.20.0.77", number=int.from_bytes(b"\x0a\x14\x00\x4d"))
    floating = services.create_floating_ip(alice.project_id, external)
    with pytest.raises(BadRequestError, match="multiple fixed IPv4"):
        services.associate(floating, port)
    services.associate(floating, port, "10.20.0.77")
    assert FloatingIP.objects.filter(fixed_port=port).count() == 2


@pytest.mark.usefixtures("router")
def test_a_port_that_goes_leaves_the_floating_ip_to_its_project(alice: Person, external: Network, port: Port) -> None:
    floating = services.create_floating_ip(alice.project_id, external, port=port)
    leave_ports([port.id])
    port.delete()
    floating.refresh_from_db()
    assert (floating.fixed_port, floating.status) == (None, "DOWN")


def test_the_router_at_the_subnet_s_gateway_is_the_way_back(
    alice: Person, operator: Person, external: Network, net: Network, port: Port
) -> None:
    """Guests answer through their gateway, whoever's it is and whenever it was made."""
    elsewhere = services.create_router(alice.project_id, gateway=Gateway(external))
    services.add_interface_by_port(elsewhere, services.create_port(alice.project_id, net))
    at_gateway = services.create_router(operator.project_id, gateway=Gateway(external))
    services.add_interface_by_subnet(at_gateway, net.subnets.get(), anywhere=True)
    floating = services.create_floating_ip(alice.project_id, external, port=port)
    assert floating.router == at_gateway


@pytest.mark.usefixtures("router")
@pytest.mark.both_databases("locks")
def test_a_port_that_goes_leaves_its_forwardings_floating_ip_without_a_router(
    alice: Person, router: Router, external: Network, net: Network, port: Port
) -> None:
    """Else nothing would be forwarded, and the router could not go any more."""
    floating = services.create_floating_ip(alice.project_id, external)
    other = services.create_port(alice.project_id, net)
    services.create_port_forwarding(floating, forwarding_request(port))
    services.create_port_forwarding(floating, forwarding_request(other, external=(2223, 2223)))
    services.delete_port(port)
    floating.refresh_from_db()
    assert (floating.router, floating.port_forwardings.count()) == (router, 1)
    services.update_port(other, {}, fixed_ips=[])
    floating.refresh_from_db()
    assert (floating.router, floating.port_forwardings.count()) == (None, 0)
    services.remove_interface_by_subnet(router, net.subnets.get())
    services.delete_router(router)


def forwarding_request(port: Port, **changes: object) -> ForwardingRequest:
    base = ForwardingRequest("tcp", (2222, 2222), port, fixed_of(port), (22, 22))
    return replace(base, **changes)  # type: ignore[arg-type]


def test_ports_are_forwarded_until_the_last_one_goes(
    alice: Person, router: Router, external: Network, port: Port
) -> None:
    floating = services.create_floating_ip(alice.project_id, external)
    row = services.create_port_forwarding(floating, forwarding_request(port))
    floating.refresh_from_db()
    assert floating.router == router
    with pytest.raises(FipInUseByPortForwardingError):
        services.associate(floating, port)
    with pytest.raises(FipInUseByPortForwardingError):
        services.delete_floating_ip(floating)
    with pytest.raises(PortHasPortForwardingError):
        services.associate(services.create_floating_ip(alice.project_id, external), port)
    with pytest.raises(BadRequestError, match="collision with the internal_port_range"):
        services.create_port_forwarding(floating, forwarding_request(port, external=(9000, 9000)))
    with pytest.raises(BadRequestError, match="collision with the external_port_range"):
        services.create_port_forwarding(floating, forwarding_request(port, external=(2220, 2230), internal=(22, 32)))
    services.create_port_forwarding(floating, forwarding_request(port, protocol="udp"))
    services.update_port_forwarding(row, {"external": (8022, 8022)})
    row.refresh_from_db()
    assert (row.external_port_first, row.internal_port_first) == (8022, 22)
    for each in list(PortForwarding.objects.all()):
        services.delete_port_forwarding(each)
    floating.refresh_from_db()
    assert floating.router is None


@pytest.mark.usefixtures("router")
def test_forwardings_that_cannot_be(alice: Person, external: Network, port: Port) -> None:
    floating = services.create_floating_ip(alice.project_id, external)
    for wrong in (
        forwarding_request(port, protocol="gre"),
        forwarding_request(port, external=(0, 0)),
        forwarding_request(port, internal=(1, 70000)),
        forwarding_request(port, internal=(22, 23)),
        forwarding_request(port, internal_address="10.20.0.99"),
    ):
        with pytest.raises(BadRequestError):
            services.create_port_forwarding(floating, wrong)
    services.associate(floating, port)
    with pytest.raises(PortHasBindingFloatingIPError):
        services.create_port_forwarding(floating, forwarding_request(port))
    assert not PortForwarding.objects.exists()
