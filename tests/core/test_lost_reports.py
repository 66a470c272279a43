"""What a host has taken and never answered: its memory was lost, its report was, or it does not end."""

from __future__ import annotations

import secrets
from datetime import timedelta

import pytest
from django.db import IntegrityError
from django.utils import timezone

from compute_agent.contract.commands import PowerRequest
from compute_agent.contract.messages import Enrol
from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.compute.actions.delete import DESTROY_COMMANDS, delete
from provisioning.compute.actions.power import Start, Stop
from provisioning.compute.models import Allocation, Instance
from provisioning.compute.upkeep import reaper
from provisioning.hosts import audits, commands, enrolment, liveness
from provisioning.hosts.models import Host, HostCommand
from tests.support.clouds import Cloud, context, state_of
from tests.support.jobs import drain, nobody_looked
from tests.support.ports import guest_addresses
from tests.support.scripted_agent import ScriptedAgent

pytestmark = [pytest.mark.django_db, pytest.mark.slow]


def let_deadline_pass(instance: Instance) -> None:
    Instance.objects.filter(id=instance.id).update(task_deadline=timezone.now() - timedelta(seconds=1))


def silence(name: str) -> None:
    Host.objects.filter(name=name).update(last_seen_at=timezone.now() - timedelta(hours=1))


def long_ago() -> None:
    """The orders that there are were given, and taken, an hour ago."""
    then = timezone.now() - timedelta(hours=1)
    HostCommand.objects.update(created_at=then)
    HostCommand.objects.exclude(acknowledged_at=None).update(acknowledged_at=then)


def come_back_without_memory(agent: ScriptedAgent) -> None:
    """The host's state folder is gone, its guests are not: it joins anew under its name."""
    token = enrolment.create_join_token(agent.host.name)
    enrolment.enrol(Enrol(join_token=token, host=agent.host.name, credential=secrets.token_hex(32)))
    Host.objects.filter(id=agent.host.id).update(contract_version=agent.host.contract_version)
    liveness.heartbeat(agent.host.id)
    agent.fences.clear()


def deleted_on_a_host_that_is_down(cloud: Cloud, caller: RequestContext) -> tuple[ScriptedAgent, Instance]:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(caller)
    cloud.run()
    silence("kelvin")
    delete(caller, instance.id)
    assert state_of(instance) == ("deleted", None)
    assert (Allocation.objects.count(), guest_addresses().count()) == (1, 1)
    return agent, instance


def test_a_host_that_lost_its_memory_is_notified_again(cloud: Cloud, alice: RequestContext) -> None:
    agent, _ = deleted_on_a_host_that_is_down(cloud, alice)
    agent.hello()
    assert len(agent.take()) == 1
    come_back_without_memory(agent)
    cloud.run()
    assert agent.guests == {}
    assert (Allocation.objects.count(), guest_addresses().count()) == (0, 0)


