"""Ports that the cloud itself makes, and changes that the database broke off."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, repeat

import pytest
from django.db import IntegrityError, OperationalError

from provisioning.network import addressing, services
from provisioning.network.models import Network, Port, Router
from provisioning.network.services import Gateway
from provisioning.network.services.base import records
from tests.support.cast import Person

TAKEN = "fa:16:3e:00:00:01"


@pytest.fixture
def external(operator: Person) -> Network:
    network = services.create_network(operator.project_id, "public")
    services.create_subnet(network, "203.0.113.0/24", enable_dhcp=False)
    services.update_network(network, {"external": True})
    network.refresh_from_db()
    return network


@pytest.fixture
def collide(monkeypatch: pytest.MonkeyPatch) -> Callable[[Network], None]:
    """Let the first MAC addresses that are chosen be one that a port of the network has."""

    def take(network: Network) -> None:
        Port.objects.create(network=network, project_id=network.project_id, mac_address=TAKEN)
        macs: Iterator[str] = chain(repeat(TAKEN, 2), iter([addressing.random_mac() for _ in range(20)]))
        monkeypatch.setattr(addressing, "random_mac", lambda: next(macs))

    return take


def a_gateway(person: Person, _: Network, external: Network) -> None:
    services.create_router(person.project_id, gateway=Gateway(external))


def a_floating_ip(person: Person, _: Network, external: Network) -> None:
    services.create_floating_ip(person.project_id, external)


def an_interface(person: Person, net: Network, _: Network) -> None:
    services.add_interface_by_subnet(services.create_router(person.project_id), net.subnets.get())


def another_mac(person: Person, net: Network, _: Network) -> None:
    port = Port.objects.create(network=net, project_id=person.project_id, mac_address=addressing.random_mac())
    services.update_port(port, {"mac_address": None})


@pytest.mark.django_db
@pytest.mark.parametrize(
    ("make", "on_external"),
    [(a_gateway, True), (a_floating_ip, True), (an_interface, False)],
)
def test_a_mac_address_that_is_taken_is_tried_again(
    alice: Person,
    net: Network,
    external: Network,
    collide: Callable[[Network], None],
    make: Callable[[Person, Network, Network], None],
    on_external: bool,
) -> None:
    network = external if on_external else net
    before = set(Port.objects.filter(network=network).values_list("id", flat=True))
    collide(network)
    make(alice, net, external)
    macs = Port.objects.filter(network=network).exclude(id__in=before).values_list("mac_address", flat=True)
    assert len(set(macs)) == 2
    assert TAKEN in macs


@pytest.mark.django_db
def test_another_mac_address_is_one_that_nobody_has(
    alice: Person, net: Network, external: Network, collide: Callable[[Network], None]
) -> None:
    port = Port.objects.create(network=net, project_id=alice.project_id, mac_address="fa:16:3e:00:00:02")
    collide(net)
    changed = services.update_port(port, {"mac_address": None})
    assert changed.mac_address not in (TAKEN, "fa:16:3e:00:00:02")


@pytest.mark.django_db
def test_tries_have_an_end(alice: Person, external: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    Port.objects.create(network=external, project_id=external.project_id, mac_address=TAKEN)
    monkeypatch.setattr(addressing, "random_mac", lambda: TAKEN)
    with pytest.raises(IntegrityError):
        services.create_router(alice.project_id, gateway=Gateway(external))
    assert not Router.objects.exists()


class _BrokenOffError(Exception):
    sqlstate = "40001"


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("work", [services.add_routes, services.remove_routes])
def test_routes_that_the_database_broke_off_are_written_by_the_next_try(
    alice: Person, monkeypatch: pytest.MonkeyPatch, work: Callable[..., Router]
) -> None:
    network = services.create_network(alice.project_id, "n")
    subnet = services.create_subnet(network, "10.20.0.0/24")
    router = services.create_router(alice.project_id)
    services.add_interface_by_subnet(router, subnet)
    route = {"destination": "10.9.0.0/24", "nexthop": "10.20.0.9"}
    if work is services.remove_routes:
        services.add_routes(router, [route])
    lock, failures = records.lock, iter([True])

    def locked(row: Router, revision: int | None = None) -> Router:
        if next(failures, False):
            raise OperationalError("could not serialize access") from _BrokenOffError()
        return lock(row, revision)

    monkeypatch.setattr(records, "lock", locked)
    work(router, [route])
    assert Router.objects.get().routes == ([] if work is services.remove_routes else [route])
