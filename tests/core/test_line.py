"""The whole line of a launch with agents played by scripts: what happens when all goes well, and when hosts fail."""

from __future__ import annotations

import msgspec
import pytest

from compute_agent.contract.commands import BuildRequest, DestroyRequest
from compute_agent.contract.messages import Command
from compute_agent.contract.steps import BUILD_STEPS, CREATE_DISK, FETCH_IMAGE
from provisioning.common.context import RequestContext
from provisioning.compute import selectors
from provisioning.compute.launch import retry
from provisioning.compute.launch.schedule import schedule
from provisioning.compute.models import Allocation, Instance, SchedulingDecision
from provisioning.compute.states import PowerState
from provisioning.events.models import Event
from provisioning.hosts.models import Host
from provisioning.network.models import Port
from provisioning.quotas.selectors import usage_of
from tests.support import invariants
from tests.support.clouds import Cloud, state_of
from tests.support.jobs import drain
from tests.support.ports import guest_ports

pytestmark = pytest.mark.django_db


@pytest.mark.slow
def test_a_launch_becomes_active(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    assert state_of(instance) == ("building", "scheduling")
    cloud.run()
    row = cloud.fresh(instance)
    assert state_of(instance) == ("active", None)
    assert row.power_state == PowerState.RUNNING
    assert row.launched_at is not None
    assert row.host is not None
    assert row.host.name == "kelvin"
    assert list(Port.objects.filter(device_id=row.id).values_list("status", flat=True)) == ["ACTIVE"]
    assert usage_of(row.project_id)["ram"] == 1024


def test_every_move_is_one_event_in_order(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    events = Event.objects.filter(topic=f"project:{alice.project_id}", kind="instance").order_by("id")
    moves = [event.payload["task_state"] for event in events if event.payload["step"] is None]
    assert moves == ["scheduling", "networking", "block_device_mapping", "spawning", None]
    versions = [event.payload["version"] for event in events if event.payload["step"] is None]
    assert versions == [1, 2, 3, 4, 5]
    assert [event.payload["step"]["name"] for event in events if event.payload["step"]] == list(BUILD_STEPS)
    assert all(event.payload["id"] == str(instance.id) for event in events)
    assert "kelvin" not in str([event.payload for event in events])


def test_the_timeline_shows_each_step_with_its_time(
    cloud: Cloud, alice: RequestContext, operator: RequestContext
) -> None:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    assert [step.state for step in selectors.timeline_for(alice, instance.id)] == ["done"] + ["waiting"] * 12
    cloud.run()
    steps = selectors.timeline_for(alice, instance.id)
    assert [step.name for step in steps] == [
        "api_create",
        "schedule",
        "claim",
        "allocate_network",
        "hand_off",
        *BUILD_STEPS,
    ]
    assert all(step.state == "done" and step.seconds is not None and step.seconds >= 0 for step in steps)
    assert {step.host for step in steps} == {""}
    assert "kelvin" in {step.host for step in selectors.timeline_for(operator, instance.id)}


def test_the_order_says_everything_a_host_needs(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice, metadata={"a": "b"}, user_data="aGk=", config_drive=True)
    drain()
    (command,) = agent.take()
    assert isinstance(command.body, BuildRequest)
    spec = command.body.instance
    assert (spec.uuid, spec.hostname, spec.user_data, spec.metadata) == (str(instance.id), "web", "aGk=", {"a": "b"})
    assert spec.config_drive
    assert (spec.flavor.memory_mb, spec.image.id) == (1024, str(cloud.image.id))
    assert len(spec.ports) == 1
    assert spec.ports[0].fixed_ips[0].address.startswith("10.20.0.")
    assert command.generation == 1
    assert command.deadline > 0


def test_no_host_ends_in_error_with_the_funnel(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("tiny", memory_mb=512)
    cloud.add_host("little", memory_mb=768)
    instance = cloud.launch(alice)
    cloud.run()
    assert state_of(instance) == ("error", None)
    row = cloud.fresh(instance)
    assert row.host is None
    fault = selectors.fault_of([row])[row.id]
    assert fault.code == 500
    assert "No valid host was found" in fault.message
    assert "2 hosts → 0 have enough memory: 1 GiB requested, at most 768 MiB free." in fault.message
    assert "tiny" not in fault.message
    decision = selectors.decision_for(alice, instance.id)
    assert decision is not None
    assert [item["name"] for item in decision.filters][-1] == "RamFilter"
    assert usage_of(row.project_id)["instances"] == 1
    assert not guest_ports().exclude(device_id=None).exists()


def test_a_cloud_without_hosts_says_so(cloud: Cloud, alice: RequestContext) -> None:
    instance = cloud.launch(alice)
    cloud.run()
    assert "There are no hosts in this cloud yet." in selectors.fault_of([cloud.fresh(instance)])[instance.id].message


@pytest.mark.slow
def test_a_retryable_failure_goes_to_another_host(cloud: Cloud, alice: RequestContext) -> None:
    for name in ("kelvin", "ohm"):
        cloud.add_host(name)
    instance = cloud.launch(alice)
    drain()
    first = cloud.agent_of(instance)
    (command,) = first.take()
    first.fail(command, "The disk could not be made.", retryable=True, after=FETCH_IMAGE)
    row = cloud.fresh(instance)
    assert (row.vm_state, row.task_state, row.attempt, row.host_id) == ("building", "scheduling", 2, None)
    assert row.excluded_hosts == [str(first.host.id)]
    assert not Allocation.objects.exists()
    address = guest_ports().get(device_id=instance.id).fixed_ips.get().address
    invariants.check()
    cloud.run()
    assert state_of(instance) == ("active", None)
    assert cloud.agent_of(instance) is not first
    assert guest_ports().get(device_id=instance.id).fixed_ips.get().address == address
    assert guest_ports().get(device_id=instance.id).host == cloud.agent_of(instance).host.name
    failed = [step for step in selectors.timeline_for(alice, instance.id) if step.state == "failed"]
    assert [(step.name, step.attempt, step.message) for step in failed] == [
        (CREATE_DISK, 1, "The disk could not be made.")
    ]
    assert SchedulingDecision.objects.filter(instance=instance).count() == 2


@pytest.mark.slow
def test_three_failures_end_in_error(cloud: Cloud, alice: RequestContext) -> None:
    for name in ("kelvin", "ohm", "tesla", "volt"):
        cloud.add_host(name)
    instance = cloud.launch(alice)
    for _ in range(3):
        drain()
        agent = cloud.agent_of(instance)
        (command,) = agent.take()
        agent.fail(command, "The hypervisor does not answer.", retryable=True)
    assert state_of(instance) == ("error", None)
    fault = selectors.fault_of([cloud.fresh(instance)])[instance.id]
    assert (
        fault.message
        == "The server could not be built: 3 hosts were tried. The last error: The hypervisor does not answer."
    )
    assert drain() == 0
    assert not Allocation.objects.exists()
    assert usage_of(instance.project_id)["instances"] == 1


def test_when_no_other_host_is_left_the_fault_says_that_one_failed(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    drain()
    agent.fail(agent.take()[0], "No room.", retryable=True)
    Host.objects.update(memory_mb_total=1)
    cloud.run()
    assert state_of(instance) == ("error", None)
    assert "1 host failed to build this server" in selectors.fault_of([cloud.fresh(instance)])[instance.id].message


def test_a_fatal_failure_is_final_and_the_host_confirms_that_nothing_is_left(
    cloud: Cloud, alice: RequestContext
) -> None:
    for name in ("kelvin", "ohm"):
        cloud.add_host(name)
    instance = cloud.launch(alice)
    drain()
    agent = cloud.agent_of(instance)
    agent.fail(agent.take()[0], "The image is not what its record says.", retryable=False)
    assert state_of(instance) == ("error", None)
    row = cloud.fresh(instance)
    assert row.host is None
    assert selectors.fault_of([row])[row.id].message == "The image is not what its record says."
    (order,) = agent.take()
    assert isinstance(order.body, DestroyRequest)
    assert order.generation == 2
    agent.carry_out(order)
    assert not Allocation.objects.exists()
    assert not guest_ports().exclude(device_id=None).exists()


def test_repeated_and_late_reports_change_nothing(cloud: Cloud, alice: RequestContext) -> None:
    for name in ("kelvin", "ohm"):
        cloud.add_host(name)
    instance = cloud.launch(alice)
    drain()
    first = cloud.agent_of(instance)
    (command,) = first.take()
    first.fail(command, "No room.", retryable=True)
    cloud.run()
    before = (Instance.objects.values().get(id=instance.id), Event.objects.count())
    first.steps(command)
    first.report(command, "finished", power_state=1)
    first.report(command, "failed", retryable=True, message="again")
    for agent in cloud.agents.values():
        agent.repeat_everything()
    assert (Instance.objects.values().get(id=instance.id), Event.objects.count()) == before


def test_a_host_reports_only_on_its_own_orders(cloud: Cloud, alice: RequestContext) -> None:
    for name in ("kelvin", "ohm"):
        cloud.add_host(name)
    instance = cloud.launch(alice)
    drain()
    owner = cloud.agent_of(instance)
    stranger = next(agent for agent in cloud.agents.values() if agent is not owner)
    (command,) = owner.take()
    stranger.steps(command)
    stranger.report(command, "finished", power_state=1)
    assert state_of(instance) == ("building", "spawning")
    owner.carry_out(command)
    stranger.guests[str(instance.id)] = (1, PowerState.SHUTDOWN)
    stranger.power(instance.id, PowerState.SHUTDOWN)
    assert state_of(instance) == ("active", None)


def test_a_report_with_another_attempt_than_its_order_changes_nothing(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    drain()
    (command,) = agent.take()
    for attempt in (0, 2):
        agent.report(msgspec.structs.replace(command, generation=attempt), "finished", power_state=1)
    assert state_of(instance) == ("building", "spawning")
    agent.carry_out(command)
    assert state_of(instance) == ("active", None)


def test_hostile_texts_of_a_host_are_cut(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    drain()
    (command,) = agent.take()
    agent.report(command, "step", step="rm -rf /", started_at=0.0)
    agent.report(
        command,
        "step",
        step=FETCH_IMAGE,
        started_at=float("nan"),
        finished_at=1e300,
        detail={f"key{number}" * 40: "x\x00\n" * 5000 for number in range(100)},
        message="m" * 100_000,
    )
    (step,) = [step for step in selectors.timeline_for(alice, instance.id) if step.name == FETCH_IMAGE]
    assert step.seconds is not None
    assert step.seconds >= 0
    assert len(step.detail) <= 10
    assert all(len(key) <= 40 and len(value) <= 200 and value.isprintable() for key, value in step.detail.items())
    assert len(step.message) <= 1024
    agent.fail(command, "a" * 5000 + "\x1b[31m", retryable=False)
    assert state_of(instance) == ("error", None)


def test_one_bad_report_does_not_hold_up_the_others(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    first, second = cloud.launch(alice), cloud.launch(alice)
    drain()
    orders = agent.take()
    agent.sent.clear()
    agent.report(Command("x", "server", "no id", 1, orders[0].body), "finished")
    for order in orders:
        agent.carry_out(order)
    assert state_of(first) == state_of(second) == ("active", None)


def test_a_job_that_is_delivered_twice_has_one_effect(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    schedule(str(instance.id), 1)
    drain()
    schedule(str(instance.id), 1)
    assert len(agent.take()) == 1
    assert Allocation.objects.count() == 1


@pytest.mark.slow
def test_out_of_addresses_ends_in_error_and_gives_the_room_back(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin", memory_mb=65536, vcpus=64, disk_gb=1000)
    cloud.network.subnets.update(allocation_pools=[{"start": "10.20.0.10", "end": "10.20.0.11"}])
    instances = [cloud.launch(alice) for _ in range(3)]
    cloud.run()
    assert sorted(state_of(instance)[0] for instance in instances) == ["active", "active", "error"]
    assert Allocation.objects.count() == 2


def test_an_image_that_vanished_ends_the_launch(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.image.__class__.objects.filter(id=cloud.image.id).update(status="deleted")
    cloud.run()
    assert state_of(instance) == ("error", None)
    assert "image was removed" in selectors.fault_of([cloud.fresh(instance)])[instance.id].message
    assert not Allocation.objects.exists()


def test_what_was_decided_on_a_stale_state_is_not_done(cloud: Cloud, alice: RequestContext) -> None:
    """A second delivery of the job gives up on the launch while the first one hands it over."""
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    stale = cloud.fresh(instance)
    drain()
    assert not retry.fail(stale, "No valid host was found.", clean=True)
    assert state_of(instance) == ("building", "spawning")
    cloud.run()
    assert state_of(instance) == ("active", None)
