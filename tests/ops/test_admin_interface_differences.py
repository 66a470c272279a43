"""The Django admin's page of interfaces in which guests and records differ."""

from __future__ import annotations

import pytest
from django.test import Client
from msgspec.structs import replace

from provisioning.compute.models import Instance, InterfaceDifference
from provisioning.network.models import Port
from tests.ops.test_admin import act
from tests.support.cast import Person
from tests.support.clouds import Cloud
from tests.support.scripted_agent import ScriptedAgent
from tests.support.standing import standing

PAGE = "/admin/compute/interfacedifference/"
MAC = "fa:16:3e:00:00:77"
KEY = "00000000-0000-4000-8000-000000000077"


@pytest.fixture
@standing
def agent(cloud: Cloud) -> ScriptedAgent:
    (agent,) = cloud.agents.values()
    agent.specs = {}
    return agent


@pytest.fixture
@standing
def server(alice: Person, cloud: Cloud, agent: ScriptedAgent) -> Instance:
    server = cloud.launch(alice.context)
    cloud.run()
    return server


@pytest.fixture
@standing
def extra(agent: ScriptedAgent, server: Instance) -> InterfaceDifference:
    """The guest has an interface that no record knows."""
    assert agent.specs is not None
    spec = agent.specs[str(server.id)]
    second = replace(spec.ports[0], id=KEY, mac_address=MAC, fixed_ips=[])
    agent.specs[str(server.id)] = replace(spec, ports=[*spec.ports, second])
    agent.macs[str(server.id)].append(MAC)
    agent.hello()
    return InterfaceDifference.objects.get()


@pytest.mark.slow
def test_the_server_gets_the_interface_of_its_guest(
    admin: Client, server: Instance, extra: InterfaceDifference
) -> None:
    act(admin, PAGE, "acknowledge", [extra])
    act(admin, PAGE, "plug_in", [extra])
    assert not Port.objects.filter(id=KEY).exists()
    act(admin, PAGE, "add_to_record", [extra])
    assert Port.objects.get(id=KEY).device_id == server.id
    assert not InterfaceDifference.objects.exists()


@pytest.mark.slow
def test_the_interface_is_taken_out_after_a_question(
    admin: Client, cloud: Cloud, agent: ScriptedAgent, server: Instance, extra: InterfaceDifference
) -> None:
    act(admin, PAGE, "take_out", [extra])
    cloud.run()
    assert MAC in agent.macs[str(server.id)]
    act(admin, PAGE, "take_out", [extra], confirmed="yes")
    cloud.run()
    assert MAC not in agent.macs[str(server.id)]


@pytest.mark.slow
def test_what_only_the_record_has_is_plugged_in(
    admin: Client, cloud: Cloud, agent: ScriptedAgent, server: Instance
) -> None:
    (mac,) = agent.macs[str(server.id)]
    agent.macs[str(server.id)] = []
    agent.hello()
    act(admin, PAGE, "plug_in", [InterfaceDifference.objects.get()])
    cloud.run()
    assert agent.macs[str(server.id)] == [mac]
