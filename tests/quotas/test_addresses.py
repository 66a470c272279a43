"""Addresses count in the quota one by one, on whatever way they come, and are given back on whatever way they go."""

from __future__ import annotations

import importlib
import uuid

import pytest
from django.apps import apps

from compute_agent.contract.commands import BuildRequest, DestroyRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, OverQuotaError
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.interfaces import add_fixed_ip, attach_interface, detach_interface, remove_fixed_ip
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.launch.retry import retry
from provisioning.compute.models import Instance
from provisioning.hosts.models import Host
from provisioning.network import services as network
from provisioning.network.models import Network, Port
from provisioning.network.services.ports.interfaces import MAX_ADDRESSES
from provisioning.quotas.models import QuotaUsage, Reservation
from provisioning.quotas.selectors import Detail, detail_of
from provisioning.quotas.services.limits import set_limit
from provisioning.quotas.services.repair import examine, repair
from tests.support.clouds import Cloud, context, state_of
from tests.support.jobs import drain
from tests.support.ports import guest_addresses, guest_ports
from tests.support.scripted_agent import ScriptedAgent
from tests.support.standing import derived, standing

pytestmark = pytest.mark.django_db
PROJECT = context("alice").project_id or uuid.UUID(int=0)


@pytest.fixture
@standing
def cloud(db: None) -> Cloud:
    return Cloud.make()


@pytest.fixture
@derived
def alice() -> RequestContext:
    return context("alice")


@pytest.fixture
@standing
def kelvin(cloud: Cloud) -> ScriptedAgent:
    return cloud.add_host("kelvin")


@pytest.fixture
@standing
def running(cloud: Cloud, alice: RequestContext, kelvin: ScriptedAgent) -> Instance:
    return cloud.running(alice)


def held() -> tuple[int, int]:
    """The addresses that count, in use and reserved; the records say the same."""
    assert [str(result) for result in examine()] == []
    result = detail_of(PROJECT)["fixed_ips"]
    return result.in_use, result.reserved


def add(instance: Instance, net: Network, count: int = 1) -> None:
    for _ in range(count):
        add_fixed_ip(context("alice"), instance.id, str(net.id))


def remove(instance: Instance) -> None:
    """Take the first of a server's addresses."""
    first = guest_addresses().filter(port__device_id=instance.id).order_by("id")[0]
    remove_fixed_ip(context("alice"), instance.id, first.address)


# ----- up to the limit ------------------------------------------------------------------------------------------------


def test_a_project_gets_fifty(alice: RequestContext, cloud: Cloud) -> None:
    assert detail_of(PROJECT)["fixed_ips"] == Detail(50, 0, 0)


def test_additional_addresses_of_a_server_end_at_the_limit(cloud: Cloud, running: Instance) -> None:
    set_limit(PROJECT, "fixed_ips", 3)
    add(running, cloud.network, 2)
    with pytest.raises(
        OverQuotaError, match="Quota exceeded for fixed_ips: Requested 1, but already used 3 of 3"
    ) as no:
        add(running, cloud.network)
    assert (no.value.resource, no.value.limit, no.value.used, no.value.requested) == ("fixed_ips", 3, 3, 1)
    assert (guest_addresses().count(), held()) == (3, (3, 0))


@pytest.mark.slow
def test_a_full_interface_is_named_before_a_full_quota(cloud: Cloud, running: Instance) -> None:
    add(running, cloud.network, MAX_ADDRESSES - 1)
    set_limit(PROJECT, "fixed_ips", MAX_ADDRESSES)
    with pytest.raises(InvalidInputError, match="Exceeded maximum amount of fixed IPs per port"):
        add(running, cloud.network)
    assert held() == (MAX_ADDRESSES, 0)


def test_a_port_and_an_interface_end_at_the_limit(cloud: Cloud, alice: RequestContext, running: Instance) -> None:
    add(running, cloud.network)
    set_limit(PROJECT, "fixed_ips", 2)
    with pytest.raises(OverQuotaError, match="fixed_ips"):
        network.create_port(PROJECT, cloud.network)
    with pytest.raises(OverQuotaError, match="fixed_ips"):
        attach_interface(alice, running.id, NetworkRequest())
    with pytest.raises(OverQuotaError, match="fixed_ips"):
        cloud.launch(alice)
    assert (guest_ports().count(), guest_addresses().count(), held()) == (1, 2, (2, 0))


def test_what_cannot_be_had_takes_nothing(cloud: Cloud, running: Instance) -> None:
    small = network.create_network(PROJECT, "small")
    network.create_subnet(small, "10.50.0.0/28", allocation_pools=[{"start": "10.50.0.3", "end": "10.50.0.4"}])
    attach_interface(context("alice"), running.id, NetworkRequest(network_id=str(small.id)))
    with pytest.raises(InvalidInputError, match="No more IP addresses"):
        add(running, small)
    assert held() == (2, 0)


