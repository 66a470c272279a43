"""Routers, floating IPs and port forwardings over the Networking API."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from provisioning.identity.services.assignments import assign_role
from provisioning.network import services
from provisioning.network.models import FloatingIP, Network, Router
from tests.network.test_security_groups_api import V2, made, refused
from tests.support.cast import Api, Person
from tests.support.ports import guest_ports
from tests.support.standing import derived, standing

pytestmark = pytest.mark.django_db


@pytest.fixture
@derived
def api(alice: Person) -> Api:
    return Api(alice)


@pytest.fixture
@standing
def external(operator: Person) -> Network:
    network = services.create_network(operator.project_id, "public")
    services.create_subnet(network, "203.0.113.0/24", enable_dhcp=False)
    services.update_network(network, {"external": True})
    return network


@pytest.fixture
@standing
def router(api: Api, external: Network) -> str:
    """A router of alice's that leads out."""
    return str(made(api, "router", name="r", external_gateway_info={"network_id": str(external.id)})["id"])


@pytest.fixture
@standing
def joined(api: Api, router: str, net: Network) -> str:
    answer = api.put(f"{V2}/routers/{router}/add_router_interface", {"subnet_id": str(net.subnets.get().id)})
    assert answer.status_code == 200, answer.content
    return router


@pytest.mark.slow
def test_a_router_leads_out_and_is_shown_with_its_address(api: Api, router: str, external: Network) -> None:
    shown = api.get(f"{V2}/routers/{router}").json()["router"]
    gateway = shown["external_gateway_info"]
    assert (gateway["network_id"], gateway["enable_snat"]) == (str(external.id), True)
    assert [each["ip_address"] for each in gateway["external_fixed_ips"]] == ["203.0.113.2"]
    assert (shown["ha"], shown["routes"], shown["status"]) == (False, [], "ACTIVE")
    url = f"{V2}/routers/{router}"
    assert api.put(url, {"router": {"external_gateway_info": {}}}).json()["router"]["external_gateway_info"] is None
    assert api.delete(url).status_code == 204
    refused(api.get(url), 404, "RouterNotFound")


@pytest.mark.slow
def test_only_operators_say_which_address_and_whether_guests_are_hidden(
    api: Api, operator: Person, router: str, external: Network
) -> None:
    for values in ({"enable_snat": False}, {"external_fixed_ips": [{"ip_address": "203.0.113.99"}]}):
        body = {"router": {"external_gateway_info": {"network_id": str(external.id), **values}}}
        assert api.put(f"{V2}/routers/{router}", body).status_code == 403
        assert Api(operator).put(f"{V2}/routers/{router}", body).status_code == 200
    shown = api.get(f"{V2}/routers/{router}").json()["router"]["external_gateway_info"]
    assert [each["ip_address"] for each in shown["external_fixed_ips"]] == ["203.0.113.99"]


@pytest.mark.slow
def test_nobody_takes_the_gateway_of_anothers_network(
    api: Api, charlie: Person, operator: Person, router: str, external: Network
) -> None:
    shared = services.create_network(charlie.project_id, "shared", shared=True)
    inner = services.create_subnet(shared, "10.44.0.0/24")
    url = f"{V2}/routers/{router}/add_router_interface"
    outside = {"subnet_id": str(external.subnets.get().id)}
    refused(api.put(url, outside), 404, "SubnetNotFound")
    refused(Api(operator).put(url, outside), 400, "BadRequest")
    refused(api.put(url, {"subnet_id": str(inner.id)}), 400, "BadRequest")
    own = made(api, "port", network_id=str(shared.id))
    assert api.put(url, {"port_id": own["id"]}).status_code == 200, "an address of one's own there is no gateway"
    assert api.put(f"{V2}/routers/{router}/remove_router_interface", {"port_id": own["id"]}).status_code == 200
    assert Api(operator).put(url, {"subnet_id": str(inner.id)}).status_code == 200


@pytest.mark.slow
def test_interfaces_come_and_go_by_subnet_and_by_port(api: Api, router: str, net: Network, alice: Person) -> None:
    subnet, url = str(net.subnets.get().id), f"{V2}/routers/{router}"
    added = api.put(f"{url}/add_router_interface", {"subnet_id": subnet}).json()
    assert (added["id"], added["subnet_id"], added["network_id"]) == (router, subnet, str(net.id))
    assert api.get(f"{V2}/ports/{added['port_id']}").json()["port"]["device_owner"] == "network:router_interface"
    refused(api.put(f"{url}/add_router_interface", {"subnet_id": subnet}), 400, "BadRequest")
    refused(api.delete(url), 409, "RouterInUse")
    gone = api.put(f"{url}/remove_router_interface", {"port_id": added["port_id"]}).json()
    assert gone["port_id"] == added["port_id"]
    refused(api.put(f"{url}/remove_router_interface", {"subnet_id": subnet}), 404, "RouterInterfaceNotFoundForSubnet")
    port = services.create_port(alice.project_id, net)
    by_port = api.put(f"{url}/add_router_interface", {"port_id": str(port.id)})
    assert by_port.json()["port_id"] == str(port.id)
    for wrong in ({}, {"subnet_id": subnet, "port_id": str(port.id)}, {"subnet": subnet}):
        refused(api.put(f"{url}/add_router_interface", wrong), 400, "HTTPBadRequest")


