"""openstacksdk's network proxy against a running cloud: every method is used here or listed with a reason."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from openstack import exceptions
from openstack.connection import Connection
from openstack.network.v2 import _proxy as network_proxy

from tests.e2e.network_extensions import NOT_OFFERED
from tests.e2e.sdk_proxies import NOT_CALLED_NETWORK, Spy, connect, methods, refused
from tests.support.one_machine import OneMachine

pytestmark = [
    pytest.mark.compat,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning",
        "ignore::openstack.warnings.OpenStackDeprecationWarning",
        "ignore::PendingDeprecationWarning",
    ),
]


@pytest.fixture
def conn(simulated: OneMachine) -> Iterator[Connection]:
    with connect(simulated) as sdk:
        yield sdk


def test_network_proxy(conn: Connection) -> None:
    network = Spy(conn.network)
    net, subnet = networks(network)
    pools(network)
    ports(network, net, subnet)
    tags(network, net)
    public = network.find_network("public", ignore_missing=False)
    router = routers(network, net, subnet, public)
    floating_ips(network, net, public)
    network.remove_interface_from_router(router, subnet_id=subnet.id)
    network.delete_router(router, ignore_missing=False)
    security_groups(network)
    default_rules(network)
    address_groups(network)
    rbac_policies(network, net, conn.identity.find_project("demo", ignore_missing=False).id)
    quotas(network, conn.current_project_id)
    agents(network)
    look_around(network, net, conn.current_project_id)
    network.delete_subnet(subnet, ignore_missing=False)
    network.delete_network(net, ignore_missing=False)
    assert network.find_network("sdk-net-2") is None
    assert set(NOT_OFFERED) & {each.alias for each in network.extensions()} == set()
    every = methods(network_proxy.Proxy)
    others = {alias: clients.of_sdk(every) for alias, clients in NOT_OFFERED.items()}
    assert [alias for alias, names in others.items() if not names or names & network.used] == []
    assert every - network.used - set().union(*others.values()) == set(NOT_CALLED_NETWORK)


def one(network: Spy, noun: str, plural: str, made: Any, **changes: Any) -> Any:
    """Find one by its name, show and list it, change it; returns it as it is then."""
    assert getattr(network, f"find_{noun}")(made.name, ignore_missing=False).id == made.id
    assert getattr(network, f"get_{noun}")(made.id).name == made.name
    assert [row.id for row in getattr(network, plural)(name=made.name)] == [made.id]
    changed = getattr(network, f"update_{noun}")(made, **changes)
    shown = getattr(network, f"get_{noun}")(made.id)
    for name, value in changes.items():
        assert getattr(changed, name) == getattr(shown, name) == value
    return changed


def networks(network: Spy) -> tuple[Any, Any]:
    net = network.create_network(name="sdk-net", description="x")
    stale = network.get_network(net.id)
    assert network.update_network(stale, if_revision=stale.revision_number, description="y").description == "y"
    with pytest.raises(exceptions.PreconditionFailedException):
        network.update_network(stale.id, if_revision=stale.revision_number - 1, description="z")
    net = one(network, "network", "networks", net, name="sdk-net-2", mtu=1400)
    subnet = network.create_subnet(network_id=net.id, ip_version=4, cidr="10.88.0.0/24", name="sdk-subnet")
    return net, one(network, "subnet", "subnets", subnet, name="sdk-subnet-2", dns_nameservers=["9.9.9.9"])


def pools(network: Spy) -> None:
    scope = network.create_address_scope(name="sdk-scope", ip_version=4)
    scope = one(network, "address_scope", "address_scopes", scope, name="sdk-scope-2")
    pool = network.create_subnet_pool(name="sdk-pool", prefixes=["10.96.0.0/16"], address_scope_id=scope.id)
    pool = one(network, "subnet_pool", "subnet_pools", pool, name="sdk-pool-2", default_prefix_length=26)
    refused(409, lambda: network.delete_address_scope(scope))
    network.delete_subnet_pool(pool, ignore_missing=False)
    network.delete_address_scope(scope, ignore_missing=False)


def ports(network: Spy, net: Any, subnet: Any) -> None:
    fixed = [{"subnet_id": subnet.id, "ip_address": "10.88.0.9"}]
    port = network.create_port(network_id=net.id, fixed_ips=fixed, name="sdk-port")
    port = one(network, "port", "ports", port, name="sdk-port-2", is_admin_state_up=False)
    assert [row.id for row in network.ports(fixed_ips="ip_address=10.88.0.9")] == [port.id]
    refused(409, lambda: network.create_port(network_id=net.id, fixed_ips=fixed))
    several = network.create_ports([{"network_id": net.id, "name": f"sdk-port-{number}"} for number in (3, 4)])
    several = list(several)
    assert {row.id for row in network.get_subnet_ports(subnet)} >= {port.id, *(row.id for row in several)}
    assert list(network.port_bindings(port)) == []
    assert network.activate_port_binding(port, host="h1") is None
    network.delete_port_binding(port, "h1")
    refused(405, lambda: network.create_port_binding(port, host="h1"))
    for row in (port, *several):
        network.delete_port(row, ignore_missing=False)
    refused(404, lambda: network.delete_port(port, ignore_missing=False))


def tags(network: Spy, net: Any) -> None:
    network.set_tags(net, ["one", "two"])
    assert [row.id for row in network.networks(tags=["one", "two"])] == [net.id]
    network.add_tags(net, ["three"])
    network.add_tag(net, "four")
    network.remove_tag(net, "one")
    assert network.check_tag(net, "four")
    refused(404, lambda: network.check_tag(net, "one"))
    assert set(network.get_tags(net)) == {"two", "three", "four"}
    network.remove_all_tags(net)
    assert network.get_network(net.id).tags == []


def routers(network: Spy, net: Any, subnet: Any, public: Any) -> Any:
    router = one(network, "router", "routers", network.create_router(name="sdk-router"), name="sdk-router-2")
    gateway = {"external_gateway_info": {"network_id": public.id}}
    network.update_router(router, **gateway)
    network.add_interface_to_router(router, subnet_id=subnet.id)
    routes = {"router": {"routes": [{"destination": "10.6.0.0/24", "nexthop": "10.88.0.7"}]}}
    network.add_extra_routes_to_router(router, routes)
    assert len(network.get_router(router.id).routes) == 1
    network.remove_extra_routes_from_router(router, routes)
    assert network.get_router(router.id).routes == []
    refused(409, lambda: network.delete_router(router))
    return router


def floating_ips(network: Spy, net: Any, public: Any) -> None:
    port = network.create_port(network_id=net.id)
    floating = network.create_ip(floating_network_id=public.id, port_id=port.id)
    assert network.find_ip(floating.floating_ip_address).port_id == port.id
    assert [row.id for row in network.ips(port_id=port.id)] == [floating.id]
    network.remove_ip_from_port(floating)
    assert network.get_ip(network.find_available_ip().id).port_id is None  # another test may have left one, too
    network.add_ip_to_port(port, floating)
    assert network.get_ip(floating.id).port_id == port.id
    assert network.update_ip(floating, port_id=None).port_id is None
    requested = {
        "internal_port_id": port.id,
        "internal_ip_address": port.fixed_ips[0]["ip_address"],
        "internal_port": 22,
        "protocol": "tcp",
    }
    made = network.create_port_forwarding(floatingip_id=floating.id, external_port=2222, **requested)
    other = network.create_floating_ip_port_forwarding(
        floating, external_port=2223, **requested | {"internal_port": 23}
    )
    assert network.get_port_forwarding(made.id, floating).external_port == 2222
    assert network.find_port_forwarding(made.id, floating).id == made.id
    assert network.get_floating_ip_port_forwarding(floating, other.id).external_port == 2223
    assert network.find_floating_ip_port_forwarding(floating, other.id).id == other.id
    assert network.update_port_forwarding(made, floating, external_port=2224).external_port == 2224
    assert network.update_floating_ip_port_forwarding(floating, other, external_port=2225).external_port == 2225
    assert sorted(row.external_port for row in network.port_forwardings(floating)) == [2224, 2225]
    assert sorted(row.external_port for row in network.floating_ip_port_forwardings(floating)) == [2224, 2225]
    network.delete_port_forwarding(made, floating, ignore_missing=False)
    network.delete_floating_ip_port_forwarding(floating, other, ignore_missing=False)
    assert list(network.port_forwardings(floating)) == []
    network.delete_ip(floating, ignore_missing=False)
    network.delete_port(port)


def security_groups(network: Spy) -> None:
    group = network.create_security_group(name="sdk-group")
    group = one(network, "security_group", "security_groups", group, name="sdk-group-2", stateful=False)
    requested = {"security_group_id": group.id, "direction": "ingress", "protocol": "tcp"}
    rule = network.create_security_group_rule(**requested)
    bulk = [requested | {"port_range_min": port, "port_range_max": port} for port in (80, 443)]
    several = list(network.create_security_group_rules(bulk))
    assert network.find_security_group_rule(rule.id).id == network.get_security_group_rule(rule.id).id == rule.id
    listed = network.security_group_rules(security_group_id=group.id, direction="ingress")
    assert {row.id for row in listed} == {rule.id, *(row.id for row in several)}
    refused(409, lambda: network.create_security_group_rule(**requested))
    network.delete_security_group_rule(rule, ignore_missing=False)
    assert network.find_security_group_rule(rule.id) is None
    network.delete_security_group(group, ignore_missing=False)


def default_rules(network: Spy) -> None:
    rule = network.create_default_security_group_rule(direction="ingress", protocol="icmp")
    assert network.find_default_security_group_rule(rule.id).protocol == "icmp"
    assert network.get_default_security_group_rule(rule.id).used_in_non_default_sg
    assert rule.id in {row.id for row in network.default_security_group_rules(protocol="icmp")}
    network.delete_default_security_group_rule(rule, ignore_missing=False)
    assert network.find_default_security_group_rule(rule.id) is None


def address_groups(network: Spy) -> None:
    group = network.create_address_group(name="sdk-office", addresses=["192.0.2.0/24"])
    group = one(network, "address_group", "address_groups", group, name="sdk-office-2", description="x")
    assert len(network.add_addresses_to_address_group(group, ["198.51.100.7/32"]).addresses) == 2
    left = network.remove_addresses_from_address_group(group, ["192.0.2.0/24"])
    assert left.addresses == ["198.51.100.7/32"]
    network.delete_address_group(group, ignore_missing=False)


def rbac_policies(network: Spy, net: Any, demo: str) -> None:
    made = network.create_rbac_policy(
        object_type="network", object_id=net.id, action="access_as_shared", target_project_id=demo
    )
    assert network.find_rbac_policy(made.id).id == network.get_rbac_policy(made.id).id == made.id
    assert [row.id for row in network.rbac_policies(object_id=net.id)] == [made.id]
    assert network.update_rbac_policy(made, target_project_id="*").target_project_id == "*"
    network.delete_rbac_policy(made, ignore_missing=False)


def quotas(network: Spy, project: str) -> None:
    default = network.get_quota_default(project)
    assert network.update_quota(project, networks=default.networks + 1).networks == default.networks + 1
    assert project in {row.project_id for row in network.quotas()}
    assert network.get_quota(project, details=True).floating_ips["used"] == len(list(network.ips(project_id=project)))
    network.delete_quota(project, ignore_missing=False)
    assert network.get_quota(project).networks == default.networks


def agents(network: Spy) -> None:
    result = list(network.agents(agent_type="L3 agent"))
    assert {row.host for row in result} == {"sim-1", "sim-2"}
    agent = network.get_agent(result[0].id)
    assert agent.is_alive
    refused(405, lambda: network.update_agent(agent, is_admin_state_up=False))
    refused(405, lambda: network.delete_agent(agent, ignore_missing=False))


def look_around(network: Spy, net: Any, project: str) -> None:
    assert {row.resource for row in network.availability_zones()} == {"network", "router"}
    assert [row.service_type for row in network.service_providers()] == ["L3_ROUTER_NAT"]
    assert network.find_extension("router", ignore_missing=False).alias == "router"
    counted = network.find_network_ip_availability(net.id, ignore_missing=False)
    assert counted.used_ips <= network.get_network_ip_availability(net.id).total_ips
    assert net.id in {row.network_id for row in network.network_ip_availabilities(ip_version=4)}
    assert network.validate_auto_allocated_topology().id == "dry-run=pass"
    made = network.get_auto_allocated_topology(project)
    assert network.find_network("auto_allocated_network").id == made.id
    network.delete_auto_allocated_topology(project)
    assert network.find_network(made.id) is None
