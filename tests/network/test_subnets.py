"""Networks' segments and subnets through the API, with Neutron's refusals."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from provisioning.common.errors import InvalidInputError
from provisioning.network import services
from provisioning.network.models import FixedIP, Network, Port, Subnet
from tests.support.cast import Api, Person
from tests.support.standing import standing
from tests.support.tables import each_row

V2 = "/network/v2.0"


def send(person: Person, method: str, path: str, body: Any = None) -> tuple[int, Any]:
    client = Client()
    answer = client.generic(
        method,
        V2 + path,
        "" if body is None else json.dumps(body),
        "application/json",
        headers={"X-Auth-Token": person.token},
    )
    return answer.status_code, answer.json() if answer.content else None


def subnet(person: Person, network: Network, **values: Any) -> tuple[int, Any]:
    body = {"network_id": str(network.id), "ip_version": 4} | values
    status, answer = send(person, "POST", "/subnets", {"subnet": body})
    return status, answer["subnet"] if status == 201 else answer["NeutronError"]


@pytest.fixture
@standing
def bare(alice: Person) -> Network:
    return services.create_network(alice.project_id, "bare")


def test_a_subnet_has_what_follows_from_its_range(alice: Person, bare: Network) -> None:
    status, made = subnet(alice, bare, cidr="10.9.0.0/24", name="s")
    assert (status, made["gateway_ip"], made["enable_dhcp"]) == (201, "10.9.0.1", True)
    assert made["allocation_pools"] == [{"start": "10.9.0.2", "end": "10.9.0.254"}]
    assert (made["subnetpool_id"], made["ipv6_ra_mode"], made["service_types"]) == (None, None, [])
    status, six = subnet(alice, bare, cidr="2001:db8::/64", ip_version=6, gateway_ip=None)
    assert (status, six["gateway_ip"]) == (201, None)
    assert six["allocation_pools"] == [{"start": "2001:db8::1", "end": "2001:db8::ffff:ffff:ffff:ffff"}]
    assert set(send(alice, "GET", f"/networks/{bare.id}")[1]["network"]["subnets"]) == {made["id"], six["id"]}


@pytest.mark.slow
@each_row(
    ("values", "status", "kind"),
    [
        ({"cidr": "10.9.0.0/24", "ip_version": 6}, 400, "InvalidInput"),
        ({"cidr": "10.9.0.1"}, 400, "HTTPBadRequest"),
        ({}, 400, "BadSubnetRequest"),
        ({"cidr": "10.9.0.0/24", "gateway_ip": "10.9.0.255"}, 400, "InvalidInput"),
        ({"cidr": "10.9.0.0/24", "gateway_ip": "fe80::1"}, 400, "InvalidInput"),
        ({"cidr": "10.9.0.0/24", "dns_nameservers": [f"9.9.9.{last}" for last in range(6)]}, 400,
         "DNSNameServersExhausted"),
        ({"cidr": "10.9.0.0/24", "host_routes": [{"destination": f"10.{second}.0.0/16", "nexthop": "10.9.0.9"}
                                                 for second in range(21)]}, 400, "HostRoutesExhausted"),
        ({"cidr": "10.9.0.0/24", "host_routes": [{"destination": "fd00::/64", "nexthop": "10.9.0.9"}]}, 400,
         "InvalidInput"),
        ({"cidr": "10.9.0.0/24", "allocation_pools": None}, 400, "HTTPBadRequest"),
        ({"cidr": "10.9.0.0/24", "allocation_pools": []}, 400, "InvalidInput"),
        ({"cidr": "10.9.0.0/24", "allocation_pools": [{"start": "10.9.0.9", "end": "10.9.0.8"}]}, 400,
         "InvalidAllocationPool"),
        ({"cidr": "10.9.0.0/24", "allocation_pools": [{"start": "10.9.0.9", "end": "10.9.1.8"}]}, 400,
         "OutOfBoundsAllocationPool"),
        ({"cidr": "10.9.0.0/24", "allocation_pools": [{"start": "10.9.0.5", "end": "10.9.0.9"},
                                                      {"start": "10.9.0.9", "end": "10.9.0.12"}]}, 409,
         "OverlappingAllocationPools"),
        ({"cidr": "10.9.0.0/24", "gateway_ip": "10.9.0.7",
          "allocation_pools": [{"start": "10.9.0.5", "end": "10.9.0.9"}]}, 409, "GatewayConflictWithAllocationPools"),
        ({"cidr": "10.9.0.0/24", "dns_nameservers": ["2620:fe::9"]}, 400, "InvalidInput"),
        ({"cidr": "10.9.0.0/24", "dns_nameservers": ["169.254.169.254"]}, 400, "InvalidInput"),
        ({"cidr": "10.9.0.0/24", "dns_nameservers": ["224.0.0.251"]}, 400, "InvalidInput"),
        ({"cidr": "10.9.0.0/24", "dns_nameservers": ["255.255.255.255"]}, 400, "InvalidInput"),
        ({"cidr": "fd00::/64", "ip_version": 6, "dns_nameservers": ["::1"]}, 400, "InvalidInput"),
        ({"cidr": "fd00::/64", "ip_version": 6, "dns_nameservers": ["ff02::fb"]}, 400, "InvalidInput"),
        ({"cidr": "10.9.0.0/24", "ipv6_ra_mode": "slaac"}, 400, "InvalidInput"),
        ({"cidr": "fd00::/64", "ip_version": 6, "ipv6_ra_mode": "slaac", "enable_dhcp": False}, 400, "InvalidInput"),
        ({"cidr": "fd00::/64", "ip_version": 6, "ipv6_ra_mode": "slaac", "ipv6_address_mode": "dhcpv6-stateful"}, 400,
         "InvalidInput"),
        ({"cidr": "fd00::/80", "ip_version": 6, "ipv6_ra_mode": "slaac", "ipv6_address_mode": "slaac"}, 400,
         "InvalidInput"),
        ({"cidr": "10.9.0.0/24", "subnetpool_id": str(uuid.UUID(int=7))}, 404, "SubnetPoolNotFound"),
        ({"use_default_subnetpool": True}, 400, "HTTPBadRequest"),
    ],
)  # fmt: skip
def test_a_wrong_subnet_is_refused(alice: Person, bare: Network, values: Any, status: int, kind: str) -> None:
    result, error = subnet(alice, bare, **values)
    assert (result, error["type"]) == (status, kind), error
    assert not Subnet.objects.exists()
    assert not Port.objects.exists()


@each_row(
    "cidr",
    ["127.0.0.0/8", "224.0.0.0/24", "240.0.0.0/8", "169.254.0.0/16", "fe80::/64", "ff02::/64", "::ffff:a00:0/120"],
)
def test_ranges_that_no_network_can_have_are_refused(alice: Person, bare: Network, cidr: str) -> None:
    with pytest.raises(InvalidInputError, match="is not a usable range"):
        services.create_subnet(bare, cidr)


def test_ranges_overlap_on_different_networks_only(alice: Person, bare: Network, net: Network) -> None:
    assert subnet(alice, bare, cidr="10.20.0.0/25")[0] == 201
    status, error = subnet(alice, bare, cidr="10.20.0.64/26")
    assert (status, error["type"]) == (400, "InvalidInput")
    assert "overlaps with another subnet" in error["message"]


def test_only_the_owner_of_a_network_makes_subnets_on_it(alice: Person, charlie: Person, operator: Person) -> None:
    shared = services.create_network(alice.project_id, "everybody's", shared=True)
    status, error = subnet(charlie, shared, cidr="10.9.0.0/24")
    assert (status, error["type"]) == (403, "PolicyNotAuthorized")
    own = services.create_network(alice.project_id, "own")
    assert subnet(charlie, own, cidr="10.9.0.0/24")[1]["type"] == "NetworkNotFound"
    assert subnet(operator, own, cidr="10.9.0.0/24")[0] == 201


@pytest.mark.slow
def test_a_subnet_is_changed(alice: Person, net: Network) -> None:
    path = f"/subnets/{net.subnets.get().id}"
    changes = {"name": "x", "dns_nameservers": ["1.1.1.1"], "host_routes": [
        {"destination": "10.1.0.0/16", "nexthop": "10.20.0.9"}], "gateway_ip": None, "enable_dhcp": False}  # fmt: skip
    status, answer = send(alice, "PUT", path, {"subnet": changes})
    assert status == 200, answer
    changed = answer["subnet"]
    assert {name: changed[name] for name in changes} == changes
    assert changed["revision_number"] == 1
    assert not Port.objects.exists(), "the port of DHCP goes with the last subnet that has it"
    for wrong, kind in (
        ({"cidr": "10.21.0.0/24"}, "HTTPBadRequest"),
        ({"gateway_ip": "10.20.0.77"}, "GatewayConflictWithAllocationPools"),
        ({"allocation_pools": [{"start": "10.99.0.1", "end": "10.99.0.2"}]}, "OutOfBoundsAllocationPool"),
    ):
        status, answer = send(alice, "PUT", path, {"subnet": wrong})
        assert (status in {400, 409}, answer["NeutronError"]["type"]) == (True, kind)
    pools = [{"start": "10.20.0.10", "end": "10.20.0.19"}]
    status, answer = send(alice, "PUT", path, {"subnet": {"allocation_pools": pools, "gateway_ip": "10.20.0.77"}})
    assert (status, answer["subnet"]["allocation_pools"]) == (200, pools)


def test_dhcp_with_modes_of_ipv6_stays(alice: Person, bare: Network) -> None:
    _, made = subnet(alice, bare, cidr="fd00::/64", ip_version=6, ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
    status, answer = send(alice, "PUT", f"/subnets/{made['id']}", {"subnet": {"enable_dhcp": False}})
    assert (status, answer["NeutronError"]["type"]) == (400, "InvalidInput")


def test_a_gateway_that_a_router_has_stays(alice: Person, net: Network) -> None:
    first = net.subnets.get()
    port = Port.objects.create(
        network=net,
        project_id=alice.project_id,
        mac_address="fa:16:3e:00:00:09",
        device_owner="network:router_interface",
    )
    FixedIP.objects.create(port=port, subnet=first, address="10.20.0.1", number=1)
    status, answer = send(alice, "PUT", f"/subnets/{first.id}", {"subnet": {"gateway_ip": None}})
    assert (status, answer["NeutronError"]["type"]) == (409, "GatewayIpInUse")
    assert send(alice, "DELETE", f"/subnets/{first.id}")[1]["NeutronError"]["type"] == "SubnetInUse"


def test_what_is_in_use_stays(alice: Person, net: Network) -> None:
    port = services.create_port(alice.project_id, net)
    first = net.subnets.get()
    status, answer = send(alice, "DELETE", f"/subnets/{first.id}")
    assert (status, answer["NeutronError"]["type"]) == (409, "SubnetInUse")
    status, answer = send(alice, "DELETE", f"/networks/{net.id}")
    assert (status, answer["NeutronError"]["type"]) == (409, "NetworkInUse")
    port.delete()
    assert send(alice, "DELETE", f"/networks/{net.id}")[0] == 204
    assert not Subnet.objects.exists()
    assert not Port.objects.exists()
    assert not FixedIP.every.exists()


def test_addresses_that_are_held_are_not_in_the_way(alice: Person, net: Network) -> None:
    instance = uuid.uuid4()
    services.allocate(instance, alice.project_id, [{"network_id": str(net.id)}], [], "host", "nova")
    services.release(instance)
    assert FixedIP.every.filter(port=None).exists()
    assert send(alice, "DELETE", f"/subnets/{net.subnets.get().id}")[0] == 204
    assert not FixedIP.every.exists()


@pytest.mark.slow
def test_segments(operator: Person, settings: Any) -> None:
    settings.VNI_FIRST, settings.VNI_LAST = 5000, 5001

    def make(**values: Any) -> tuple[int, Any]:
        attributes = {f"provider:{name}": value for name, value in values.items()}
        status, answer = send(operator, "POST", "/networks", {"network": attributes})
        return status, answer["network"] if status == 201 else answer["NeutronError"]["type"]

    result = [make()[1]["provider:segmentation_id"] for _ in range(2)]
    assert sorted(result) == [5000, 5001]
    assert make() == (409, "NoNetworkAvailable")
    assert make(network_type="vxlan", segmentation_id=5000) == (409, "TunnelIdInUse")
    assert make(network_type="vxlan", segmentation_id=7000)[1]["provider:segmentation_id"] == 7000
    flat = make(network_type="flat", physical_network="wire")[1]
    assert (flat["provider:physical_network"], flat["provider:segmentation_id"]) == ("wire", None)
    assert make(network_type="flat", physical_network="wire") == (409, "FlatNetworkInUse")
    assert make(network_type="vlan", physical_network="wire")[1]["provider:segmentation_id"] == 1
    assert make(network_type="vlan", physical_network="wire", segmentation_id=1) == (409, "VlanIdInUse")
    assert make(network_type="vlan", physical_network="wire")[1]["provider:segmentation_id"] == 2
    for wrong in (
        {"network_type": "gre"},
        {"network_type": "flat"},
        {"network_type": "flat", "physical_network": "w", "segmentation_id": 3},
        {"network_type": "vlan", "physical_network": "w", "segmentation_id": 4095},
        {"network_type": "vxlan", "physical_network": "w"},
    ):
        assert make(**wrong)[0] == 400, wrong
    listed = send(operator, "GET", "/networks?provider:network_type=vlan&fields=provider:segmentation_id")[1]
    assert sorted(row["provider:segmentation_id"] for row in listed["networks"]) == [1, 2]


def test_the_mtu_is_what_a_packet_between_hosts_has_room_for(operator: Person, settings: Any) -> None:
    settings.PHYSICAL_MTU = 9000
    flat = {"provider:network_type": "flat", "provider:physical_network": "wire"}

    def make(**values: Any) -> Any:
        answer = send(operator, "POST", "/networks", {"network": values})[1]
        return answer["network"]["mtu"] if "network" in answer else answer["NeutronError"]["message"]

    assert (make(), make(mtu=1400), make(**flat)) == (8950, 1400, 9000)
    assert "Requested MTU is too big, maximum is 8950" in make(mtu=8951)
    settings.PHYSICAL_MTU = 1500
    small = services.create_network(operator.project_id, "small")
    status, answer = send(operator, "PUT", f"/networks/{small.id}", {"network": {"mtu": 1500}})
    assert (status, answer["NeutronError"]["type"]) == (400, "InvalidInput")
    for mtu in (1, 68, 1279):  # 0 is the largest
        status, answer = send(operator, "PUT", f"/networks/{small.id}", {"network": {"mtu": mtu}})
        assert (status, answer["NeutronError"]["type"]) == (400, "InvalidInput")
        assert "Requested MTU is too small, minimum is 1280" in make(mtu=mtu)
    assert send(operator, "PUT", f"/networks/{small.id}", {"network": {"mtu": 1280}})[0] == 200


def test_a_network_that_others_use_stays_shared(alice: Person, charlie: Person, operator: Person) -> None:
    shared = services.create_network(alice.project_id, "everybody's", shared=True)
    services.create_subnet(shared, "10.9.0.0/24")
    port = services.create_port(charlie.project_id, shared)
    status, answer = send(operator, "PUT", f"/networks/{shared.id}", {"network": {"shared": False}})
    assert (status, answer["NeutronError"]["type"]) == (409, "InvalidSharedSetting")
    port.delete()
    assert send(operator, "PUT", f"/networks/{shared.id}", {"network": {"shared": False}})[0] == 200
    assert send(charlie, "GET", f"/networks/{shared.id}")[0] == 404


def test_external_networks_are_seen_by_all_and_one_is_the_default(charlie: Person, operator: Person) -> None:
    body = {"router:external": True, "is_default": True, "name": "out"}
    status, answer = send(operator, "POST", "/networks", {"network": body})
    assert (status, answer["network"]["is_default"]) == (201, True)
    seen = send(charlie, "GET", "/networks?router:external=True")[1]["networks"]
    assert [network["name"] for network in seen] == ["out"]
    assert send(operator, "POST", "/networks", {"network": body})[0] == 400
    assert send(operator, "POST", "/networks", {"network": {"is_default": True}})[0] == 400


def test_lists_do_not_cost_more_with_more_rows(operator: Person, alice: Person) -> None:
    """Pools and scopes; networks, subnets and ports are counted in ``test_api``."""
    counts: dict[str, set[int]] = {}
    for turn in range(2):
        for number in range(3):
            pool = services.create_subnet_pool(alice.project_id, "p", [f"10.{turn * 3 + number}.0.0/16"])
            services.create_address_scope(alice.project_id, "s", 4)
            services.set_tags(pool, ["x"])
        for path in ("/subnetpools", "/address-scopes"):
            Api(alice).get(V2 + path)
            with CaptureQueriesContext(connection) as queries:
                assert len(Api(alice).get(V2 + path).json().popitem()[1]) == (turn + 1) * 3
            counts.setdefault(path, set()).add(len(queries))
    assert all(len(result) == 1 for result in counts.values()), counts
