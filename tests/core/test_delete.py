"""Deleting in every state, with the host up or down, at every boundary of the line; in the end nothing is left."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from compute_agent.contract.commands import DestroyRequest
from compute_agent.contract.steps import BUILD_STEPS
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError, NotFoundError
from provisioning.compute import selectors
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.power import Stop
from provisioning.compute.launch import claim, schedule
from provisioning.compute.launch.builds import waiting_build
from provisioning.compute.launch.request import InjectedFile
from provisioning.compute.models import Allocation, Instance, InstanceAction
from provisioning.compute.upkeep import reaper
from provisioning.hosts.models import Host
from provisioning.quotas.selectors import usage_of
from tests.support import invariants
from tests.support.clouds import Cloud, context, state_of
from tests.support.jobs import drain
from tests.support.ports import guest_ports

pytestmark = pytest.mark.django_db
delete_module = importlib.import_module("provisioning.compute.actions.delete")


def silence(cloud: Cloud) -> None:
    """Every host was last heard of long ago."""
    Host.objects.update(last_seen_at=timezone.now() - timedelta(hours=1))


def wake(cloud: Cloud) -> None:
    """Every host comes back with the guests it still has, and does what it is told."""
    for agent in cloud.agents.values():
        agent.hello()
    cloud.run()
    for agent in cloud.agents.values():
        assert agent.guests == {}, "a guest is left"


@pytest.mark.slow
def test_an_active_server_is_deleted_when_its_host_has_destroyed_it(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    delete(alice, instance.id)
    assert state_of(instance) == ("active", "deleting")
    assert cloud.fresh(instance).attempt == 2
    assert usage_of(instance.project_id)["instances"] == 1
    cloud.run()
    assert state_of(instance) == ("deleted", None)
    assert cloud.agents["kelvin"].guests == {}
    with pytest.raises(NotFoundError):
        selectors.instance_for(alice, instance.id)
    invariants.check_empty()


@pytest.mark.parametrize("silent", [False, True], ids=["confirmed", "host away"])
def test_what_may_be_secret_goes_with_the_server(cloud: Cloud, alice: RequestContext, silent: bool) -> None:
    cloud.add_host("kelvin")
    instance = cloud.launch(
        alice,
        user_data="c2VjcmV0",
        metadata={"join": "token"},
        injected_files=(InjectedFile("/etc/secret", "c2VjcmV0"),),
    )
    cloud.run()
    Instance.objects.filter(id=instance.id).update(public_key="ssh-ed25519 AAAA", password="sealed by the guest")
    if silent:
        silence(cloud)
    delete(alice, instance.id)
    cloud.run()
    assert state_of(instance) == ("deleted", None)
    row = cloud.fresh(instance)
    kept = (row.user_data, row.injected_files, row.metadata, row.scheduler_hints, row.public_key, row.password)
    assert kept == (None, [], {}, {}, None, "")
    assert row.requested_networks == []


def test_a_deleted_server_is_seen_by_operators_who_ask(
    cloud: Cloud, alice: RequestContext, operator: RequestContext
) -> None:
    instance = cloud.launch(alice)
    delete(alice, instance.id)
    assert selectors.instances_for(alice) == []
    assert [row.id for row in selectors.instances_for(operator, deleted=True, all_projects=True)] == [instance.id]
    assert selectors.instance_for(operator, instance.id, deleted=True).terminated_at is not None
    with pytest.raises(NotFoundError):
        selectors.instance_for(alice, instance.id, deleted=True)


def test_deleting_twice_is_one_delete(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    delete(alice, instance.id)
    delete(context("alice"), instance.id)
    assert len(cloud.agents["kelvin"].take(acknowledge=False)) == 1
    assert cloud.fresh(instance).attempt == 2
    cloud.run()
    with pytest.raises(NotFoundError):
        delete(context("alice"), instance.id)
    assert InstanceAction.objects.filter(instance=instance, action="delete").count() == 1


def test_nobody_deletes_another_projects_server(cloud: Cloud, alice: RequestContext, charlie: RequestContext) -> None:
    instance = cloud.launch(alice)
    with pytest.raises(NotFoundError):
        delete(charlie, instance.id)
    assert state_of(instance) == ("building", "scheduling")


def test_a_locked_server_stays(cloud: Cloud, alice: RequestContext) -> None:
    instance = cloud.launch(alice)
    Instance.objects.filter(id=instance.id).update(locked=True)
    with pytest.raises(ConflictError):
        delete(alice, instance.id)


def test_before_it_has_a_host_it_is_gone_at_once(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    delete(alice, instance.id)
    assert state_of(instance) == ("deleted", None)
    invariants.check_empty()
    drain()
    assert state_of(instance) == ("deleted", None)
    assert cloud.agents["kelvin"].take() == []


def test_between_claim_and_hand_off_it_is_gone_at_once(cloud: Cloud, alice: RequestContext) -> None:
    """A worker that claimed and died left the launch ``networking``; the job that comes again finds nothing to do."""
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    build = waiting_build(instance.id, 1)
    assert build is not None
    assert claim.find_place(build) is not None
    assert state_of(instance) == ("building", "networking")
    delete(alice, instance.id)
    assert state_of(instance) == ("deleted", None)
    invariants.check_empty()
    schedule.schedule(str(instance.id), 1)
    assert cloud.agents["kelvin"].take() == []


def test_an_order_not_yet_sent_is_withdrawn(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    drain()
    delete(alice, instance.id)
    (order,) = agent.take()
    assert isinstance(order.body, DestroyRequest)
    agent.carry_out(order)
    invariants.check_empty()


@pytest.mark.parametrize("step", BUILD_STEPS)
def test_during_each_step_of_the_build(cloud: Cloud, alice: RequestContext, step: str) -> None:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    drain()
    (build,) = agent.take()
    agent.steps(build, upto=step)
    delete(alice, instance.id)
    assert state_of(instance) == ("building", "deleting")
    agent.report(build, "failed", error_code="cancelled", message="stopped")
    assert state_of(instance) == ("building", "deleting")
    assert cloud.fresh(instance).host is not None
    cloud.run()
    assert state_of(instance) == ("deleted", None)
    invariants.check_empty()


@pytest.mark.slow
def test_a_build_that_ends_behind_the_delete_does_not_revive_it(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    drain()
    (build,) = agent.take()
    delete(alice, instance.id)
    agent.carry_out(build)
    assert state_of(instance) == ("building", "deleting")
    cloud.run()
    assert state_of(instance) == ("deleted", None)
    invariants.check_empty()


def failed_fatally(cloud: Cloud, alice: RequestContext) -> Instance:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    drain()
    agent.fail(agent.take()[0], "It cannot be.", retryable=False)
    return instance


def never_placed(cloud: Cloud, alice: RequestContext) -> Instance:
    instance = cloud.launch(alice)
    drain()
    return instance


def stopped(cloud: Cloud, alice: RequestContext) -> Instance:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    Stop.begin(context("alice"), instance.id)
    cloud.run()
    return instance


def stopping(cloud: Cloud, alice: RequestContext) -> Instance:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    Stop.begin(context("alice"), instance.id)
    return instance


def rescheduled(cloud: Cloud, alice: RequestContext) -> Instance:
    for name in ("kelvin", "ohm"):
        cloud.add_host(name)
    instance = cloud.launch(alice)
    drain()
    agent = cloud.agent_of(instance)
    agent.fail(agent.take()[0], "Not here.", retryable=True)
    return instance


def waiting_for_the_old_host(cloud: Cloud, alice: RequestContext) -> Instance:
    instance = spawning(cloud, alice)
    Instance.objects.filter(id=instance.id).update(task_deadline=timezone.now())
    reaper.reap()
    assert state_of(instance) == ("building", "scheduling")
    return instance


def spawning(cloud: Cloud, alice: RequestContext) -> Instance:
    for name in ("kelvin", "ohm"):
        cloud.add_host(name)
    instance = cloud.launch(alice)
    drain()
    return instance


STAGES: list[Callable[[Cloud, RequestContext], Instance]] = [
    failed_fatally,
    never_placed,
    stopped,
    stopping,
    rescheduled,
    waiting_for_the_old_host,
    spawning,
]


@pytest.mark.slow
@pytest.mark.parametrize("stage", STAGES)
def test_in_every_state_with_the_host_up(
    cloud: Cloud, alice: RequestContext, stage: Callable[[Cloud, RequestContext], Instance]
) -> None:
    instance = stage(cloud, alice)
    delete(context("alice"), instance.id)
    invariants.check()
    cloud.run()
    assert state_of(instance) == ("deleted", None)
    invariants.check_empty()


@pytest.mark.parametrize("stage", STAGES)
def test_in_every_state_with_the_host_down(
    cloud: Cloud, alice: RequestContext, stage: Callable[[Cloud, RequestContext], Instance]
) -> None:
    """It is gone for its owner at once; what a host may still run stays accounted for until the host has confirmed."""
    instance = stage(cloud, alice)
    silence(cloud)
    held = Allocation.objects.count()
    delete(context("alice"), instance.id)
    assert state_of(instance) == ("deleted", None)
    assert usage_of(instance.project_id)["instances"] == 0
    assert Allocation.objects.count() == held
    assert guest_ports().exclude(device_id=None).count() == held
    invariants.check()
    wake(cloud)
    invariants.check_empty()


def test_the_address_of_a_guest_on_a_host_that_is_down_is_not_given_away(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    address = guest_ports().get(device_id=instance.id).fixed_ips.get().address
    silence(cloud)
    delete(alice, instance.id)
    cloud.add_host("ohm")
    other = cloud.launch(context("alice"))
    drain()
    assert guest_ports().get(device_id=other.id).fixed_ips.get().address != address


@pytest.mark.slow
def test_a_host_that_goes_down_during_the_delete_does_not_hold_up_the_user(cloud: Cloud, alice: RequestContext) -> None:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    delete(alice, instance.id)
    reaper.reap()
    assert state_of(instance) == ("active", "deleting")
    silence(cloud)
    reaper.reap()
    assert state_of(instance) == ("deleted", None)
    wake(cloud)
    invariants.check_empty()


def test_a_destroy_that_fails_is_asked_for_again(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    delete(alice, instance.id)
    agent.report(agent.take()[0], "failed", error_code="host_error", message="The disk is busy.")
    assert state_of(instance) == ("active", "deleting")
    Instance.objects.filter(id=instance.id).update(task_deadline=timezone.now())
    reaper.reap()
    cloud.run()
    assert state_of(instance) == ("deleted", None)
    invariants.check_empty()


def test_destroy_reports_that_are_repeated_change_nothing(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    delete(alice, instance.id)
    cloud.run()
    before = Instance.objects.values().get(id=instance.id)
    agent.repeat_everything()
    assert Instance.objects.values().get(id=instance.id) == before


def test_a_server_that_is_handed_over_while_it_is_deleted_is_destroyed(
    cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between reading the server and marking it the job hands it to a host: the delete must look again."""
    agent = cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    read = delete_module.host_holding

    def read_then_hand_over(row: Instance) -> Host | None:
        holder = read(row)
        drain()
        return holder

    monkeypatch.setattr(delete_module, "host_holding", read_then_hand_over)
    delete(alice, instance.id)
    assert state_of(instance) == ("building", "deleting")
    cloud.run()
    assert agent.guests == {}
    assert state_of(instance) == ("deleted", None)
    invariants.check_empty()
