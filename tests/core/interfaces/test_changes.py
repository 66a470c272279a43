"""Security groups, addresses and ports that change while their guest runs."""

from __future__ import annotations

import uuid
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone
from netaddr import EUI, IPAddress

from compute_agent.contract.build import PortRef
from compute_agent.contract.commands import (
    RefreshPortsRequest,
)
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, InvalidInputError, NotFoundError
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.interfaces import add_fixed_ip, attach_interface, detach_interface, remove_fixed_ip
from provisioning.compute.actions.security_groups import add_security_group, remove_security_group
from provisioning.compute.host_link.guest_spec import guest_spec
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.models import Instance, InstanceFault
from provisioning.hosts.models import HostCommand
from provisioning.network import services as network
from provisioning.network.errors import PortInUseError
from provisioning.network.models import Network, Port, SecurityGroup
from provisioning.quotas.services.ledger import hold
from tests.core.interfaces.orders import detach, fail, interfaces
from tests.support.clouds import Cloud, context, state_of
from tests.support.ports import guest_addresses
from tests.support.scripted_agent import ScriptedAgent

pytestmark = pytest.mark.django_db


def group(name: str) -> SecurityGroup:
    made = SecurityGroup.objects.create(project_id=context("alice").project_id, name=name)
    hold(made.project_id, made.id, {"security_groups": 1})
    network.allow_ingress(made, "tcp", 80)
    return made


@pytest.mark.slow
def test_a_group_reaches_the_running_guest(cloud: Cloud, running: Instance, agent: ScriptedAgent) -> None:
    web, alice = group("web"), context("alice")
    add_security_group(alice, running.id, "web")
    add_security_group(alice, running.id, str(web.id))
    fresh = cloud.fresh(running)
    assert fresh.security_groups[1:] == [str(web.id)]
    last = agent.take()[-1]
    assert isinstance(last.body, RefreshPortsRequest)
    (interface,) = last.body.instance.ports
    assert str(web.id) in interface.security_group_ids
    agent.carry_out(last)
    remove_security_group(alice, running.id, "web")
    (order,) = agent.take()
    assert isinstance(order.body, RefreshPortsRequest)
    assert str(web.id) not in order.body.instance.ports[0].security_group_ids
    assert str(web.id) not in cloud.fresh(running).security_groups
    with pytest.raises(NotFoundError, match="not associated with the instance"):
        remove_security_group(alice, running.id, "web")
    fail(agent, order)
    assert InstanceFault.objects.get(instance=running).details == "refresh_ports: host_failed"
    assert state_of(running) == ("active", None)


@pytest.mark.slow
def test_changes_while_the_host_brings_filters_up_to_date_make_one_command_more(
    cloud: Cloud, running: Instance, agent: ScriptedAgent
) -> None:
    extra = group("extra")
    add_security_group(context("alice"), running.id, "extra")
    (first,) = agent.take()
    for _ in range(5):
        remove_security_group(context("alice"), running.id, "extra")
        add_security_group(context("alice"), running.id, "extra")
    remove_security_group(context("alice"), running.id, "extra")
    assert agent.take() == []
    agent.carry_out(first)
    (second,) = agent.take()
    assert isinstance(second.body, RefreshPortsRequest)
    assert second.body.instance.ports == guest_spec(Cloud.fresh(running)).ports
    assert str(extra.id) not in second.body.instance.ports[0].security_group_ids
    agent.carry_out(second)
    assert agent.take() == []
    assert not HostCommand.objects.filter(finished_at=None).exists()


@pytest.mark.both_databases("constraints")
def test_filters_are_not_held_up_by_a_command_whose_end_was_lost(
    cloud: Cloud, running: Instance, agent: ScriptedAgent
) -> None:
    group("extra")
    add_security_group(context("alice"), running.id, "extra")
    agent.take()
    HostCommand.objects.filter(finished_at=None).update(acknowledged_at=timezone.now() - timedelta(minutes=11))
    remove_security_group(context("alice"), running.id, "extra")
    assert len(agent.take()) == 1