@pytest.mark.slow
def test_routes_are_set_added_and_taken_away(api: Api, joined: str) -> None:
    url = f"{V2}/routers/{joined}"
    way = {"destination": "10.9.0.0/16", "nexthop": "10.20.0.9"}
    assert api.put(url, {"router": {"routes": [way]}}).json()["router"]["routes"] == [way]
    more = {"destination": "10.8.0.0/16", "nexthop": "10.20.0.9"}
    added = api.put(f"{url}/add_extraroutes", {"router": {"routes": [more]}}).json()["router"]
    assert added["routes"] == [way, more]
    left = api.put(f"{url}/remove_extraroutes", {"router": {"routes": [way]}}).json()["router"]
    assert left["routes"] == [more]
    wrong = {"destination": "10.8.0.0/16", "nexthop": "192.0.2.1"}
    refused(api.put(url, {"router": {"routes": [wrong]}}), 400, "InvalidRoutes")
    for body in (None, {}, {"router": {}}, {"router": {"routes": None}}):
        for action in ("add_extraroutes", "remove_extraroutes"):
            refused(api.put(f"{url}/{action}", body), 400, "HTTPBadRequest")


def test_another_project_s_routers_networks_and_ports_cannot_be_used(
    api: Api, charlie: Person, router: str, net: Network, alice: Person
) -> None:
    theirs = Api(charlie)
    url = f"{V2}/routers/{router}"
    body = {"subnet_id": str(net.subnets.get().id)}
    for answer in (theirs.get(url), theirs.delete(url), theirs.put(f"{url}/add_router_interface", body)):
        refused(answer, 404, "RouterNotFound")
    own = made(theirs, "router", name="own")["id"]
    refused(theirs.put(f"{V2}/routers/{own}/add_router_interface", body), 404, "SubnetNotFound")
    port = {"port_id": str(services.create_port(alice.project_id, net).id)}
    refused(theirs.put(f"{V2}/routers/{own}/add_router_interface", port), 404, "PortNotFound")
    gateway = {"router": {"external_gateway_info": {"network_id": str(net.id)}}}
    refused(theirs.put(f"{V2}/routers/{own}", gateway), 404, "NetworkNotFound")
    assert Router.objects.get(id=router).project_id == alice.project_id


@pytest.mark.slow
@pytest.mark.usefixtures("joined")
def test_a_floating_ip_is_taken_led_moved_and_given_back(
    api: Api, external: Network, net: Network, alice: Person
) -> None:
    floating = made(api, "floatingip", floating_network_id=str(external.id))
    assert (floating["status"], floating["port_id"], floating["floating_ip_address"]) == ("DOWN", None, "203.0.113.3")
    first, second = (str(services.create_port(alice.project_id, net).id) for _ in range(2))
    url = f"{V2}/floatingips/{floating['id']}"
    for port in (first, second):
        shown = api.put(url, {"floatingip": {"port_id": port}}).json()["floatingip"]
        assert (shown["port_id"], shown["port_details"]["network_id"]) == (port, str(net.id))
    (listed,) = api.get(f"{V2}/floatingips?port_id={second}&status=DOWN").json()["floatingips"]
    assert listed["fixed_ip_address"] == guest_ports().get(id=second).fixed_ips.get().address
    assert api.put(url, {"floatingip": {"port_id": None}}).json()["floatingip"]["port_id"] is None
    assert api.delete(url).status_code == 204
    refused(api.get(url), 404, "FloatingIPNotFound")


@pytest.mark.slow
def test_floating_ips_that_cannot_be(
    api: Api, operator: Person, external: Network, net: Network, alice: Person
) -> None:
    url = f"{V2}/floatingips"
    ids = {"floating_network_id": str(external.id)}
    port = str(services.create_port(alice.project_id, net).id)
    refused(api.post(url, {"floatingip": {}}), 400, "HTTPBadRequest")
    refused(api.post(url, {"floatingip": {"floating_network_id": str(net.id)}}), 400, "BadRequest")
    refused(api.post(url, {"floatingip": {"floating_network_id": str(uuid.uuid4())}}), 400, "BadRequest")
    refused(api.post(url, {"floatingip": {**ids, "port_id": port}}), 404, "ExternalGatewayForFloatingIPNotFound")
    refused(api.post(url, {"floatingip": {**ids, "port_id": str(uuid.uuid4())}}), 404, "PortNotFound")
    chosen = {"floatingip": {**ids, "floating_ip_address": "203.0.113.77"}}
    assert api.post(url, chosen).status_code == 403
    assert Api(operator).post(url, chosen).status_code == 201
    refused(Api(operator).post(url, chosen), 409, "IpAddressInUse")
    assert FloatingIP.objects.count() == 1
    assign_role(alice.user, alice.project, "manager")
    chosen["floatingip"]["floating_ip_address"] = "203.0.113.78"
    assert Api(alice).post(url, chosen).status_code == 201