def test_a_build_goes_on_when_its_host_has_lost_its_memory(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    drain()
    agent.take()
    come_back_without_memory(agent)
    cloud.run()
    assert state_of(instance) == ("active", None)


def test_a_place_whose_end_was_never_reported_is_asked_back(cloud: Cloud, alice: RequestContext) -> None:
    """The order was taken, and its report was lost: nobody may wait for that for ever."""
    agent, _ = deleted_on_a_host_that_is_down(cloud, alice)
    agent.hello()
    agent.take()
    reaper.reap()
    assert agent.take() == [], "a host that has just taken the order is left in peace"
    long_ago()
    reaper.reap()
    reaper.reap()
    assert len(commands.pending(agent.host.id)) == 1
    cloud.run()
    assert (Allocation.objects.count(), guest_addresses().count()) == (0, 0)


def test_an_order_that_waits_for_its_host_is_not_repeated(cloud: Cloud, alice: RequestContext) -> None:
    agent, _ = deleted_on_a_host_that_is_down(cloud, alice)
    long_ago()
    liveness.heartbeat(agent.host.id)
    reaper.reap()
    assert HostCommand.objects.filter(kind="destroy_request").count() == 1


def test_a_guest_whose_end_was_never_reported_is_removed(cloud: Cloud, alice: RequestContext) -> None:
    agent, _ = deleted_on_a_host_that_is_down(cloud, alice)
    agent.take()
    long_ago()
    agent.hello()
    agent.work()
    assert agent.guests == {}


def test_a_delete_ends_for_its_owner_although_its_host_never_manages_it(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    delete(alice, instance.id)
    for _ in range(DESTROY_COMMANDS):
        assert state_of(instance) == ("active", "deleting")
        for command in agent.take():
            agent.report(command, "failed", error_code="destroy_failed", message="busy", retryable=True)
        let_deadline_pass(instance)
        reaper.reap()
    assert state_of(instance) == ("deleted", None)
    assert (Allocation.objects.count(), guest_addresses().count()) == (1, 1), "the guest may still be there"
    long_ago()
    reaper.reap()
    cloud.run()
    assert (Allocation.objects.count(), guest_addresses().count()) == (0, 0)


def test_the_end_of_an_old_power_order_is_not_the_end_of_the_next(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    Stop.begin(context("alice"), instance.id)
    (old,) = agent.take()
    let_deadline_pass(instance)
    reaper.reap()
    assert state_of(instance) == ("active", None)
    Stop.begin(context("alice"), instance.id)
    agent.report(old, "failed", error_code="host_error", message="too busy")
    assert state_of(instance) == ("active", "powering-off")
    cloud.run()
    assert state_of(instance) == ("stopped", None)


def test_a_power_order_that_was_given_up_is_not_sent_any_more(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    Stop.begin(context("alice"), instance.id)
    let_deadline_pass(instance)
    reaper.reap()
    assert not [command for command in agent.take() if isinstance(command.body, PowerRequest)]
    assert state_of(instance) == ("active", None)


@pytest.mark.doctor_finds("guests")
def test_a_reinstalled_hosts_servers_are_found_stopped(cloud: Cloud, alice: RequestContext) -> None:
    """A host that joins anew says no hello; its audits must do."""
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    agent.guests.clear()
    come_back_without_memory(agent)
    audits.audit(agent.host.id, agent.audit(8, 8192, 100))
    assert state_of(instance) == ("active", None), "the audit may be older than the guest"
    Instance.objects.filter(id=instance.id).update(updated_at=timezone.now() - timedelta(hours=1))
    audits.audit(agent.host.id, agent.audit(8, 8192, 100))
    assert state_of(instance) == ("stopped", None)
    assert cloud.fresh(instance).power_state == PowerState.NOSTATE


@pytest.mark.doctor_finds("tasks")
def test_one_servers_trouble_with_the_records_does_not_keep_the_others(
    cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    cloud.add_host("kelvin")
    poisoned, other = cloud.launch(alice), cloud.launch(context("alice"))
    let_deadline_pass(poisoned)
    let_deadline_pass(other)
    Instance.objects.filter(id=poisoned.id).update(task_deadline=timezone.now() - timedelta(hours=1))
    cast, seen = reaper.cast_schedule, []

    def refuse(instance: Instance) -> None:
        seen.append(instance.id)
        if instance.id == poisoned.id:
            raise IntegrityError
        cast(instance)

    monkeypatch.setattr(reaper, "cast_schedule", refuse)
    reaper.reap()
    assert seen == [poisoned.id, other.id]


def test_a_task_that_ended_since_it_was_found_overdue_is_left_alone(
    cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server was stopped and started in between, and is being stopped again: that is another task."""
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    Stop.begin(context("alice"), instance.id)
    let_deadline_pass(instance)
    result = reaper.overdue()
    monkeypatch.setattr(reaper, "overdue", lambda: result)
    cloud.run()
    Start.begin(context("alice"), instance.id)
    cloud.run()
    Stop.begin(context("alice"), instance.id)
    reaper.reap()
    assert state_of(instance) == ("active", "powering-off")


def test_what_ended_while_the_portal_was_away_is_heard_before_it_is_judged(cloud: Cloud, alice: RequestContext) -> None:
    """After an outage, or a step of the clock, the reaper is there before the hosts are."""
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    drain()
    silence("kelvin")
    Instance.objects.filter(id=instance.id).update(task_deadline=timezone.now() - timedelta(minutes=20))
    nobody_looked("compute.reaper", 1300)
    reaper.reap()
    assert state_of(instance) == ("building", "spawning")
    agent.hello()
    agent.work()
    assert state_of(instance) == ("active", None)


def test_a_host_that_does_not_come_back_after_an_outage_is_judged(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    drain()
    silence("kelvin")
    Instance.objects.filter(id=instance.id).update(task_deadline=timezone.now() - timedelta(minutes=20))
    nobody_looked("compute.reaper", 1300)
    reaper.reap()
    nobody_looked("compute.reaper", 5)
    reaper.reap()
    assert state_of(instance) == ("building", "spawning")
    let_deadline_pass(instance)
    reaper.reap()
    assert state_of(instance) == ("error", None)