@pytest.mark.slow
def test_groups_that_cannot_be_meant(cloud: Cloud, running: Instance, charlie: RequestContext) -> None:
    group("twin"), group("twin")
    foreign = SecurityGroup.objects.create(project_id=charlie.project_id, name="foreign")
    for requested in ("nowhere", str(foreign.id), "foreign"):
        with pytest.raises(NotFoundError, match=f"Security group {requested} is not found for project"):
            add_security_group(context("alice"), running.id, requested)
    with pytest.raises(ConflictError, match="Multiple security groups found matching 'twin'"):
        add_security_group(context("alice"), running.id, "twin")
    detach(running, interfaces(running)[0])
    cloud.run()
    SecurityGroup.objects.filter(name="foreign").delete()
    with pytest.raises(NotFoundError, match="could not be found as device id on any ports"):
        add_security_group(context("alice"), running.id, "default")


@pytest.mark.slow
def test_a_group_of_a_server_that_is_not_built_yet_needs_no_order(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    group("web")
    instance = cloud.launch(alice)
    with pytest.raises(NotFoundError):
        add_security_group(context("alice"), instance.id, "web")
    assert agent.take() == []
    cloud.run()
    assert state_of(instance) == ("active", None)


def test_a_second_address_and_back(cloud: Cloud, running: Instance, agent: ScriptedAgent) -> None:
    alice, other = context("alice"), Network.objects.create(project_id=running.project_id, name="other", bridge="br-o")
    hold(other.project_id, other.id, {"networks": 1})
    add_fixed_ip(alice, running.id, str(cloud.network.id))
    (order,) = agent.take()
    assert isinstance(order.body, RefreshPortsRequest)
    (interface,) = order.body.instance.ports
    assert len({fixed.address for fixed in interface.fixed_ips}) == 2
    with pytest.raises(NotFoundError, match="Network could not be found for instance"):
        add_fixed_ip(alice, running.id, str(other.id))
    with pytest.raises(NotFoundError, match=r"does not have fixed IP '10\.20\.0\.99'"):
        remove_fixed_ip(alice, running.id, "10.20.0.99")
    remove_fixed_ip(alice, running.id, interface.fixed_ips[0].address)
    assert [fixed.address for fixed in guest_addresses().all()] == [interface.fixed_ips[1].address]
    cloud.run()


@pytest.mark.parametrize(
    ("changes", "seen"),
    [
        ({"admin_state_up": False}, lambda port: not port.enabled),
        ({"allowed_address_pairs": [{"ip_address": "10.20.0.200"}]}, lambda port: port.allowed_address_pairs),
        ({"extra_dhcp_opts": [{"opt_name": "mtu", "opt_value": "1400"}]}, lambda port: port.extra_dhcp_opts),
    ],
)
def test_a_changed_port_of_a_running_guest_reaches_its_host(
    cloud: Cloud, running: Instance, changes: dict[str, object], seen: Callable[[PortRef], object]
) -> None:
    port = Port.objects.get(device_id=running.id)
    network.update_port(port, changes)
    command = HostCommand.objects.filter(kind="refresh_ports_request").get()
    assert command.subject_id == running.id
    [sent] = guest_spec(running).ports
    assert seen(sent)


def test_the_same_change_again_tells_the_host_nothing(cloud: Cloud, running: Instance) -> None:
    port = Port.objects.get(device_id=running.id)
    network.update_port(port, {"admin_state_up": True})
    assert not HostCommand.objects.filter(kind="refresh_ports_request").exists()


def test_port_security_groups_and_addresses_of_a_running_guest_reach_its_host(cloud: Cloud, running: Instance) -> None:
    port = Port.objects.get(device_id=running.id)
    network.update_port(port, {"port_security_enabled": False}, groups=[])
    network.update_port(port, {}, fixed_ips=[{"ip_address": "10.20.0.77"}])
    assert HostCommand.objects.filter(kind="refresh_ports_request").exists()
    [sent] = guest_spec(running).ports
    assert (sent.port_security, sent.security_group_ids) == (False, [])
    assert [each.address for each in sent.fixed_ips] == ["10.20.0.77"]
    with pytest.raises(PortInUseError):
        network.update_port(port, {"device_text": ""})
    with pytest.raises(PortInUseError):
        network.delete_port(port)


def addresses(instance: Instance) -> list[str]:
    return [each.address for port in guest_spec(instance).ports for each in port.fixed_ips]


def test_a_subnet_whose_addresses_guests_make_themselves_comes_and_goes_while_they_run(
    cloud: Cloud, running: Instance
) -> None:
    before = addresses(running)
    subnet = network.create_subnet(cloud.network, "fd00:77::/64", ipv6_ra_mode="slaac", ipv6_address_mode="slaac")
    port = Port.objects.get(device_id=running.id)
    own = str(EUI(port.mac_address).ipv6(int(IPAddress("fd00:77::"))))
    assert addresses(running) == [*before, own]
    assert HostCommand.objects.filter(kind="refresh_ports_request", subject_id=running.id).exists()
    cloud.run()
    HostCommand.objects.all().delete()
    network.delete_subnet(subnet)
    assert addresses(running) == before
    assert HostCommand.objects.filter(kind="refresh_ports_request", subject_id=running.id).exists()
    assert port.revision_number + 1 == Port.objects.get(pk=port.pk).revision_number


@pytest.mark.slow
def test_a_port_made_before_outlives_its_server(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    assert alice.project_id
    port = network.create_port(alice.project_id, cloud.network, fixed_ips=[{"ip_address": "10.20.0.88"}])
    instance = cloud.launch(alice, networks=[NetworkRequest(port_id=str(port.id))])
    cloud.run()
    assert [each.id for each in guest_spec(instance).ports] == [str(port.id)]
    delete(alice, instance.id)
    cloud.run()
    port.refresh_from_db()
    assert (port.device_id, port.device_owner, port.host, port.status) == (None, "", "", "DOWN")
    network.delete_port(port)
    assert not Port.objects.filter(pk=port.pk).exists()


@pytest.mark.slow
def test_a_port_made_before_is_plugged_in_and_out_with_all_it_has(
    cloud: Cloud, alice: RequestContext, running: Instance
) -> None:
    assert alice.project_id
    requested = [{"ip_address": "10.20.0.88"}, {"ip_address": "10.20.0.89"}]
    port = network.create_port(alice.project_id, cloud.network, fixed_ips=requested, mac_address="02:00:00:00:00:88")
    attach_interface(alice, running.id, NetworkRequest(port_id=str(port.id)))
    cloud.run()
    port_spec = guest_spec(running).ports[-1]
    assert (port_spec.id, port_spec.mac_address) == (str(port.id), "02:00:00:00:00:88")
    assert {each.address for each in port_spec.fixed_ips} == {"10.20.0.88", "10.20.0.89"}
    detach_interface(alice, running.id, str(port.id))
    cloud.run()
    port.refresh_from_db()
    assert (port.device_id, port.fixed_ips.count(), port.status) == (None, 2, "DOWN")


def test_a_port_of_a_device_elsewhere_is_not_plugged_in(cloud: Cloud, alice: RequestContext, running: Instance) -> None:
    assert alice.project_id
    port = network.create_port(alice.project_id, cloud.network, device_text="a box")
    with pytest.raises(InvalidInputError):
        attach_interface(alice, running.id, NetworkRequest(port_id=str(port.id)))


def test_a_guest_is_put_into_a_group_that_is_shared_with_its_project(
    cloud: Cloud, alice: RequestContext, operator: RequestContext
) -> None:
    assert alice.project_id
    assert operator.project_id
    cloud.add_host("kelvin")
    group = network.create_security_group(operator.project_id, "shared")
    with pytest.raises(InvalidInputError):
        network.allocate(uuid.uuid4(), alice.project_id, [], [str(group.id)], "kelvin", "nova")
    target = alice.project_id.hex
    network.create_rbac_policy(operator.project_id, "security_group", group, "access_as_shared", target)
    requested = [{"network_id": str(cloud.network.id), "port_id": None, "fixed_ip": None}]
    guest = uuid.uuid4()
    [port] = network.allocate(guest, alice.project_id, requested, [str(group.id)], "kelvin", "nova")
    assert list(port.security_groups.all()) == [group]
    network.release(guest)
