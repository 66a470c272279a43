"""Ports and addresses of instances."""

from __future__ import annotations

import threading
import uuid
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext

from provisioning.common.errors import InvalidInputError
from provisioning.network import addressing, services
from provisioning.network.errors import OutOfAddressesError
from provisioning.network.models import FixedIP, Network, Port, SecurityGroup
from provisioning.quotas.services.ledger import reserve
from tests.support.cast import Person

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


def test_a_released_address_is_the_next_one_given(alice: Person, net: Network) -> None:
    instances = [uuid.uuid4() for _ in range(3)]
    for instance in instances:
        allocate(alice, on(net), instance)
    services.release(instances[1])
    services.release(instances[1])
    assert address(allocate(alice, on(net))[0]) == "10.20.0.3"
    assert address(allocate(alice, on(net))[0]) == "10.20.0.5"


def test_repeating_returns_the_same_ports_bound_to_the_new_host(alice: Person, net: Network) -> None:
    instance = uuid.uuid4()
    before = allocate(alice, on(net), instance)
    after = services.allocate(instance, alice.project_id, on(net), [], "host-2", AZ)
    assert [port.id for port in after] == [port.id for port in before]
    assert [port.host for port in after] == ["host-2"]
    assert Port.objects.get().host == "host-2"


def test_wanted_address_is_given(alice: Person, net: Network) -> None:
    assert address(allocate(alice, on(net, "10.20.0.77"))[0]) == "10.20.0.77"


@pytest.mark.parametrize(
    ("wanted", "sentence"),
    [
        ("10.20.0.1", "is reserved"),
        ("10.20.0.0", "is reserved"),
        ("10.20.0.255", "is reserved"),
        ("10.21.0.5", "is not a valid IP address for any of the subnets"),
        ("10.20.0.2", "is already in use"),
        ("010.20.0.9", "is not a valid IPv4 address"),
        ("10.20.9", "is not a valid IPv4 address"),
        ("fe80::1", "is not a valid IPv4 address"),
    ],
)
def test_wanted_address_that_cannot_be_had_is_refused(alice: Person, net: Network, wanted: str, sentence: str) -> None:
    allocate(alice, on(net))
    with pytest.raises(InvalidInputError, match=sentence) as caught:
        allocate(alice, on(net, wanted))
    assert caught.value.field == "networks"
    assert Port.objects.count() == 1


def test_dhcp_address_of_a_range_without_gateway_is_kept_free(alice: Person) -> None:
    network = services.create_network(alice.project_id, "isolated")
    subnet = services.create_subnet(network, "10.30.0.0/29", gateway_ip=None)
    assert subnet.dhcp_address == "10.30.0.1"
    assert address(allocate(alice, on(network))[0]) == "10.30.0.2"


def test_pools_in_pieces_are_used_in_order(alice: Person) -> None:
    network = services.create_network(alice.project_id, "pieces")
    services.create_subnet(
        network,
        "10.30.0.0/24",
        gateway_ip="10.30.0.100",
        allocation_pools=[{"start": "10.30.0.200", "end": "10.30.0.200"}, {"start": "10.30.0.50", "end": "10.30.0.51"}],
    )
    got = [address(allocate(alice, on(network))[0]) for _ in range(3)]
    assert got == ["10.30.0.50", "10.30.0.51", "10.30.0.200"]
    with pytest.raises(OutOfAddressesError, match=f"No more IP addresses available on network {network.id}"):
        allocate(alice, on(network))


def test_second_interface_without_address_leaves_nothing_of_the_first(alice: Person, net: Network) -> None:
    full = services.create_network(alice.project_id, "full")
    services.create_subnet(full, "10.40.0.0/29", allocation_pools=[{"start": "10.40.0.2", "end": "10.40.0.2"}])
    allocate(alice, on(full))
    with pytest.raises(OutOfAddressesError):
        allocate(alice, on(net) + on(full))
    assert Port.objects.count() == FixedIP.objects.count() == 1


def test_interfaces_keep_their_order(alice: Person, net: Network) -> None:
    other = services.create_network(alice.project_id, "other")
    services.create_subnet(other, "10.40.0.0/24")
    ports = allocate(alice, on(other) + on(net) + on(other))
    assert [port.network_id for port in ports] == [other.id, net.id, other.id]
    assert [port.device_index for port in ports] == [0, 1, 2]


def test_other_projects_network_is_refused_and_shared_is_not(alice: Person, charlie: Person, net: Network) -> None:
    with pytest.raises(InvalidInputError, match=f"Network {net.id} could not be found"):
        allocate(charlie, on(net))
    Network.objects.update(shared=True)
    assert allocate(charlie, on(net))[0].project_id == charlie.project_id


def test_port_by_id_is_used_and_given_back_whole(alice: Person, net: Network) -> None:
    port = services.create_port(alice.project_id, net, fixed_ip="10.20.0.50")
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
    assert not Port.objects.exists()


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
            gate.wait(60)
            return work(index)  # type: ignore[operator]
        except Exception as error:  # noqa: BLE001 - the test looks at it
            return error
        finally:
            connections.close_all()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


@pytest.mark.django_db(transaction=True)
def test_forty_at_once_get_forty_addresses(alice: Person, net: Network) -> None:
    results = _in_threads(40, lambda index: allocate(alice, on(net))[0].id)
    assert all(isinstance(result, uuid.UUID) for result in results), results
    numbers = sorted(FixedIP.objects.values_list("number", flat=True))
    assert numbers == list(range(numbers[0], numbers[0] + 40))
    assert addressing.as_text(numbers[0]) == "10.20.0.2"
    assert Port.objects.values("mac_address").distinct().count() == 40
    assert SecurityGroup.objects.filter(project_id=alice.project_id).count() == 1


@pytest.mark.django_db(transaction=True)
def test_pool_smaller_than_the_crowd_gives_each_address_once(alice: Person, net: Network) -> None:
    small = services.create_network(alice.project_id, "small")
    services.create_subnet(small, "10.50.0.0/28", allocation_pools=[{"start": "10.50.0.2", "end": "10.50.0.6"}])
    results = _in_threads(20, lambda index: allocate(alice, on(net) + on(small)))
    assert sum(isinstance(result, list) for result in results) == 5
    assert sum(isinstance(result, OutOfAddressesError) for result in results) == 15
    assert Port.objects.count() == FixedIP.objects.count() == 10


@pytest.mark.django_db(transaction=True)
def test_the_same_instance_at_once_gets_one_set_of_ports(alice: Person, net: Network) -> None:
    instance = uuid.uuid4()
    results = _in_threads(8, lambda index: [port.id for port in allocate(alice, on(net), instance)])
    assert len({tuple(result) for result in results}) == 1, results  # type: ignore[arg-type]
    assert Port.objects.count() == 1


@pytest.mark.django_db(transaction=True)
def test_one_port_by_id_serves_one_instance(alice: Person, net: Network) -> None:
    port = services.create_port(alice.project_id, net)
    results = _in_threads(6, lambda index: allocate(alice, [{"port_id": str(port.id)}]))
    assert sum(isinstance(result, list) for result in results) == 1
    assert sum(isinstance(result, InvalidInputError) for result in results) == 5
