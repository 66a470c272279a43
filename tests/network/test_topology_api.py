"""A project's own network and router in one go, and what operators see of hosts and addresses."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.hosts.models import Host
from provisioning.network import services
from provisioning.network.models import AutoAllocatedTopology, Network, Router
from provisioning.network.selectors.agents import TYPES
from provisioning.quotas.services.limits import set_limits
from tests.support.cast import Api, People, Person
from tests.support.clouds import Cloud

pytestmark = pytest.mark.django_db
V2 = "/network/v2.0"
TOPOLOGY = f"{V2}/auto-allocated-topology"


def kind(answer: Any, status: int) -> str:
    assert answer.status_code == status, answer.content
    return str(answer.json()["NeutronError"]["type"])


@pytest.fixture
def outside(operator: Person) -> Network:
    made = services.create_network(operator.project_id, "public", external=True, is_default=True)
    services.create_subnet(made, "203.0.113.0/24", enable_dhcp=False)
    return made


def topology(person: Person, project: str = "None", query: str = "") -> Any:
    return Api(person).get(f"{TOPOLOGY}/{project}{query}")


def test_a_project_gets_a_network_and_a_router_once(alice: Person, outside: Network) -> None:
    assert topology(alice, query="?fields=dry-run").json()["auto_allocated_topology"]["id"] == "dry-run=pass"
    assert not Network.objects.filter(project_id=alice.project_id).exists()
    made = topology(alice).json()["auto_allocated_topology"]
    assert made == {"id": made["id"], "tenant_id": alice.project_id.hex, "project_id": alice.project_id.hex}
    assert topology(alice, alice.project_id.hex).json()["auto_allocated_topology"] == made
    network = Network.objects.get(project_id=alice.project_id)
    router = Router.objects.select_related("gateway_port").get(project_id=alice.project_id)
    assert (str(network.id), network.name, router.name) == (
        made["id"],
        "auto_allocated_network",
        "auto_allocated_router",
    )
    assert router.gateway_port is not None
    assert router.gateway_port.network == outside
    [subnet] = network.subnets.all()
    assert subnet.cidr == "10.50.0.0/24"
    port = services.create_port(alice.project_id, network)
    services.create_floating_ip(alice.project_id, outside, port=port)
    assert kind(Api(alice).delete(f"{TOPOLOGY}/None"), 409).startswith("RouterInterfaceInUse")
    assert AutoAllocatedTopology.objects.filter(project_id=alice.project_id).exists()


@pytest.mark.slow
@pytest.mark.both_databases
def test_it_is_deleted_whole_or_not_at_all(alice: Person, outside: Network) -> None:
    topology(alice)
    network = Network.objects.get(project_id=alice.project_id)
    port = services.create_port(alice.project_id, network)
    assert kind(Api(alice).delete(f"{TOPOLOGY}/None"), 409) == "NetworkInUse"
    assert Router.objects.filter(project_id=alice.project_id).exists()
    services.delete_port(port)
    for _ in range(2):
        assert Api(alice).delete(f"{TOPOLOGY}/None").status_code == 204
    assert not Network.objects.filter(project_id=alice.project_id).exists()
    assert not Router.objects.filter(project_id=alice.project_id).exists()
    assert topology(alice).status_code == 200


def test_the_default_subnet_pool_goes_before_the_setting(alice: Person, operator: Person, outside: Network) -> None:
    services.create_subnet_pool(
        operator.project_id, "all", ["10.99.0.0/16"], shared=True, is_default=True, default_prefixlen=26
    )
    topology(alice)
    assert Network.objects.get(project_id=alice.project_id).subnets.get().cidr == "10.99.0.0/26"


@pytest.mark.slow
def test_who_may_and_what_cannot_be(alice: Person, bob: Person, charlie: Person, operator: Person) -> None:
    assert kind(topology(alice, query="?fields=dry-run"), 409) == "AutoAllocationFailure"
    made = services.create_network(operator.project_id, "public", external=True, is_default=True)
    services.create_subnet(made, "203.0.113.0/24", enable_dhcp=False)
    assert kind(topology(bob), 403) == "PolicyNotAuthorized"
    assert kind(topology(charlie, alice.project_id.hex), 403) == "PolicyNotAuthorized"
    assert topology(operator, "9" * 32).status_code == 404
    set_limits(alice.project_id, {"routers": 0})
    assert kind(topology(alice), 409) == "OverQuota"
    assert not Network.objects.filter(project_id=alice.project_id).exists()
    set_limits(alice.project_id, {"routers": 1})
    assert topology(operator, alice.project_id.hex).json()["auto_allocated_topology"]["project_id"] == (
        alice.project_id.hex
    )


def listed(person: Person, path: str, name: str) -> list[dict[str, Any]]:
    answer = Api(person).get(f"{V2}/{path}")
    assert answer.status_code == 200, answer.content
    result: list[dict[str, Any]] = answer.json()[name]
    return result


def test_operators_see_hosts_as_agents(people: People) -> None:
    cloud, operator = Cloud.make(), people.operator
    for name in ("h1", "h2"):
        cloud.add_host(name)
    Host.objects.filter(name="h2").update(enabled=False, forced_down=True, availability_zone="west")
    every = listed(operator, "agents?sort_key=host&sort_key=agent_type", "agents")
    assert [(each["host"], each["agent_type"]) for each in every] == [
        (host, each.agent_type) for host in ("h1", "h2") for each in TYPES
    ]
    [dhcp] = listed(operator, "agents?agent_type=DHCP agent&alive=False", "agents")
    assert (dhcp["host"], dhcp["admin_state_up"], dhcp["availability_zone"]) == ("h2", False, "west")
    assert (
        listed(operator, "agents?limit=3&sort_key=host", "agents")
        == sorted(every, key=lambda each: (each["host"], each["id"]))[:3]
    )
    assert Api(operator).get(f"{V2}/agents/{dhcp['id']}").json()["agent"] == dhcp
    assert kind(Api(operator).get(f"{V2}/agents/nothing"), 404) == "AgentNotFound"
    assert listed(people.alice, "agents", "agents") == []
    assert kind(Api(people.alice).get(f"{V2}/agents/{dhcp['id']}"), 404) == "HTTPNotFound"
    assert Api(operator).delete(f"{V2}/agents/{dhcp['id']}").status_code == 405
    zones = listed(people.bob, "availability_zones?resource=network&sort_key=name", "availability_zones")
    assert zones == [
        {"name": "nova", "resource": "network", "state": "available"},
        {"name": "west", "resource": "network", "state": "unavailable"},
    ]
    [provider] = listed(people.bob, "service-providers?service_type=L3_ROUTER_NAT", "service_providers")
    assert provider["default"] is True


def test_agents_count_what_their_host_should_have(people: People) -> None:
    cloud = Cloud.make()
    cloud.add_host("h1", documents=True)
    cloud.running(people.alice.context)
    kinds = {each["agent_type"]: each["configurations"] for each in listed(people.operator, "agents", "agents")}
    assert kinds["DHCP agent"]["networks"] == 1
    assert kinds["Linux bridge agent"]["devices"] == 1


@pytest.mark.both_databases("sql")
def test_how_many_addresses_there_are(people: People, net: Network) -> None:
    services.create_subnet(net, "fd00:9::/64", name="six", enable_dhcp=False)
    for _ in range(3):
        services.create_port(people.alice.project_id, net)
    services.create_network(people.alice.project_id, "bare")
    path = "network-ip-availabilities"
    bare, shown = listed(people.operator, f"{path}?sort_key=network_name", "network_ip_availabilities")
    assert (bare["network_name"], bare["total_ips"], bare["subnet_ip_availability"]) == ("bare", 0, [])
    four, six = shown["subnet_ip_availability"]
    used = {each.cidr: each.fixed_ips.filter(port__isnull=False).count() for each in net.subnets.all()}
    assert (four["total_ips"], four["used_ips"]) == (253, used[four["cidr"]])
    assert four["used_ips"] >= 3
    assert six["total_ips"] == 2**64 - 2
    assert (shown["total_ips"], shown["used_ips"]) == (253 + 2**64 - 2, four["used_ips"] + six["used_ips"])
    [only] = listed(people.operator, f"{path}?ip_version=4", "network_ip_availabilities")
    assert [each["ip_version"] for each in only["subnet_ip_availability"]] == [4]
    assert listed(people.operator, f"{path}?network_name=x", "network_ip_availabilities") == []
    one = Api(people.operator).get(f"{V2}/{path}/{net.id}").json()["network_ip_availability"]
    assert one == shown
    assert listed(people.alice, path, "network_ip_availabilities") == []


def test_floating_ip_pools_are_the_subnets_of_external_networks(people: People, outside: Network, net: Network) -> None:
    services.create_subnet(outside, "2001:db8::/64", enable_dhcp=False)
    hidden = services.create_network(people.charlie.project_id, "theirs")
    services.create_subnet(hidden, "10.9.0.0/24")
    [pool] = listed(people.bob, f"floatingip_pools?network_id={outside.id}", "floatingip_pools")
    subnet = outside.subnets.get(ip_version=4)
    project = people.bob.project_id.hex
    assert pool == {
        "subnet_id": str(subnet.id),
        "subnet_name": subnet.name,
        "network_id": str(outside.id),
        "cidr": "203.0.113.0/24",
        "project_id": project,
        "tenant_id": project,
    }
    assert listed(people.bob, "floatingip_pools", "floatingip_pools") == [pool]
    assert listed(people.bob, "floatingip_pools?cidr=10.9.0.0/24", "floatingip_pools") == []
