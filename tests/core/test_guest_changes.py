"""What a guest reads of itself follows what its owner changes, and what it posts comes back."""

from __future__ import annotations

import time
from typing import Literal

import pytest

from compute_agent.contract.commands import RefreshPortsRequest
from compute_agent.contract.messages import SERVER, AgentEvent
from provisioning.common.context import RequestContext
from provisioning.compute.models import Instance
from provisioning.compute.services import instances, metadata
from provisioning.compute.services.instances import clear_password
from provisioning.hosts import reports
from provisioning.network.models import Port
from provisioning.network.selectors import port_refs
from provisioning.network.selectors.instances import PortAddress, addresses_of
from tests.support.clouds import Cloud
from tests.support.jobs import drain
from tests.support.ports import guest_ports
from tests.support.scripted_agent import ScriptedAgent
from tests.support.standing import standing

pytestmark = pytest.mark.django_db


def request_to(agent: ScriptedAgent) -> RefreshPortsRequest:
    (command,) = agent.take()
    agent.carry_out(command)
    assert isinstance(command.body, RefreshPortsRequest)
    return command.body


@pytest.fixture
@standing
def instance(cloud: Cloud, alice: RequestContext) -> Instance:
    cloud.add_host("one")
    return cloud.running(alice)


def posted(agent: ScriptedAgent, instance: Instance, password: str, attempt: int | None = None) -> None:
    say(agent, instance, "posted", {"password": password}, attempt)


def say(
    agent: ScriptedAgent,
    instance: Instance,
    kind: Literal["posted", "lease"],
    detail: dict[str, str],
    attempt: int | None = None,
) -> None:
    event = AgentEvent(
        seq=next(agent.seq),
        subject_kind=SERVER,
        subject_id=str(instance.id),
        generation=instance.attempt if attempt is None else attempt,
        kind=kind,
        finished_at=time.time(),
        detail=detail,
    )
    reports.receive(agent.host.id, [event])


def test_changed_metadata_and_names_are_reported_to_the_host(
    cloud: Cloud, alice: RequestContext, instance: Instance
) -> None:
    agent = cloud.agent_of(instance)
    metadata.set_metadata(alice, instance.id, {"role": "db"})
    assert request_to(agent).instance.metadata == {"role": "db"}
    instances.update(alice, instance.id, name="other")
    assert request_to(agent).instance.name == "other"
    instances.update(alice, instance.id, description="nobody there reads it")
    assert agent.take() == []


def test_what_changes_while_the_host_hears_of_a_change_is_sent_then(
    cloud: Cloud, alice: RequestContext, instance: Instance
) -> None:
    agent = cloud.agent_of(instance)
    metadata.set_metadata(alice, instance.id, {"role": "db"})
    (command,) = agent.take()
    metadata.set_metadata(alice, instance.id, {"role": "web"})
    assert agent.take() == []
    agent.carry_out(command)
    assert request_to(agent).instance.metadata == {"role": "web"}
    assert agent.take() == []


def test_the_first_password_that_a_guest_posts_is_kept_until_it_is_cleared(
    cloud: Cloud, alice: RequestContext, instance: Instance
) -> None:
    agent = cloud.agent_of(instance)
    posted(agent, instance, "b2xk", attempt=instance.attempt - 1)
    assert cloud.fresh(instance).password == ""
    posted(agent, instance, "Zmlyc3Q=")
    posted(agent, instance, "c2Vjb25k")
    assert cloud.fresh(instance).password == "Zmlyc3Q="
    assert request_to(agent).instance.posted_password == "Zmlyc3Q="
    clear_password(alice, instance.id)
    assert request_to(agent).instance.posted_password == ""
    instance = cloud.fresh(instance)
    posted(agent, instance, "c2Vjb25k")
    assert cloud.fresh(instance).password == "c2Vjb25k"


def test_a_host_that_does_not_hold_the_guest_posts_nothing(
    cloud: Cloud, alice: RequestContext, instance: Instance
) -> None:
    other = cloud.add_host("two")
    posted(other, instance, "Zm9yZ2Vk")
    assert cloud.fresh(instance).password == ""


def test_a_guest_s_interfaces_are_named_after_it(cloud: Cloud, alice: RequestContext, instance: Instance) -> None:
    port = guest_ports().get(device_id=instance.id)
    assert port.dns_name == instance.hostname
    instances.update(alice, instance.id, hostname="other-name")
    port.refresh_from_db()
    assert (port.dns_name, port.revision_number > 0) == ("other-name", True)
    assert request_to(cloud.agent_of(instance)).instance.hostname == "other-name"


@pytest.mark.slow
def test_the_host_is_notified_of_what_the_port_s_owner_has_set(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("one")
    launched = cloud.launch(alice)
    drain()
    Port.objects.filter(device_id=launched.id).update(
        allowed_address_pairs=[{"ip_address": "10.20.0.100", "mac_address": "fa:16:3e:00:00:01"}],
        extra_dhcp_opts=[{"opt_name": "bootfile-name", "opt_value": "x", "ip_version": 4}],
        port_security_enabled=False,
        admin_state_up=False,
    )
    (ref,) = port_refs(launched.id)
    assert [(pair.address, pair.mac_address) for pair in ref.allowed_address_pairs] == [
        ("10.20.0.100", "fa:16:3e:00:00:01")
    ]
    assert [(option.name, option.value) for option in ref.extra_dhcp_opts] == [("bootfile-name", "x")]
    assert (ref.port_security, ref.enabled, ref.security_groups) == (False, False, ["default"])
    assert ref.network.segment is not None
    assert [subnet.cidr for subnet in ref.network.subnets] == [ref.network.cidr]


def address_of(instance: Instance) -> PortAddress:
    (result,) = addresses_of([instance.id])[instance.id]
    return result


def test_when_a_guest_took_its_address_is_kept_until_it_gives_it_back(cloud: Cloud, instance: Instance) -> None:
    agent, entry = cloud.agent_of(instance), address_of(instance)
    assert entry.leased_at is None
    lease = {"port_id": str(entry.port_id), "address": entry.address, "held": "true"}
    say(agent, instance, "lease", lease, attempt=instance.attempt - 1)
    say(cloud.add_host("two"), instance, "lease", lease)
    say(agent, instance, "lease", lease | {"address": "10.20.0.99"})
    say(agent, instance, "lease", lease | {"port_id": "nonsense"})
    assert address_of(instance).leased_at is None
    say(agent, instance, "lease", lease)
    first = address_of(instance).leased_at
    assert first is not None
    say(agent, instance, "lease", lease)
    assert address_of(instance).leased_at == first, "a DHCP server that starts anew says all of them again"
    say(agent, instance, "lease", lease | {"held": "false"})
    assert address_of(instance).leased_at is None
