"""What is deleted after it was looked up, and before it is referred to, is not found; it is no error of ours."""

from __future__ import annotations

import sqlite3
import threading
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from django.core.exceptions import ObjectDoesNotExist
from django.db import IntegrityError, connection
from django.db.models import Model

from portal.api.common.views import MOST_RETRIES, ServiceView
from portal.api.network.dialect.views import ResourceView
from provisioning.common.database.retry import lost_race
from provisioning.common.errors import ConflictError, NovellaError
from provisioning.network import services
from provisioning.network.models import AddressScope, Network, Port, Router, SecurityGroup, Subnet, SubnetPool
from provisioning.network.services.base import records
from tests.support.cast import Api, Person

V2 = "/network/v2.0"
SCOPE, GROUP = uuid.uuid4(), uuid.uuid4()
PortGroup = Port.security_groups.through
pytestmark = [pytest.mark.both_databases("constraints"), pytest.mark.django_db(transaction=True)]


def deleted_before(monkeypatch: pytest.MonkeyPatch, service: str, model: type[Model], key: str) -> None:
    """Let somebody delete a record just before a service begins that was given it."""
    real = getattr(services, service)

    def late(*args: Any, **kwargs: Any) -> Any:
        model._default_manager.filter(pk=key).delete()
        return real(*args, **kwargs)

    monkeypatch.setattr(services, service, late)


