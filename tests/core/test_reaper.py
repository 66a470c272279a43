"""What was silent too long ends ACTIVE, goes on, or ends in ERROR with a reason; never two guests of one server."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from django_q.models import OrmQ

from compute_agent.contract.commands import DestroyRequest
from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.compute import selectors
from provisioning.compute.actions.power import Stop
from provisioning.compute.host_link import newer_guests
from provisioning.compute.host_link.outcome import SILENT
from provisioning.compute.launch import claim, schedule
from provisioning.compute.launch.builds import waiting_build
from provisioning.compute.models import Allocation, Instance, InstanceAction, InstanceActionEvent
from provisioning.compute.upkeep import reaper
from provisioning.hosts import liveness
from provisioning.hosts.models import Host, HostCommand
from tests.support import invariants
from tests.support.clouds import Cloud, context, state_of
from tests.support.jobs import drain

pytestmark = pytest.mark.django_db


def let_deadline_pass(instance: Instance) -> None:
    Instance.objects.filter(id=instance.id).update(task_deadline=timezone.now() - timedelta(seconds=1))


def silence(name: str) -> None:
    Host.objects.filter(name=name).update(last_seen_at=timezone.now() - timedelta(hours=1))


def fault_of(instance: Instance) -> str:
    row = Cloud.fresh(instance)
    return selectors.fault_of([row])[row.id].message


def test_nothing_overdue_is_left_alone(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    reaper.reap()
    assert state_of(instance) == ("building", "scheduling")
    assert OrmQ.objects.count() == 1


def test_a_lost_job_is_cast_again(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    OrmQ.objects.all().delete()
    let_deadline_pass(instance)
    reaper.reap()
    reaper.reap()
    assert OrmQ.objects.count() == 1
    cloud.run()
    assert state_of(instance) == ("active", None)


def test_a_worker_that_died_between_claim_and_hand_off_is_taken_over(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    build = waiting_build(instance.id, 1)
    assert build is not None
    assert claim.find_place(build) is not None
    OrmQ.objects.all().delete()
    let_deadline_pass(instance)
    reaper.reap()
    assert drain() == 1
    assert state_of(instance) == ("building", "spawning")
    assert Allocation.objects.count() == 1
    cloud.run()
    assert state_of(instance) == ("active", None)


@pytest.mark.both_databases("locks")
def test_a_launch_that_never_gets_on_ends_in_error(cloud: Cloud, alice: RequestContext) -> None:
    instance = cloud.launch(alice)
    Instance.objects.filter(id=instance.id).update(created_at=timezone.now() - timedelta(days=1))
    let_deadline_pass(instance)
    reaper.reap()
    assert state_of(instance) == ("error", None)
    assert fault_of(instance) == reaper.TOO_LONG


def test_a_job_given_up_by_the_queue_ends_in_error(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    schedule.give_up("it failed three times", instance_id=str(instance.id), attempt=1)
    assert state_of(instance) == ("error", None)
    assert fault_of(instance) == schedule.UNEXPECTED
    schedule.give_up("again", instance_id=str(instance.id), attempt=1)


@pytest.mark.slow
def test_a_silent_build_moves_on_only_when_the_host_has_confirmed(cloud: Cloud, alice: RequestContext) -> None:
    for name in ("kelvin", "ohm"):
        cloud.add_host(name)
    instance = cloud.launch(alice)
    drain()
    first = cloud.agent_of(instance)
    (build,) = first.take()
    let_deadline_pass(instance)
    reaper.reap()
    row = cloud.fresh(instance)
    assert (row.vm_state, row.task_state, row.attempt) == ("building", "scheduling", 2)
    assert drain() == 0
    assert Allocation.objects.get().host_id == first.host.id
    schedule.schedule(str(instance.id), 2)
    assert state_of(instance) == ("building", "scheduling")
    (destroy,) = first.take()
    assert destroy.generation == 2
    first.carry_out(destroy)
    first.carry_out(build)
    assert first.guests == {}, "the old order was carried out behind the newer one"
    cloud.run()
    assert state_of(instance) == ("active", None)
    assert cloud.agent_of(instance) is not first
    assert sum(len(agent.guests) for agent in cloud.agents.values()) == 1


@pytest.mark.doctor_finds("newer_guests")
def test_a_silent_build_that_waits_for_an_operator_has_not_failed(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    drain()
    newer_guests.note(cloud.add_host("ohm").host.id, cloud.fresh(instance), 7, PowerState.RUNNING, newer_guests.OPEN)
    let_deadline_pass(instance)
    reaper.reap()
    assert not InstanceActionEvent.objects.filter(action__instance=instance, result="Error").exists()
    assert state_of(instance) == ("building", "spawning")
    agent.work()
    assert state_of(instance) == ("active", None)


def test_a_build_that_was_never_sent_is_withdrawn(cloud: Cloud, alice: RequestContext) -> None:
    for name in ("kelvin", "ohm"):
        cloud.add_host(name)
    instance = cloud.launch(alice)
    drain()
    first = cloud.agent_of(instance)
    let_deadline_pass(instance)
    reaper.reap()
    assert [type(command.body) for command in first.take()] == [DestroyRequest]


@pytest.mark.slow
def test_a_host_that_never_confirms_ends_the_launch_and_keeps_the_place(cloud: Cloud, alice: RequestContext) -> None:
    for name in ("kelvin", "ohm"):
        cloud.add_host(name)
    instance = cloud.launch(alice)
    drain()
    first = cloud.agent_of(instance)
    first.take()
    for _ in range(2):
        let_deadline_pass(instance)
        reaper.reap()
    assert state_of(instance) == ("error", None)
    before = SILENT.format(seconds=600).rstrip(".")
    assert fault_of(instance) == f"{reaper.NOT_CONFIRMED} Before that: {before}."
    assert Allocation.objects.count() == 1
    invariants.check()
    cloud.run()
    assert Allocation.objects.count() == 0


@pytest.mark.slow
def test_a_build_on_a_host_that_went_down_ends_in_error(cloud: Cloud, alice: RequestContext) -> None:
    """Another host could make a second guest: the first may run on behind a broken link."""
    for name in ("kelvin", "ohm"):
        cloud.add_host(name)
    instance = cloud.launch(alice)
    drain()
    first = cloud.agent_of(instance)
    (build,) = first.take()
    silence(first.host.name)
    let_deadline_pass(instance)
    reaper.reap()
    assert state_of(instance) == ("error", None)
    assert fault_of(instance) == reaper.DOWN
    assert Allocation.objects.count() == 1
    first.carry_out(build)
    assert state_of(instance) == ("error", None)
    first.hello()
    cloud.run()
    assert first.guests == {}
    assert Allocation.objects.count() == 0


def test_an_agent_that_comes_back_in_time_finishes_the_build(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    drain()
    silence("kelvin")
    reaper.reap()
    assert state_of(instance) == ("building", "spawning")
    agent.hello()
    agent.work()
    assert state_of(instance) == ("active", None)


def test_a_silent_power_action_gives_the_server_back(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    Stop.begin(context("alice"), instance.id)
    let_deadline_pass(instance)
    reaper.reap()
    assert state_of(instance) == ("active", None)
    action = InstanceAction.objects.get(instance=instance, action="stop")
    assert action.finished_at is not None
    assert action.message


@pytest.mark.slow
def test_a_place_that_nobody_asks_back_is_asked_back(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    drain()
    agent.fail(agent.take()[0], "It cannot be.", retryable=False)
    (destroy,) = agent.take()
    agent.report(destroy, "failed", error_code="host_error", message="busy")
    reaper.reap()
    assert agent.take() == [], "the host is left in peace for a while"
    HostCommand.objects.update(created_at=timezone.now() - reaper.ASK_AGAIN * 2)
    reaper.reap()
    cloud.run()
    assert Allocation.objects.count() == 0
    assert state_of(instance) == ("error", None)


def test_hosts_that_are_silent_are_shown_so(cloud: Cloud) -> None:
    cloud.add_host("kelvin")
    assert Host.objects.get().connected
    silence("kelvin")
    liveness.mark_silent()
    assert not Host.objects.get().connected