# ----- and back -------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_each_address_is_given_back(cloud: Cloud, running: Instance) -> None:
    add(running, cloud.network, 2)
    for left in (2, 1, 0):
        remove(running)
        assert held() == (left, 0)
    assert detail_of(PROJECT)["ports"].in_use == 1
    add(running, cloud.network)
    assert held() == (1, 0)


@pytest.mark.slow
def test_an_interface_gives_all_its_addresses_back(cloud: Cloud, alice: RequestContext, running: Instance) -> None:
    first = guest_ports().get()
    second = attach_interface(alice, running.id, NetworkRequest())
    cloud.run()
    add(running, cloud.network, 3)
    assert held() == (5, 0)
    detach_interface(alice, running.id, str(first.id))
    assert held() == (5, 0), "until it is out of the guest"
    cloud.run()
    assert held() == (1, 0)
    remove(running)
    assert held() == (0, 0)
    detach_interface(alice, running.id, str(second))
    cloud.run()
    assert (held(), detail_of(PROJECT)["ports"].in_use) == ((0, 0), 0)
    attach_interface(alice, running.id, NetworkRequest())
    assert held() == (1, 0)


def test_an_interface_that_does_not_fit_gives_its_address_back(
    cloud: Cloud, alice: RequestContext, running: Instance, kelvin: ScriptedAgent
) -> None:
    attach_interface(alice, running.id, NetworkRequest())
    assert held() == (2, 0)
    (order,) = kelvin.take()
    kelvin.report(order, "failed", error_code="host_failed", message="It does not fit.", retryable=False)
    assert held() == (1, 0)


@pytest.mark.slow
def test_addresses_of_a_port_of_its_own_are_the_ports(cloud: Cloud, alice: RequestContext, running: Instance) -> None:
    own = network.create_network(PROJECT, "own")
    network.create_subnet(own, "10.51.0.0/24")
    port = network.create_port(PROJECT, own)
    attach_interface(alice, running.id, NetworkRequest(port_id=str(port.id)))
    cloud.run()
    add(running, own, 2)
    assert held() == (4, 0)
    assert Reservation.objects.get(owner_id=port.id, resource="fixed_ips").amount == 3
    delete(alice, running.id)
    cloud.run()
    assert (held(), guest_ports().get().id) == ((3, 0), port.id)


def test_a_server_whose_host_is_away_keeps_its_addresses(
    cloud: Cloud, alice: RequestContext, running: Instance, kelvin: ScriptedAgent
) -> None:
    add(running, cloud.network, 2)
    Host.objects.update(forced_down=True)
    delete(alice, running.id)
    assert state_of(running)[0] == "deleted"
    assert (detail_of(PROJECT)["instances"].in_use, held()) == (0, (3, 0)), "a guest may still use them"
    Host.objects.update(forced_down=False)
    kelvin.hello()
    cloud.run()
    assert (guest_addresses().count(), held()) == (0, (0, 0))


# ----- while a server is made -----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_launch_reserves_its_addresses(cloud: Cloud, alice: RequestContext) -> None:
    server = cloud.launch(alice)
    assert held() == (0, 1)
    cloud.add_host("kelvin")
    drain()
    assert (guest_addresses().count(), held()) == (1, (0, 1))
    cloud.run()
    assert held() == (1, 0)
    delete(alice, server.id)
    cloud.run()
    assert held() == (0, 0)


def build(cloud: Cloud, alice: RequestContext, **wanted: object) -> Instance:
    """Launch a server and hand it to a host, which has not begun."""
    server = cloud.launch(alice, **wanted)
    drain()
    assert state_of(server) == ("building", "spawning")
    return server


def change(server: Instance, net: Network, more: int) -> None:
    for _ in range(abs(more)):
        add(server, net) if more > 0 else remove(server)


@pytest.mark.slow
@pytest.mark.usefixtures("kelvin")
@pytest.mark.parametrize("more", [2, -1])
def test_addresses_change_while_it_is_built(cloud: Cloud, alice: RequestContext, more: int) -> None:
    server = build(cloud, alice)
    change(server, cloud.network, more)
    assert held() == (0, 1 + more)
    cloud.run()
    assert state_of(server) == ("active", None)
    assert (guest_addresses().count(), held()) == (1 + more, (1 + more, 0))
    delete(alice, server.id)
    cloud.run()
    assert held() == (0, 0)