@pytest.mark.slow
def test_a_router_leaves_a_subnet_to_whose_addresses_no_floating_ip_leads(
    api: Api, joined: str, external: Network, net: Network, alice: Person
) -> None:
    six = services.create_subnet(net, "fd00:1::/64", ip_version=6)
    url = f"{V2}/routers/{joined}"
    ids = {"floating_network_id": str(external.id)}
    led, forwarded = (services.create_port(alice.project_id, net) for _ in range(2))
    assert led.fixed_ips.count() == 2
    floating = made(api, "floatingip", **ids, port_id=str(led.id))["id"]

    def check() -> None:
        for change in ("add_router_interface", "remove_router_interface"):
            assert api.put(f"{url}/{change}", {"subnet_id": str(six.id)}).status_code == 200
        body = {"subnet_id": str(net.subnets.get(ip_version=4).id)}
        refused(api.put(f"{url}/remove_router_interface", body), 409, "RouterInterfaceInUseByFloatingIP")

    check()
    api.put(f"{V2}/floatingips/{floating}", {"floatingip": {"port_id": None}})
    address = forwarded.fixed_ips.get(subnet__ip_version=4).address
    ports = {"protocol": "tcp", "external_port": 80, "internal_port": 80}
    inside = {"internal_port_id": str(forwarded.id), "internal_ip_address": address}
    answer = api.post(f"{V2}/floatingips/{floating}/port_forwardings", {"port_forwarding": ports | inside})
    assert answer.status_code == 201
    check()


@pytest.mark.usefixtures("joined")
def test_a_refused_floating_ip_is_not_named(api: Api, external: Network, net: Network, alice: Person) -> None:
    port = services.create_port(alice.project_id, net)
    ids = {"floating_network_id": str(external.id), "port_id": str(port.id)}
    made(api, "floatingip", **ids)
    answer = api.post(f"{V2}/floatingips", {"floatingip": ids})
    refused(answer, 409, "FloatingIPPortAlreadyAssociated")
    assert "203.0.113." not in answer.json()["NeutronError"]["message"]


@pytest.mark.slow
@pytest.mark.usefixtures("joined")
def test_ports_are_forwarded(api: Api, external: Network, net: Network, alice: Person) -> None:
    floating = made(api, "floatingip", floating_network_id=str(external.id))["id"]
    port = services.create_port(alice.project_id, net)
    url = f"{V2}/floatingips/{floating}/port_forwardings"
    body: dict[str, Any] = {
        "protocol": "tcp",
        "external_port": 2222,
        "internal_port": 22,
        "internal_port_id": str(port.id),
    }
    row = api.post(url, {"port_forwarding": body}).json()["port_forwarding"]
    assert (row["external_port"], row["internal_ip_address"]) == (2222, port.fixed_ips.get().address)
    refused(api.post(url, {"port_forwarding": body}), 400, "BadRequest")
    changed = api.put(f"{url}/{row['id']}", {"port_forwarding": {"external_port": 8022}}).json()["port_forwarding"]
    assert changed["external_port"] == 8022
    ranges = {**body, "external_port_range": "9000:9010", "internal_port_range": "80:90"}
    del ranges["external_port"], ranges["internal_port"]
    assert api.post(url, {"port_forwarding": ranges}).json()["port_forwarding"]["external_port"] is None
    assert len(api.get(url).json()["port_forwardings"]) == 2
    shown = api.get(f"{V2}/floatingips/{floating}").json()["floatingip"]["port_forwardings"]
    assert [each["external_port"] for each in shown] == [8022, None]
    for wrong in ({}, {**body, "protocol": "gre"}, {**body, "external_port": 0}, {**body, "internal_port_range": "x"}):
        refused(api.post(url, {"port_forwarding": wrong}), 400, "HTTPBadRequest")
    assert api.delete(f"{url}/{row['id']}").status_code == 204
    refused(api.get(f"{url}/{row['id']}"), 404, "PortForwardingNotFound")


@pytest.mark.slow
def test_lists_cost_the_same_however_long_they_are(
    api: Api, external: Network, router: str, django_assert_max_num_queries: Any
) -> None:
    for _ in range(8):
        made(api, "floatingip", floating_network_id=str(external.id))
        made(api, "router", name="more")
    for kind, many in (("floatingips", 8), ("routers", 9)):
        with django_assert_max_num_queries(12):
            assert len(api.get(f"{V2}/{kind}").json()[kind]) == many
