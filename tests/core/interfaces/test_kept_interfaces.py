"""Interfaces that guests have by records which are lost, and those that only the records have."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.db.models import F
from msgspec.structs import replace

from compute_agent.contract.commands import RefreshPortsRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, ForbiddenError
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.interfaces import add_fixed_ip
from provisioning.compute.models import Instance, InterfaceDifference
from provisioning.compute.upkeep import kept_interfaces
from provisioning.hosts import restored
from provisioning.hosts.models import Host, HostCommand, Restore
from provisioning.network import services as network
from provisioning.network.models import FixedIP, Port
from provisioning.network.services.addressing import ipam
from tests.core.doctor.findings import look
from tests.core.interfaces.orders import attach, detach, interfaces, ports_held, ports_of_guest
from tests.support.clouds import Cloud, context
from tests.support.copies import Copy
from tests.support.landing import one_in
from tests.support.scripted_agent import ScriptedAgent
from tests.support.standing import standing

pytestmark = pytest.mark.django_db
PAIRS = [{"ip_address": "10.9.9.9"}]
KEY, MAC = "00000000-0000-4000-8000-000000000077", "fa:16:3e:00:00:77"
NAMED = pytest.mark.doctor_finds("guest_interfaces")


@pytest.fixture(autouse=True)
def _nobody_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(restored, "_is_anybody_working", lambda: False)


@pytest.fixture
@standing
def agent(cloud: Cloud, alice: RequestContext) -> ScriptedAgent:
    agent = cloud.add_host("kelvin")
    agent.specs = {}
    return agent


@pytest.fixture
@standing
def running(cloud: Cloud, agent: ScriptedAgent, alice: RequestContext) -> Instance:
    instance = cloud.launch(alice)
    cloud.run()
    return instance


def attached(cloud: Cloud, row: Instance, **wanted: str) -> str:
    port = attach(Cloud.fresh(row), **(wanted or {"network_id": str(cloud.network.id)}))
    cloud.run()
    return port


def detached(cloud: Cloud, row: Instance, port: str) -> None:
    detach(Cloud.fresh(row), port)
    cloud.run()


def back(copy: Copy, agent: ScriptedAgent, cloud: Cloud, *, command: bool = True) -> None:
    """Put the copy back, and let the host say what it has."""
    copy.put_back()
    if command:
        restored.after_restore()
    agent.hello()
    cloud.run()


def project(person: str = "alice") -> uuid.UUID:
    result = context(person).project_id
    assert result is not None
    return result


def lies(agent: ScriptedAgent, row: Instance, mac: str = MAC, address: str = "", network: object = None) -> None:
    """Let the host report an interface that no records ever gave."""
    assert agent.specs is not None
    spec = agent.specs[str(row.id)]
    (port,) = spec.ports
    ref = replace(port.network, id=str(network)) if network else port.network
    addresses = [replace(port.fixed_ips[0], address=address)] if address else []
    more = replace(port, id=KEY, mac_address=mac, network=ref, fixed_ips=addresses)
    agent.specs[str(row.id)] = replace(spec, ports=[port, more])
    agent.macs[str(row.id)].append(mac)


def differences() -> list[tuple[str, str]]:
    return [(row.kind, str(row.port_id)) for row in InterfaceDifference.objects.order_by("id")]


def has(agent: ScriptedAgent, row: Instance) -> list[str]:
    """The interfaces of the guest, by their ports."""
    assert agent.specs is not None
    ids = {port.mac_address: port.id for port in agent.specs[str(row.id)].ports}
    return [ids[mac] for mac in agent.macs[str(row.id)]]


@pytest.mark.both_databases("constraints")
def test_a_server_gets_an_interface_back_that_was_attached_since_the_copy(
    cloud: Cloud, running: Instance, agent: ScriptedAgent, operator: RequestContext
) -> None:
    copy = Copy()
    key = attached(cloud, running)
    lost = Port.objects.get(id=key)
    addresses = list(lost.fixed_ips.values_list("address", flat=True))
    back(copy, agent, cloud)
    port = Port.objects.get(id=key)
    assert (port.mac_address, port.status, port.host) == (lost.mac_address, "ACTIVE", "kelvin")
    assert list(port.fixed_ips.values_list("address", flat=True)) == addresses
    assert [group.name for group in port.security_groups.all()] == ["default"]
    assert ports_of_guest(running) == interfaces(running) == has(agent, running)
    assert ports_held() == 2
    assert differences() == [("given_back", key)]
    (finding,) = look("guest_interfaces")
    assert str(running.id) in finding.sentence + finding.subject
    kept_interfaces.acknowledge(operator, InterfaceDifference.objects.get())
    detached(cloud, running, key)
    assert (has(agent, running), ports_held(), differences()) == (interfaces(running), 1, [])


@pytest.mark.slow
@NAMED
def test_groups_and_pairs_of_addresses_come_back_with_it(cloud: Cloud, running: Instance, agent: ScriptedAgent) -> None:
    group = network.create_security_group(project(), "web")
    copy = Copy()
    key = attached(cloud, running)
    network.update_port(Port.objects.get(id=key), {"allowed_address_pairs": PAIRS}, groups=[group])
    cloud.run()
    back(copy, agent, cloud)
    port = Port.objects.get(id=key)
    assert [pair["ip_address"] for pair in port.allowed_address_pairs] == ["10.9.9.9"]
    assert list(port.security_groups.all()) == [group]


@pytest.mark.slow
@NAMED
def test_a_port_of_the_records_is_attached_again(cloud: Cloud, running: Instance, agent: ScriptedAgent) -> None:
    made = network.create_port(project(), cloud.network)
    copy = Copy()
    attached(cloud, running, port_id=str(made.id))
    back(copy, agent, cloud)
    assert interfaces(running) == has(agent, running)
    assert not Port.objects.get(id=made.id).delete_with_device
    detached(cloud, running, str(made.id))
    assert Port.objects.get(id=made.id).device_id is None


@pytest.mark.slow
@NAMED
def test_a_port_that_was_given_to_another_server_is_that_ones(
    cloud: Cloud, running: Instance, agent: ScriptedAgent, alice: RequestContext
) -> None:
    other = cloud.launch(alice)
    cloud.run()
    made = network.create_port(project(), cloud.network)
    attached(cloud, running, port_id=str(made.id))
    copy = Copy()
    detached(cloud, running, str(made.id))
    attached(cloud, other, port_id=str(made.id))
    back(copy, agent, cloud)
    for _ in range(2):  # whichever guest was looked at first
        agent.hello()
        cloud.run()
    assert Port.objects.get(id=made.id).device_id == other.id
    assert [interfaces(row) for row in (running, other)] == [has(agent, row) for row in (running, other)]


@pytest.mark.slow
@one_in(2, "way", ["without the command", "address", "network", "known"])
def test_one_that_the_records_do_not_get_is_left_alone_and_named(
    cloud: Cloud, running: Instance, agent: ScriptedAgent, operator: RequestContext, way: str
) -> None:
    copy = Copy()
    key = attached(cloud, running)
    address = FixedIP.objects.get(port_id=key).address
    spec = agent.specs[str(running.id)] if agent.specs else None
    assert spec is not None
    copy.put_back()
    if way != "without the command":
        restored.after_restore()
    if way == "address":
        network.create_port(project(), cloud.network, fixed_ips=[{"ip_address": address}])
    if way == "network":
        strange = replace(spec.ports[-1], network=replace(spec.ports[-1].network, id=str(running.id)))
        agent.specs = {str(running.id): replace(spec, ports=[*spec.ports[:-1], strange])}
    if way == "known":
        now = attached(cloud, running)
        detached(cloud, running, now)
        agent.specs = {str(running.id): replace(spec, ports=[spec.ports[0], replace(spec.ports[1], id=now)])}
        key = now
    agent.hello()
    cloud.run()
    assert len(interfaces(running)) == 1
    assert key in has(agent, running), "nothing that is in use is cut off"
    assert differences() == [("extra", key)]
    assert any(key in finding.sentence for finding in look("guest_interfaces"))
    row = InterfaceDifference.objects.get()
    with pytest.raises(ForbiddenError):
        kept_interfaces.unplug(context("alice"), row)
    with pytest.raises(ConflictError):
        kept_interfaces.acknowledge(operator, row)
    if way in ("address", "network"):
        with pytest.raises(ConflictError):
            kept_interfaces.add_to_record(operator, row)
        kept_interfaces.unplug(operator, row)
    else:
        kept_interfaces.add_to_record(operator, row)
    cloud.run()
    agent.hello()
    assert interfaces(running) == has(agent, running)
    assert differences() == []


@pytest.mark.slow
@pytest.mark.both_databases
def test_an_interface_that_was_detached_since_the_copy_is_named_and_plugged_in_again(
    cloud: Cloud, running: Instance, agent: ScriptedAgent
) -> None:
    key = attached(cloud, running)
    copy = Copy()
    detached(cloud, running, key)
    back(copy, agent, cloud)
    assert differences() == [("missing", key)]
    (finding,) = look("guest_interfaces")
    assert finding.repair is not None
    assert finding.repair()
    cloud.run()
    agent.hello()
    assert (has(agent, running), differences()) == (interfaces(running), [])


@pytest.mark.slow
@NAMED
def test_an_address_that_was_added_since_the_copy_is_the_ports_again(
    cloud: Cloud, running: Instance, agent: ScriptedAgent
) -> None:
    copy = Copy()
    add_fixed_ip(context("alice"), running.id, str(cloud.network.id))
    cloud.run()
    (port,) = interfaces(running)
    addresses = set(FixedIP.objects.filter(port_id=port).values_list("address", flat=True))
    assert len(addresses) == 2
    back(copy, agent, cloud)
    assert set(FixedIP.objects.filter(port_id=port).values_list("address", flat=True)) == addresses
    assert differences() == [("given_back", port)]


@pytest.mark.slow
@NAMED
def test_an_address_that_another_has_got_since_is_taken_from_the_interface_and_named(
    cloud: Cloud, running: Instance, agent: ScriptedAgent
) -> None:
    copy = Copy()
    add_fixed_ip(context("alice"), running.id, str(cloud.network.id))
    cloud.run()
    (port,) = interfaces(running)
    lost = FixedIP.objects.filter(port_id=port).order_by("-id")[0].address
    copy.put_back()
    restored.after_restore()
    network.create_port(project(), cloud.network, fixed_ips=[{"ip_address": lost}])
    for _ in range(2):
        agent.hello()
        cloud.run()
    assert lost not in FixedIP.objects.filter(port_id=port).values_list("address", flat=True)
    assert agent.specs is not None
    assert lost not in [fixed.address for fixed in agent.specs[str(running.id)].ports[0].fixed_ips]
    (finding,) = look("guest_interfaces")
    assert f"Removed addresses, which are in use elsewhere or not available: {lost}." in finding.sentence


@pytest.mark.slow
def test_a_host_is_notified_again_of_what_the_interfaces_may_do(
    cloud: Cloud, running: Instance, agent: ScriptedAgent
) -> None:
    """Whatever was opened since the copy is closed as the records say."""
    copy = Copy()
    (key,) = interfaces(running)
    network.update_port(Port.objects.get(id=key), {"allowed_address_pairs": PAIRS})
    cloud.run()
    assert agent.specs is not None
    assert agent.specs[str(running.id)].ports[0].allowed_address_pairs
    back(copy, agent, cloud)
    assert agent.specs[str(running.id)].ports[0].allowed_address_pairs == []
    assert not Host.objects.filter(interfaces_outdated=True).exists()
    many = HostCommand.objects.filter(kind=str(RefreshPortsRequest.__struct_config__.tag)).count()
    agent.hello()
    assert HostCommand.objects.filter(kind=str(RefreshPortsRequest.__struct_config__.tag)).count() == many


@pytest.mark.slow
def test_an_audit_that_may_be_older_than_the_records_changes_nothing(
    cloud: Cloud, running: Instance, agent: ScriptedAgent
) -> None:
    restored.after_restore()
    key = attached(cloud, running)
    agent.macs[str(running.id)].pop()
    agent.measured()
    assert differences() == []
    Instance.objects.update(updated_at=F("updated_at") - timedelta(hours=1))
    Port.objects.update(updated_at=F("updated_at") - timedelta(hours=1))
    agent.measured()
    assert differences() == [("missing", key)]
    InterfaceDifference.objects.all().delete()


def test_nothing_is_compared_while_a_command_is_on_its_way(
    cloud: Cloud, running: Instance, agent: ScriptedAgent
) -> None:
    attach(Cloud.fresh(running), network_id=str(cloud.network.id))
    agent.hello()
    assert differences() == []


@pytest.mark.both_databases("constraints")
def test_the_address_of_a_guest_that_no_record_knows_is_not_given_to_another(
    cloud: Cloud, agent: ScriptedAgent, alice: RequestContext
) -> None:
    copy = Copy()
    lost = cloud.launch(alice)
    cloud.run()
    address = FixedIP.objects.get(port__device_id=lost.id).address
    copy.put_back()
    restored.after_restore()
    agent.hello()
    ipam.forget_released()
    made = network.create_port(project(), cloud.network)
    assert address not in made.fixed_ips.values_list("address", flat=True)


@NAMED
def test_a_host_gives_no_server_an_interface_on_another_projects_network(
    cloud: Cloud, running: Instance, agent: ScriptedAgent
) -> None:
    theirs = network.create_network(project("charlie"), "theirs")
    network.create_subnet(theirs, "10.77.0.0/24")
    restored.after_restore()
    lies(agent, running, network=theirs.id, address="10.77.0.9")
    agent.hello()
    assert differences() == [("extra", KEY)]
    assert not Port.objects.filter(network=theirs).exclude(device_owner__startswith="network:").exists()


@pytest.mark.parametrize("mac", ["01:00:5e:00:00:01", "fa:16:3e:00:00", "<b>fa:16:3e:0</b>", ""])
def test_what_is_no_mac_address_of_an_interface_is_ignored(
    cloud: Cloud, running: Instance, agent: ScriptedAgent, mac: str
) -> None:
    restored.after_restore()
    lies(agent, running, mac=mac)
    agent.hello()
    assert differences() == []
    assert len(interfaces(running)) == 1


@pytest.mark.slow
@NAMED
def test_what_a_host_says_long_after_a_restore_gives_no_server_an_interface(
    cloud: Cloud, running: Instance, agent: ScriptedAgent
) -> None:
    copy = Copy()
    key = attached(cloud, running)
    copy.put_back()
    restored.after_restore()
    Restore.objects.update(at=F("at") - timedelta(days=2))
    agent.hello()
    assert differences() == [("extra", key)]


def test_a_difference_ends_with_its_server(cloud: Cloud, running: Instance, agent: ScriptedAgent) -> None:
    agent.macs[str(running.id)].append("fa:16:3e:00:00:99")
    agent.hello()
    assert differences() == [("extra", "None")]
    delete(context("alice"), running.id)
    cloud.run()
    assert look("guest_interfaces") == []
    agent.measured()
    assert differences() == []