@pytest.mark.slow
@pytest.mark.usefixtures("kelvin")
@pytest.mark.parametrize("more", [2, -1])
def test_built_anew_elsewhere_it_holds_what_it_asked_for(cloud: Cloud, alice: RequestContext, more: int) -> None:
    """Its ports are new ones then, each with one address."""
    cloud.add_host("ohm")
    server = build(cloud, alice)
    first = cloud.agent_of(server)
    change(server, cloud.network, more)
    row = cloud.fresh(server)
    retry(row, row.host_id or uuid.uuid4(), "It is silent.", clean=False)
    assert held() == (0, 1 + more), "its host may have a guest that uses them"
    order = first.take()[-1]
    assert isinstance(order.body, DestroyRequest)
    first.carry_out(order)
    assert (guest_addresses().count(), held()) == (0, (0, 1))
    drain()
    assert (guest_addresses().count(), held()) == (1, (0, 1))
    cloud.run()
    assert state_of(server) == ("active", None)
    assert (guest_addresses().count(), held()) == (1, (1, 0))


@pytest.mark.slow
@pytest.mark.usefixtures("kelvin")
def test_tried_again_it_keeps_what_was_added(cloud: Cloud, alice: RequestContext) -> None:
    """A host that has undone everything leaves the ports as they are."""
    cloud.add_host("ohm")
    server = build(cloud, alice)
    first = cloud.agent_of(server)
    add(server, cloud.network)
    (order,) = (each for each in first.take() if isinstance(each.body, BuildRequest))
    first.fail(order, "No room.", retryable=True)
    cloud.run()
    assert state_of(server) == ("active", None)
    assert (guest_addresses().count(), held()) == (2, (2, 0))


@pytest.mark.slow
@pytest.mark.usefixtures("kelvin")
def test_tried_again_without_an_address_it_stays_without(cloud: Cloud, alice: RequestContext) -> None:
    server = build(cloud, alice)
    remove(server)
    (order,) = (each for each in cloud.agents["kelvin"].take() if isinstance(each.body, BuildRequest))
    cloud.agents["kelvin"].fail(order, "No room.", retryable=True)
    drain()
    assert (guest_addresses().count(), held()) == (0, (0, 0))


@pytest.mark.usefixtures("kelvin")
def test_built_anew_at_a_full_quota_it_ends_in_error(cloud: Cloud, alice: RequestContext) -> None:
    """An address that was given back while it was built may be another's by then."""
    two = [NetworkRequest(network_id=str(cloud.network.id))] * 2
    server = build(cloud, alice, networks=two)
    remove(server)
    set_limit(PROJECT, "fixed_ips", 2)
    network.create_port(PROJECT, cloud.network)
    row = cloud.fresh(server)
    retry(row, row.host_id or uuid.uuid4(), "It is silent.", clean=False)
    cloud.run()
    assert state_of(server) == ("error", None)
    assert (guest_ports().count(), guest_addresses().count(), held()) == (1, 1, (1, 0))


# ----- a cloud that had addresses before they were counted ------------------------------------------------------------


def forget() -> None:
    """Let the records be those of a cloud that does not count addresses."""
    for model in (Reservation, QuotaUsage):
        model.objects.filter(resource="fixed_ips").delete()


@pytest.mark.slow
@pytest.mark.both_databases
def test_the_upgrade_counts_what_is_there(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    Port.objects.all().delete()  # DHCP had none in that time
    port = network.create_port(PROJECT, cloud.network)
    server = cloud.launch(alice)
    cloud.run()
    attach_interface(alice, server.id, NetworkRequest(port_id=str(port.id)))
    attach_interface(alice, server.id, NetworkRequest())
    cloud.run()
    add(server, cloud.network, 2)
    build(cloud, alice)
    cloud.launch(alice)
    before = list(
        Reservation.objects.filter(resource="fixed_ips").order_by("owner_id").values_list("owner_id", "amount")
    )
    assert held() == (5, 2)
    forget()
    migration = importlib.import_module("provisioning.quotas.migrations.0002_count_addresses")
    migration.count_addresses(apps, None)
    after = Reservation.objects.filter(resource="fixed_ips").order_by("owner_id").values_list("owner_id", "amount")
    assert (list(after), held()) == (before, (5, 2))
    migration.forget_addresses(apps, None)
    assert detail_of(PROJECT)["fixed_ips"] == (50, 0, 0)


def test_who_has_more_than_the_limit_keeps_it_and_gets_no_more(cloud: Cloud, running: Instance) -> None:
    add(running, cloud.network, 3)
    set_limit(PROJECT, "fixed_ips", 2)
    with pytest.raises(OverQuotaError, match="Requested 1, but already used 4 of 2"):
        add(running, cloud.network)
    remove(running)
    assert held() == (3, 0)


def test_addresses_that_were_not_counted_are_reported_and_counted(cloud: Cloud, running: Instance) -> None:
    add(running, cloud.network)
    forget()
    assert [result.kind for result in examine()] == ["missing"]
    add(running, cloud.network)
    assert held() == (3, 0), "the next one counts those before it"
    forget()
    remove(running)
    assert [result.right for result in repair()] == [(2, 0)]
    assert held() == (2, 0)
