"""Values come back as clients send them; what Neutron accepts, shows and refuses is the same here."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from provisioning.network import services
from provisioning.network.models import FloatingIP, Network, Port, Router
from provisioning.network.services.floating_ips.port_forwardings import ForwardingRequest
from tests.network.test_security_groups_api import V2, made, refused
from tests.support.cast import Api, People, Person
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db


@pytest.fixture
def api(alice: Person) -> Api:
    return Api(alice)


def outside(operator: Person, **values: Any) -> Network:
    return services.create_network(operator.project_id, "public", external=True, **values)


@pytest.mark.slow
@each_row(
    ("kind", "given", "shown"),
    [
        ("subnet", {"cidr": "10.67.5.0/16"}, {"cidr": "10.67.0.0/16", "gateway_ip": "10.67.0.1"}),
        ("subnet", {"cidr": "10.67.0.0/24", "gateway_ip": "192.0.2.1"}, {"gateway_ip": "192.0.2.1"}),
        ("subnet", {"cidr": "10.67.0.0/24", "service_types": ["compute:nova"]}, {"service_types": ["compute:nova"]}),
        ("subnet", {"cidr": "fd00:1::/64", "ip_version": 6, "gateway_ip": "fd00:2::1"}, {"gateway_ip": "fd00:2::1"}),
        ("port", {"mac_address": "01:00:5E:00:00:01"}, {"mac_address": "01:00:5e:00:00:01"}),
        ("port", {"mac_address": "0200.5e00.0001"}, {"mac_address": "02:00:5e:00:00:01"}),
        (
            "port",
            {"extra_dhcp_opts": [{"opt_name": "my own", "opt_value": "x"}]},
            {"extra_dhcp_opts": [{"ip_version": 4, "opt_name": "my own", "opt_value": "x"}]},
        ),
        ("subnetpool", {"prefixes": ["10.67.5.0/16"]}, {"prefixes": ["10.67.0.0/16"], "min_prefixlen": "8"}),
        ("router", {"name": " r "}, {"name": " r "}),
        ("security_group", {"name": " g "}, {"name": " g "}),
    ],
)
def test_values_are_taken_and_come_back(
    api: Api, net: Network, kind: str, given: dict[str, Any], shown: dict[str, Any]
) -> None:
    base: dict[str, dict[str, Any]] = {
        "subnet": {"network_id": str(net.id), "ip_version": 4},
        "port": {"network_id": str(net.id)},
        "subnetpool": {"name": "p"},
    }
    result = made(api, kind, **base.get(kind, {}) | given)
    assert {name: result[name] for name in shown} == shown
    again = api.get(f"{V2}/{kind.replace('_', '-')}s/{result['id']}").json()[kind]
    assert {name: again[name] for name in shown} == shown


def test_a_port_has_several_addresses_of_one_subnet(api: Api, net: Network) -> None:
    subnet = {"subnet_id": str(net.subnets.get().id)}
    port = made(api, "port", network_id=str(net.id), fixed_ips=[subnet, {**subnet, "unknown": 1}])
    assert len({each["ip_address"] for each in port["fixed_ips"]}) == 2
    assert [each["hostname"] for each in port["dns_assignment"]] == [
        "host-" + each["ip_address"].replace(".", "-") for each in port["fixed_ips"]
    ]
    twice = [{"ip_address": "10.20.0.9"}, {"ip_address": "10.20.0.9"}]
    body = {"port": {"network_id": str(net.id), "fixed_ips": twice}}
    assert "Duplicate IP address" in refused(api.post(f"{V2}/ports", body), 400, "HTTPBadRequest")


@each_row(
    ("rule", "status", "kind"),
    [
        ({"remote_group_id": "bad_group_id"}, 404, "SecurityGroupNotFound"),
        ({"remote_address_group_id": "bad"}, 404, "AddressGroupNotFound"),
        ({"security_group_id": "bad"}, 404, "SecurityGroupNotFound"),
        ({"protocol": "tcp", "port_range_min": -16, "port_range_max": 80}, 400, "SecurityGroupInvalidPortValue"),
        ({"protocol": "43"}, 400, "SecurityGroupEthertypeConflictWithProtocol"),
    ],
)
def test_rules_that_cannot_be_have_neutrons_errors(api: Api, rule: dict[str, Any], status: int, kind: str) -> None:
    group = made(api, "security_group", name="g")["id"]
    body = {"security_group_rule": {"security_group_id": group, "direction": "ingress"} | rule}
    message = refused(api.post(f"{V2}/security-group-rules", body), status, kind)
    if kind == "SecurityGroupInvalidPortValue":
        assert message.startswith("Invalid value for port")


def test_groups_are_created_in_bulk_wrapped_or_not(api: Api) -> None:
    bodies = [{"security_group": {"name": "a"}}, {"name": "b"}]
    answer = api.post(f"{V2}/security-groups", {"security_groups": bodies})
    assert [each["name"] for each in answer.json()["security_groups"]] == ["a", "b"]


def test_a_port_is_in_stateful_or_in_stateless_groups(api: Api, net: Network) -> None:
    groups = [made(api, "security_group", name=str(each), stateful=each)["id"] for each in (True, False)]
    body = {"port": {"network_id": str(net.id), "security_groups": groups}}
    refused(api.post(f"{V2}/ports", body), 409, "SecurityGroupConflict")
    port = made(api, "port", network_id=str(net.id), security_groups=groups[:1])
    changed = api.put(f"{V2}/ports/{port['id']}", {"port": {"security_groups": groups}})
    refused(changed, 409, "SecurityGroupConflict")
    assert api.put(f"{V2}/ports/{port['id']}", {"port": {"security_groups": groups[1:]}}).status_code == 200


def test_an_operator_deletes_a_default_group_and_a_member_does_not(api: Api, people: People) -> None:
    def default() -> str:
        [group] = api.get(f"{V2}/security-groups?name=default").json()["security_groups"]
        return str(group["id"])

    first = default()
    refused(api.delete(f"{V2}/security-groups/{first}"), 409, "SecurityGroupCannotRemoveDefault")
    assert Api(people.operator).delete(f"{V2}/security-groups/{first}").status_code == 204
    assert default() != first


def test_subnets_of_an_external_network_are_its_owners(api: Api, people: People) -> None:
    network = outside(people.operator)
    subnet = services.create_subnet(network, "203.0.113.0/24")

    def seen(caller: Api) -> list[str]:
        return [each["id"] for each in caller.get(f"{V2}/subnets?network_id={network.id}").json()["subnets"]]

    assert (seen(api), seen(Api(people.operator))) == ([], [str(subnet.id)])
    assert api.get(f"{V2}/subnets/{subnet.id}").status_code == 404
    assert api.get(f"{V2}/networks/{network.id}").json()["network"]["subnets"] == [str(subnet.id)]
    services.update_network(network, {"shared": True})
    assert seen(api) == [str(subnet.id)]


def test_an_external_network_goes_with_floating_ips_that_lead_nowhere(api: Api, people: People, net: Network) -> None:
    network = outside(people.operator)
    services.create_subnet(network, "203.0.113.0/24")
    made(api, "floatingip", floating_network_id=str(network.id))
    router = services.create_router(people.alice.project_id, gateway=services.Gateway(network))
    services.add_interface_by_subnet(router, net.subnets.get())
    port = services.create_port(people.alice.project_id, net)
    led = services.create_floating_ip(people.alice.project_id, network, port=port)
    operator = Api(people.operator)
    refused(operator.delete(f"{V2}/networks/{network.id}"), 409, "NetworkInUse")
    assert FloatingIP.objects.count() == 2
    services.delete_floating_ip(led)
    services.update_router(router, {"gateway": None})
    assert operator.delete(f"{V2}/networks/{network.id}").status_code == 204
    assert not FloatingIP.objects.exists()


def test_a_network_is_external_for_one_project(people: People) -> None:
    network = services.create_network(people.operator.project_id, "for alice")
    services.create_subnet(network, "203.0.113.0/24")
    path, operator = f"{V2}/networks/{network.id}", Api(people.operator)
    values = {
        "object_type": "network",
        "object_id": str(network.id),
        "action": "access_as_external",
        "target_tenant": people.alice.project_id.hex,
    }
    own = services.create_network(people.alice.project_id, "own")
    member = Api(people.alice).post(f"{V2}/rbac-policies", {"rbac_policy": values | {"object_id": str(own.id)}})
    refused(member, 403, "PolicyNotAuthorized")
    policy = operator.post(f"{V2}/rbac-policies", {"rbac_policy": values}).json()["rbac_policy"]
    assert Api(people.alice).get(path).json()["network"]["router:external"] is True
    assert Api(people.charlie).get(path).status_code == 404
    body = {"floatingip": {"floating_network_id": str(network.id)}}
    refused(Api(people.charlie).post(f"{V2}/floatingips", body), 400, "BadRequest")
    gateway = {"router": {"external_gateway_info": {"network_id": str(network.id)}}}
    refused(Api(people.charlie).post(f"{V2}/routers", gateway), 404, "NetworkNotFound")
    given = Api(people.alice).post(f"{V2}/floatingips", body)
    assert given.status_code == 201, given.content
    refused(operator.delete(f"{V2}/rbac-policies/{policy['id']}"), 409, "RbacPolicyInUse")
    assert Api(people.alice).delete(f"{V2}/floatingips/{given.json()['floatingip']['id']}").status_code == 204
    assert operator.delete(f"{V2}/rbac-policies/{policy['id']}").status_code == 204
    assert Api(people.alice).get(path).status_code == 404
    assert not Network.objects.get(id=network.id).external


def test_a_router_leads_to_a_network_that_has_no_subnet_yet(api: Api, people: People) -> None:
    network = outside(people.operator)
    router = made(api, "router", external_gateway_info={"network_id": str(network.id)})
    assert router["external_gateway_info"]["external_fixed_ips"] == []
    subnet = services.create_subnet(network, "203.0.113.0/24")
    shown = api.get(f"{V2}/routers/{router['id']}").json()["router"]["external_gateway_info"]
    assert [each["subnet_id"] for each in shown["external_fixed_ips"]] == [str(subnet.id)]
    services.create_subnet(network, "198.51.100.0/24")
    assert Port.objects.get(device_id=router["id"]).fixed_ips.count() == 1


def test_a_router_is_distributed_as_operators_ask(api: Api, people: People) -> None:
    operator = Api(people.operator)
    assert made(operator, "router", name="r", distributed=True)["distributed"] is True
    refused(api.post(f"{V2}/routers", {"router": {"distributed": True}}), 403, "PolicyNotAuthorized")
    refused(operator.post(f"{V2}/routers", {"router": {"distributed": False}}), 400, "HTTPBadRequest")


def test_an_interface_gets_another_address_of_its_subnet(api: Api, alice: Person, net: Network) -> None:
    router = services.create_router(alice.project_id)
    leg = services.add_interface_by_subnet(router, net.subnets.get()).port
    other = services.create_subnet(net, "10.21.0.0/24")
    path = f"{V2}/ports/{leg.id}"
    changed = api.put(path, {"port": {"fixed_ips": [{"ip_address": "10.20.0.55"}]}})
    assert [each["ip_address"] for each in changed.json()["port"]["fixed_ips"]] == ["10.20.0.55"]
    refused(api.put(path, {"port": {"fixed_ips": [{"subnet_id": str(other.id)}]}}), 409, "ServicePortInUse")
    refused(api.put(path, {"port": {"fixed_ips": []}}), 409, "ServicePortInUse")
    foreign_gateway = services.create_subnet(net, "10.22.0.0/24", gateway_ip="192.0.2.1")
    add = f"{V2}/routers/{Router.objects.get().id}/add_router_interface"
    refused(api.put(add, {"subnet_id": str(foreign_gateway.id)}), 400, "InvalidIpForSubnet")


def test_a_networks_owner_sees_and_deletes_the_ports_of_others_on_it(people: People, net: Network) -> None:
    services.update_network(net, {"shared": True})
    theirs = made(Api(people.charlie), "port", network_id=str(net.id))["id"]
    owner, path = Api(people.alice), f"{V2}/ports/{theirs}"
    assert theirs in {each["id"] for each in owner.get(f"{V2}/ports").json()["ports"]}
    refused(owner.put(path, {"port": {"name": "x"}}), 403, "PolicyNotAuthorized")
    mine = made(owner, "port", network_id=str(net.id))["id"]
    refused(Api(people.charlie).delete(f"{V2}/ports/{mine}"), 404, "PortNotFound")
    assert owner.delete(path).status_code == 204


def test_a_floating_ip_shows_forwardings_as_neutron_and_is_kept_for_them(
    api: Api, people: People, net: Network
) -> None:
    network = outside(people.operator)
    services.create_subnet(network, "203.0.113.0/24")
    router = services.create_router(people.alice.project_id, gateway=services.Gateway(network))
    services.add_interface_by_subnet(router, net.subnets.get())
    port = services.create_port(people.alice.project_id, net)
    floating = services.create_floating_ip(people.alice.project_id, network)
    row = services.create_port_forwarding(
        floating, ForwardingRequest("tcp", (22, 22), port, port.fixed_ips.get().address, (22, 22))
    )
    path = f"{V2}/floatingips/{floating.id}"
    [shown] = api.get(path).json()["floatingip"]["port_forwardings"]
    assert shown == {
        "id": str(row.id),
        "protocol": "tcp",
        "internal_port_id": str(port.id),
        "internal_ip_address": row.internal_ip_address,
        "internal_port": 22,
        "external_port": 22,
    }
    refused(api.delete(path), 409, "FipInUseByPortForwarding")
    body = {"port_forwarding": {"protocol": "tcp", "internal_port_id": str(port.id)}}
    again = {"port_forwarding": body["port_forwarding"] | {"internal_port": 22, "external_port": 23}}
    refused(api.post(f"{path}/port_forwardings", again), 400, "BadRequest")
    services.delete_port_forwarding(row)
    bound = services.create_floating_ip(people.alice.project_id, network, port=port)
    refused(api.post(f"{path}/port_forwardings", again), 409, "PortHasBindingFloatingIP")
    services.delete_floating_ip(bound)
    assert api.post(f"{path}/port_forwardings", again).status_code == 201


def test_prefixes_of_a_pool_are_added_and_removed(api: Api, net: Network, charlie: Person) -> None:
    pool = made(api, "subnetpool", name="p", prefixes=["10.64.0.0/16"], default_prefixlen=24)["id"]
    path = f"{V2}/subnetpools/{pool}"
    added = api.put(f"{path}/add_prefixes", {"prefixes": ["10.66.5.0/16"]})
    assert added.json() == {"prefixes": ["10.64.0.0/16", "10.66.0.0/16"]}
    bare = made(api, "network", name="n")["id"]
    made(api, "subnet", network_id=bare, ip_version=4, subnetpool_id=pool)
    refused(api.put(f"{path}/remove_prefixes", {"prefixes": ["10.64.0.0/16"]}), 400, "IllegalSubnetPoolPrefixUpdate")
    assert api.put(f"{path}/remove_prefixes", {"prefixes": ["10.66.0.0/16"]}).json() == {"prefixes": ["10.64.0.0/16"]}
    for wrong in ({}, {"prefixes": []}, {"prefixes": "10.0.0.0/8"}, {"prefixes": ["x"]}):
        refused(api.put(f"{path}/add_prefixes", wrong), 400, "HTTPBadRequest")
    refused(api.put(f"{path}/add_prefixes", {"prefixes": ["fd00::/48"]}), 400, "PrefixVersionMismatch")
    assert Api(charlie).put(f"{path}/add_prefixes", {"prefixes": ["10.70.0.0/16"]}).status_code == 404


def test_whether_a_function_is_trusted_is_operators(api: Api, operator: Person, net: Network) -> None:
    refused(api.post(f"{V2}/ports", {"port": {"network_id": str(net.id), "trusted": True}}), 403, "PolicyNotAuthorized")
    port = made(Api(operator), "port", network_id=str(net.id), trusted=True)
    assert (port["trusted"], port["binding:profile"]) == (True, {"trusted": True})
    path = f"{V2}/ports/{port['id']}"
    changed = Api(operator).put(path, {"port": {"binding:profile": {"a": 1}}}).json()["port"]
    assert (changed["trusted"], changed["binding:profile"]) == (True, {"a": 1, "trusted": True})
    assert Api(operator).put(path, {"port": {"trusted": False}}).json()["port"]["trusted"] is False
    assert "trusted" not in made(api, "port", network_id=str(net.id))


def test_lists_are_filtered_by_policy_and_never_refused(api: Api) -> None:
    for path in ("agents", "network-ip-availabilities"):
        answer = api.get(f"{V2}/{path}")
        assert (answer.status_code, [*answer.json().values()]) == (200, [[]]), path
        refused(api.get(f"{V2}/{path}/{uuid.uuid4()}"), 404, "HTTPNotFound")
