"""Ports and addresses of instances."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import netaddr
import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from provisioning.common.errors import InvalidInputError
from provisioning.network import addressing, selectors, services
from provisioning.network.errors import OutOfAddressesError
from provisioning.network.models import FixedIP, Network, Port, RbacPolicy, SecurityGroup
from provisioning.network.services.addressing import ipam
from provisioning.quotas.models import QuotaLimit
from provisioning.quotas.selectors import usage_of
from provisioning.quotas.services.ledger import reserve
from tests.support.cast import Person
from tests.support.ports import guest_addresses, guest_ports
from tests.support.tables import each_row

HOST, AZ = "host-1", "nova"


def on(network: Network, fixed_ip: str | None = None) -> list[dict[str, str | None]]:
    return [{"network_id": str(network.id), "fixed_ip": fixed_ip}]


def allocate(person: Person, requested: list[dict[str, str | None]], instance: uuid.UUID | None = None) -> list[Port]:
    return services.allocate(instance or uuid.uuid4(), person.project_id, requested, [], HOST, AZ)


def address(port: Port) -> str:
    return port.fixed_ips.get().address


def test_takes_the_lowest_free_address_behind_the_gateway(alice: Person, net: Network) -> None:
    first, second = allocate(alice, on(net))[0], allocate(alice, on(net))[0]
    assert [address(first), address(second)] == ["10.20.0.2", "10.20.0.3"]
    assert first.mac_address.startswith("fa:16:3e:")
    assert first.mac_address != second.mac_address
    assert (first.host, first.device_owner, first.status, first.device_index) == (HOST, "compute:nova", "BUILD", 0)
    assert [group.name for group in first.security_groups.all()] == ["default"]


def test_a_released_address_is_held_back_for_a_while(alice: Person, net: Network, settings: Any) -> None:
    settings.ADDRESS_HOLD = 60
    instances = [uuid.uuid4() for _ in range(3)]
    for instance in instances:
        allocate(alice, on(net), instance)
    services.release(instances[1])
    services.release(instances[1])
    assert not FixedIP.objects.filter(address="10.20.0.3").exists()
    assert address(allocate(alice, on(net))[0]) == "10.20.0.5"
    assert ipam.forget_released() == 0
    FixedIP.every.filter(port=None).update(released_at=timezone.now() - timedelta(seconds=3601))
    assert ipam.forget_released() == 1
    assert address(allocate(alice, on(net))[0]) == "10.20.0.3"


def test_a_held_address_goes_to_who_names_it(alice: Person, net: Network) -> None:
    instance = uuid.uuid4()
    allocate(alice, on(net), instance)
    services.release(instance)
    assert address(allocate(alice, on(net, "10.20.0.2"))[0]) == "10.20.0.2"
    assert FixedIP.every.filter(address="10.20.0.2").count() == 1
    with pytest.raises(InvalidInputError, match="already in use"):
        allocate(alice, on(net, "10.20.0.2"))


def test_of_an_empty_pool_the_address_released_first_is_given(alice: Person) -> None:
    network = services.create_network(alice.project_id, "small")
    services.create_subnet(network, "10.30.0.0/29")
    instances = [uuid.uuid4() for _ in range(4)]
    given = {instance: address(allocate(alice, on(network), instance)[0]) for instance in instances}
    for instance in (instances[2], instances[0]):
        services.release(instance)
    assert address(allocate(alice, on(network))[0]) == given[instances[2]]
    assert address(allocate(alice, on(network))[0]) == given[instances[0]]
    with pytest.raises(OutOfAddressesError):
        allocate(alice, on(network))


def test_a_released_address_is_free_at_once_where_nothing_is_held(alice: Person, net: Network, settings: Any) -> None:
    settings.ADDRESS_HOLD = 0
    instance = uuid.uuid4()
    allocate(alice, on(net), instance)
    services.release(instance)
    assert address(allocate(alice, on(net))[0]) == "10.20.0.2"


def test_a_port_has_its_own_address_where_guests_make_theirs(alice: Person, net: Network) -> None:
    services.create_subnet(net, "fd00:20::/64", ipv6_address_mode="slaac", ipv6_ra_mode="slaac")
    instance = uuid.uuid4()
    reserve(alice.project_id, instance, services.quota_of(on(net)))
    [port] = allocate(alice, on(net), instance)
    four, six = (fixed.address for fixed in port.fixed_ips.order_by("id"))
    assert (four, six) == (
        "10.20.0.2",
        str(netaddr.EUI(port.mac_address).ipv6(netaddr.IPNetwork("fd00:20::/64").first)),
    )
    assert usage_of(alice.project_id)["fixed_ips"] == 2
    services.release(instance)
    assert usage_of(alice.project_id)["fixed_ips"] == 0


def test_a_port_has_an_address_of_each_ip_version(alice: Person, net: Network) -> None:
    modes = {"ipv6_address_mode": "dhcpv6-stateful", "ipv6_ra_mode": "dhcpv6-stateful"}
    services.create_subnet(net, "fd00:20::/64", **modes)  # type: ignore[arg-type]
    port = services.create_port(alice.project_id, net)
    assert [fixed.address for fixed in port.fixed_ips.order_by("id")] == ["10.20.0.2", "fd00:20::2"]
    assert usage_of(alice.project_id)["fixed_ips"] == 2


def test_a_network_that_a_policy_shares_with_a_project_is_used_by_it(
    alice: Person, charlie: Person, net: Network
) -> None:
    shared = {"object_type": "network", "object_id": net.id, "action": "access_as_shared"}
    RbacPolicy.objects.create(project_id=alice.project_id, target_project=charlie.project_id.hex, **shared)
    assert allocate(charlie, on(net))[0].project_id == charlie.project_id
    assert [network.id for network in selectors.usable_networks_for(charlie.context)] == [net.id]


def test_addresses_of_ipv6_ranges_are_given_from_the_first(alice: Person) -> None:
    network = services.create_network(alice.project_id, "six")
    subnet = services.create_subnet(
        network, "2001:db8:0:1:ffff::/80", ipv6_address_mode="dhcpv6-stateful", ipv6_ra_mode="dhcpv6-stateful"
    )
    assert subnet.gateway_ip == "2001:db8:0:1:ffff::1"
    got = [address(allocate(alice, on(network))[0]) for _ in range(2)]
    assert got == ["2001:db8:0:1:ffff::2", "2001:db8:0:1:ffff::3"]
    assert address(allocate(alice, on(network, "2001:db8:0:1:ffff:ffff:ffff:0"))[0]) == "2001:db8:0:1:ffff:ffff:ffff:0"
    numbers = list(FixedIP.objects.order_by("number").values_list("number", "address"))
    assert all(-(2**63) <= number < 2**63 for number, _ in numbers)
    assert [netaddr.IPAddress(text) for _, text in numbers] == sorted(netaddr.IPAddress(text) for _, text in numbers)


def test_repeating_returns_the_same_ports_bound_to_the_new_host(alice: Person, net: Network) -> None:
    instance = uuid.uuid4()
    before = allocate(alice, on(net), instance)
    after = services.allocate(instance, alice.project_id, on(net), [], "host-2", AZ)
    assert [port.id for port in after] == [port.id for port in before]
    assert [port.host for port in after] == ["host-2"]
    assert guest_ports().get().host == "host-2"


def test_requested_address_is_given(alice: Person, net: Network) -> None:
    assert address(allocate(alice, on(net, "10.20.0.77"))[0]) == "10.20.0.77"


@each_row(
    ("wanted", "sentence"),
    [
        ("10.20.0.1", "is reserved"),
        ("10.20.0.0", "is reserved"),
        ("10.20.0.255", "is reserved"),
        ("10.21.0.5", "is not a valid IP address for any of the subnets"),
        ("10.20.0.2", "is already in use"),
        ("010.20.0.9", "is not a valid IP address"),
        ("10.20.9", "is not a valid IP address"),
        ("fe80::1", "is not a valid IP address for any"),
    ],
)
def test_requested_address_that_cannot_be_had_is_refused(
    alice: Person, net: Network, wanted: str, sentence: str
) -> None:
    allocate(alice, on(net))
    with pytest.raises(InvalidInputError, match=sentence) as caught:
        allocate(alice, on(net, wanted))
    assert caught.value.field == "networks"
    assert guest_ports().count() == 1


def test_dhcp_answers_at_a_port_of_its_own_at_the_end_of_the_pools(alice: Person) -> None:
    network = services.create_network(alice.project_id, "isolated")
    first = services.create_subnet(network, "10.30.0.0/29", gateway_ip=None)
    port = Port.objects.get(network=network)
    assert (port.device_owner, port.device_id) == ("network:dhcp", network.id)
    assert [fixed.address for fixed in port.fixed_ips.all()] == ["10.30.0.6"]
    second = services.create_subnet(network, "fd00:30::/64", ipv6_address_mode="slaac", ipv6_ra_mode="slaac")
    assert [fixed.subnet_id for fixed in port.fixed_ips.order_by("id")] == [first.id, second.id]
    guest = allocate(alice, on(network))[0]
    assert guest.fixed_ips.get(subnet=first).address == "10.30.0.1"
    services.update_subnet(first, {"enable_dhcp": False})
    assert [fixed.subnet_id for fixed in port.fixed_ips.all()] == [second.id]
    services.delete_subnet(second)
    assert not Port.objects.filter(device_owner="network:dhcp").exists()


def test_pools_in_pieces_are_used_in_order(alice: Person) -> None:
    network = services.create_network(alice.project_id, "pieces")
    services.create_subnet(
        network,
        "10.30.0.0/24",
        gateway_ip="10.30.0.100",
        allocation_pools=[{"start": "10.30.0.200", "end": "10.30.0.201"}, {"start": "10.30.0.50", "end": "10.30.0.51"}],
    )
    got = [address(allocate(alice, on(network))[0]) for _ in range(3)]
    assert got == ["10.30.0.50", "10.30.0.51", "10.30.0.200"]
    with pytest.raises(OutOfAddressesError, match=f"No more IP addresses available on network {network.id}"):
        allocate(alice, on(network))


def test_second_interface_without_address_leaves_nothing_of_the_first(alice: Person, net: Network) -> None:
    full = services.create_network(alice.project_id, "full")
    services.create_subnet(full, "10.40.0.0/29", allocation_pools=[{"start": "10.40.0.2", "end": "10.40.0.3"}])
    allocate(alice, on(full))
    with pytest.raises(OutOfAddressesError):
        allocate(alice, on(net) + on(full))
    assert guest_ports().count() == guest_addresses().count() == 1


def test_interfaces_keep_their_order(alice: Person, net: Network) -> None:
    other = services.create_network(alice.project_id, "other")
    services.create_subnet(other, "10.40.0.0/24")
    ports = allocate(alice, on(other) + on(net) + on(other))
    assert [port.network_id for port in ports] == [other.id, net.id, other.id]
    assert [port.device_index for port in ports] == [0, 1, 2]


def test_other_projects_network_is_refused_and_shared_is_not(alice: Person, charlie: Person, net: Network) -> None:
    with pytest.raises(InvalidInputError, match=f"Network {net.id} could not be found"):
        allocate(charlie, on(net))
    services.update_network(Network.objects.get(), {"shared": True})
    assert allocate(charlie, on(net))[0].project_id == charlie.project_id


def test_a_network_that_has_lost_its_subnets_is_named_as_such(alice: Person, charlie: Person) -> None:
    bare = services.create_network(alice.project_id, "bare")
    with pytest.raises(InvalidInputError, match=f"Network {bare.id} requires a subnet"):
        allocate(alice, on(bare))
    with pytest.raises(InvalidInputError, match="could not be found"):
        allocate(charlie, on(bare))


def test_port_by_id_is_used_and_given_back_whole(alice: Person, net: Network) -> None:
    port = services.create_port(alice.project_id, net, fixed_ips=[{"ip_address": "10.20.0.50"}])
    instance = uuid.uuid4()
    assert [used.id for used in allocate(alice, [{"port_id": str(port.id)}], instance)] == [port.id]
    with pytest.raises(InvalidInputError, match="is still in use"):
        allocate(alice, [{"port_id": str(port.id)}])
    services.release(instance)
    port.refresh_from_db()
    assert (port.device_id, port.host, port.status, address(port)) == (None, "", "DOWN", "10.20.0.50")


def test_port_of_another_project_or_of_an_instance_cannot_be_used(alice: Person, charlie: Person, net: Network) -> None:
    free = services.create_port(alice.project_id, net)
    with pytest.raises(InvalidInputError, match="could not be found"):
        allocate(charlie, [{"port_id": str(free.id)}])
    made = allocate(alice, on(net))[0]
    with pytest.raises(InvalidInputError, match="could not be found"):
        allocate(alice, [{"port_id": str(made.id)}])


def test_group_of_another_project_is_refused(alice: Person, charlie: Person, net: Network) -> None:
    foreign = SecurityGroup.objects.create(project_id=charlie.project_id, name="open")
    with pytest.raises(InvalidInputError, match=f"Security group {foreign.id} not found") as caught:
        services.allocate(uuid.uuid4(), alice.project_id, on(net), [str(foreign.id)], HOST, AZ)
    assert caught.value.field == "security_groups"
    assert not guest_ports().exists()


def test_taken_mac_address_is_tried_again(alice: Person, net: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    taken = allocate(alice, on(net))[0].mac_address
    macs = iter([taken, taken, "fa:16:3e:00:00:01"])
    monkeypatch.setattr(addressing, "random_mac", lambda: next(macs))
    port = allocate(alice, on(net))[0]
    assert (port.mac_address, address(port)) == ("fa:16:3e:00:00:01", "10.20.0.3")


def test_number_of_queries_of_one_launch(alice: Person, net: Network) -> None:
    services.ensure_default_security_group(alice.project_id)
    instance = uuid.uuid4()
    reserve(alice.project_id, instance, services.quota_of(on(net)))
    with transaction.atomic(), CaptureQueriesContext(connection) as queries:
        allocate(alice, on(net), instance)
    savepoints = [query for query in queries.captured_queries if "SAVEPOINT" in query["sql"]]
    assert len(queries) - len(savepoints) <= 10


def _in_threads(count: int, work: object) -> list[object]:
    """Run ``work(index)`` in that many threads that start together; return results and errors."""
    gate = threading.Barrier(count)

    def run(index: int) -> object:
        try:
            gate.wait(300)
            return work(index)  # type: ignore[operator]
        except Exception as error:  # noqa: BLE001 - the test looks at it
            return error
        finally:
            connections.close_all()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_forty_at_once_get_forty_addresses(alice: Person, net: Network) -> None:
    results = _in_threads(40, lambda index: allocate(alice, on(net))[0].id)
    assert all(isinstance(result, uuid.UUID) for result in results), results
    numbers = sorted(guest_addresses().values_list("number", flat=True))
    assert numbers == list(range(numbers[0], numbers[0] + 40))
    assert addressing.address_of(net.subnets.get(), numbers[0]) == "10.20.0.2"
    assert guest_ports().values("mac_address").distinct().count() == 40
    assert SecurityGroup.objects.filter(project_id=alice.project_id).count() == 1


@pytest.mark.slow
@pytest.mark.django_db(transaction=True)
def test_pool_smaller_than_the_crowd_gives_each_address_once(alice: Person, net: Network) -> None:
    small = services.create_network(alice.project_id, "small")
    services.create_subnet(small, "10.50.0.0/28", allocation_pools=[{"start": "10.50.0.2", "end": "10.50.0.7"}])
    results = _in_threads(20, lambda index: allocate(alice, on(net) + on(small)))
    assert sum(isinstance(result, list) for result in results) == 5
    assert sum(isinstance(result, OutOfAddressesError) for result in results) == 15
    assert guest_ports().count() == guest_addresses().count() == 10


@pytest.mark.django_db(transaction=True)
def test_the_same_instance_at_once_gets_one_set_of_ports(alice: Person, net: Network) -> None:
    instance = uuid.uuid4()
    results = _in_threads(8, lambda index: [port.id for port in allocate(alice, on(net), instance)])
    assert len({tuple(result) for result in results}) == 1, results  # type: ignore[arg-type]
    assert guest_ports().count() == 1


@pytest.mark.django_db(transaction=True)
def test_one_port_by_id_serves_one_instance(alice: Person, net: Network) -> None:
    port = services.create_port(alice.project_id, net)
    results = _in_threads(6, lambda index: allocate(alice, [{"port_id": str(port.id)}]))
    assert sum(isinstance(result, list) for result in results) == 1
    assert sum(isinstance(result, InvalidInputError) for result in results) == 5


@pytest.mark.deep  # what forty show
@pytest.mark.both_databases
@pytest.mark.django_db(transaction=True)
def test_five_hundred_at_once_get_five_hundred_addresses(alice: Person, settings: Any) -> None:
    """In 25 threads, as many as a machine's web processes and workers have; half go again while others come."""
    settings.ADDRESS_HOLD = 3600
    QuotaLimit.objects.bulk_create(
        QuotaLimit(project_id=alice.project_id, resource=name, limit=-1) for name in ("ports", "fixed_ips")
    )
    network = services.create_network(alice.project_id, "big")
    services.create_subnet(network, "10.60.0.0/20")
    instances = [[uuid.uuid4() for _ in range(20)] for _ in range(25)]

    def come(index: int) -> list[str]:
        return [address(allocate(alice, on(network), instance)[0]) for instance in instances[index]]

    results = _in_threads(25, come)
    assert all(isinstance(result, list) for result in results), results
    results_found = [netaddr.IPAddress(text) for result in results for text in result]  # type: ignore[attr-defined]
    assert len(set(results_found)) == 500
    assert int(max(results_found)) - int(min(results_found)) == 499
    assert guest_addresses().count() == 500

    def go_and_come(index: int) -> str:
        services.release(instances[index // 2][0])  # each of them twice at the same time
        return address(allocate(alice, on(network))[0])

    others = _in_threads(24, go_and_come)
    assert all(isinstance(result, str) for result in others), others
    assert len(set(others)) == 24
    assert not {str(each) for each in results_found} & set(others), "what was given back is given to nobody yet"
    assert guest_addresses().count() == 500 - 12 + 24
    held = FixedIP.every.filter(port=None)
    assert held.count() == 12
    assert ipam.forget_released() == 0
    held.update(released_at=timezone.now() - timedelta(seconds=3601))
    assert ipam.forget_released() == 12
    assert address(allocate(alice, on(network))[0]) in {str(each) for each in results_found}
    assert usage_of(alice.project_id)["fixed_ips"] == 500 - 12 + 25