def fault(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["NeutronError"]["type"]


def test_a_group_that_a_port_takes(alice: Person, net: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    group = services.create_security_group(alice.project_id, "web")
    port = services.create_port(alice.project_id, net)
    before = [str(row.id) for row in port.security_groups.all()]
    deleted_before(monkeypatch, "update_port", SecurityGroup, str(group.id))
    answer = Api(alice).put(f"{V2}/ports/{port.id}", {"port": {"security_groups": [str(group.id)]}})
    assert fault(answer) == (404, "SecurityGroupNotFound")
    assert [str(row.id) for row in port.security_groups.all()] == before


def test_a_subnet_that_a_router_joins(alice: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    network = services.create_network(alice.project_id, "inner")
    subnet = services.create_subnet(network, "10.44.0.0/24", enable_dhcp=False)
    router = services.create_router(alice.project_id, name="r")
    deleted_before(monkeypatch, "add_interface_by_subnet", Subnet, str(subnet.id))
    answer = Api(alice).put(f"{V2}/routers/{router.id}/add_router_interface", {"subnet_id": str(subnet.id)})
    assert fault(answer) == (404, "SubnetNotFound")
    assert not network.ports.exists()


def test_a_network_that_a_subnet_is_made_on(alice: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    network = services.create_network(alice.project_id, "inner")
    pool = services.create_subnet_pool(alice.project_id, "pool", ["10.45.0.0/16"])
    of_pool = {"network_id": str(network.id), "ip_version": 4, "subnetpool_id": str(pool.id)}
    deleted_before(monkeypatch, "create_subnet", SubnetPool, str(pool.id))
    assert fault(Api(alice).post(f"{V2}/subnets", {"subnet": of_pool})) == (404, "SubnetPoolNotFound")
    deleted_before(monkeypatch, "create_subnet", Network, str(network.id))
    body = {"network_id": str(network.id), "ip_version": 4, "cidr": "10.44.0.0/24"}
    assert fault(Api(alice).post(f"{V2}/subnets", {"subnet": body})) == (404, "NetworkNotFound")
    assert not Subnet.objects.exists()


def test_a_network_that_a_router_joins(alice: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    network = services.create_network(alice.project_id, "inner")
    subnet = services.create_subnet(network, "10.44.0.0/24", enable_dhcp=False)
    router = services.create_router(alice.project_id, name="r")
    real = services.add_interface_by_subnet

    def late(*args: Any, **kwargs: Any) -> Any:
        services.delete_network(network)
        return real(*args, **kwargs)

    monkeypatch.setattr(services, "add_interface_by_subnet", late)
    answer = Api(alice).put(f"{V2}/routers/{router.id}/add_router_interface", {"subnet_id": str(subnet.id)})
    assert fault(answer) == (404, "SubnetNotFound")


def test_what_is_read_once_more_is_as_it_is_then(alice: Person, net: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    port = services.create_port(alice.project_id, net)
    real = ResourceView.shapes

    def late(self: ResourceView, rows: Any, *args: Any) -> Any:
        if Port.objects.filter(id=port.id).exists():
            services.delete_port(port)
            services.delete_network(net)
            raise Network.DoesNotExist
        return real(self, rows, *args)

    monkeypatch.setattr(ResourceView, "shapes", late)
    assert Api(alice).get(f"{V2}/ports").json() == {"ports": []}


def test_what_is_not_there_twice_is_an_error_of_ours(alice: Person, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def lost(self: ResourceView, *args: Any) -> Any:
        seen.append(args)
        raise Network.DoesNotExist

    monkeypatch.setattr(ResourceView, "shapes", lost)
    assert Api(alice).get(f"{V2}/ports").status_code == 500
    assert len(seen) == 1 + MOST_RETRIES


Use = Callable[[Person, Network], Any]
USES: dict[str, tuple[Use, Use]] = {
    "a port on a network": (
        lambda alice, net: services.create_port(alice.project_id, net),
        lambda alice, net: services.delete_network(net),
    ),
    "a port on a subnet": (
        lambda alice, net: services.create_port(
            alice.project_id, net, fixed_ips=[{"subnet_id": Subnet.objects.get(network=net).id}]
        ),
        lambda alice, net: services.delete_subnet(Subnet(pk=Subnet.objects.get(network=net).pk)),
    ),
    "a pool in a scope": (
        lambda alice, net: services.create_subnet_pool(
            alice.project_id, "pool", ["10.45.0.0/16"], address_scope=AddressScope(pk=SCOPE, ip_version=4)
        ),
        lambda alice, net: services.delete_address_scope(AddressScope.objects.get(pk=SCOPE)),
    ),
    "a port in a group": (
        lambda alice, net: PortGroup.objects.create(port=Port.objects.get(device_owner=""), securitygroup_id=GROUP),
        lambda alice, net: services.delete_security_group(SecurityGroup.objects.get(pk=GROUP)),
    ),
    "a router's way on a subnet": (
        lambda alice, net: services.add_interface_by_subnet(Router.objects.get(), Subnet.objects.get(network=net)),
        lambda alice, net: services.delete_router(Router.objects.get()),
    ),
}


@pytest.mark.parametrize("use", USES)
def test_what_is_being_deleted_is_not_begun_to_be_used(
    alice: Person, net: Network, use: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the look for uses and the end of a record nothing comes: of the two, one is refused.

    Nearly always it is the use, which waits.  Where both wait for each other the database breaks off one of them: a
    deletion that is begun again finds the use.
    """
    begin, delete = USES[use]
    SecurityGroup.objects.create(pk=GROUP, project_id=alice.project_id, name="web")
    AddressScope.objects.create(pk=SCOPE, project_id=alice.project_id, name="scope", ip_version=4)
    if "router" in use:
        services.create_router(alice.project_id, name="r")
    if "group" in use:
        services.create_port(alice.project_id, net)
    refused: list[Exception] = []
    threads: list[threading.Thread] = []

    def late() -> None:
        try:
            begin(alice, net)
        except (NovellaError, IntegrityError, ObjectDoesNotExist) as error:
            refused.append(error)
        finally:
            connection.close()

    real = records.release

    def release(row: Any) -> None:
        if not threads:
            threads.append(threading.Thread(target=late))
            threads[0].start()
            threads[0].join(0.5)  # it waits in the database
        real(row)

    monkeypatch.setattr(records, "release", release)
    try:
        delete(alice, net)
    except ConflictError as in_use:
        refused.append(in_use)
    threads[0].join(300)
    [error] = refused
    assert isinstance(error, NovellaError | ObjectDoesNotExist) or lost_race(error, "POST")


def test_who_was_not_let_in_begins_nothing_anew(alice: Person, net: Network, monkeypatch: pytest.MonkeyPatch) -> None:
    def lost(*args: object) -> None:
        cause = sqlite3.IntegrityError("FOREIGN KEY constraint failed")
        cause.sqlite_errorcode = sqlite3.SQLITE_CONSTRAINT_FOREIGNKEY
        raise IntegrityError from cause

    monkeypatch.setattr(ServiceView, "check_rule", lost)
    answer = Api(alice).delete(f"{V2}/networks/{net.id}")
    assert answer.status_code == 500
    assert Network.objects.filter(id=net.id).exists()
