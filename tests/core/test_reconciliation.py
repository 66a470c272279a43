"""What happened on a host behind the cloud's back: records follow, owners are told, leftovers go, strangers stay."""

from __future__ import annotations

import uuid
from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from compute_agent.contract.messages import MOST_LEFTOVERS, Leftover
from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.power import Start, Suspend
from provisioning.compute.models import Instance, InstanceAction
from provisioning.compute.states import VmState
from provisioning.compute.upkeep.reconcile import GONE
from provisioning.hosts import liveness
from provisioning.hosts.leftovers import MOST
from provisioning.hosts.models import HostCommand
from provisioning.hosts.models import Leftover as Kept
from tests.support.clouds import Cloud, context, state_of
from tests.support.jobs import drain
from tests.support.scripted_agent import ScriptedAgent


def at_rest(cloud: Cloud, caller: RequestContext) -> tuple[Instance, ScriptedAgent]:
    """A server that was built a while ago, and its host."""
    if not cloud.agents:
        cloud.add_host("one")
    row = cloud.launch(caller)
    cloud.run()
    Instance.objects.filter(id=row.id).update(updated_at=timezone.now() - timedelta(hours=1))
    return cloud.fresh(row), cloud.agent_of(row)


def folder(of: Instance | uuid.UUID) -> Leftover:
    key = str(of.id if isinstance(of, Instance) else of)
    return Leftover(kind="folder", name=key, subject_id=key)


def destroys() -> int:
    return HostCommand.objects.filter(kind="destroy_request").count()


@pytest.mark.slow
def test_what_is_as_recorded_is_not_read_and_costs_no_statement_for_each_server(
    cloud: Cloud, alice: RequestContext
) -> None:
    counts = []
    for _ in range(2):
        _, agent = at_rest(cloud, alice)
        agent.measured()
        with CaptureQueriesContext(connection) as queries:
            agent.measured()
        counts.append(len(queries))
        assert not [query["sql"] for query in queries if '"compute_instance"."user_data"' in query["sql"]]
    assert counts[0] == counts[1]


@pytest.mark.slow
def test_a_host_that_is_to_remove_a_guest_is_still_notified_when_the_server_is_deleted_elsewhere(
    cloud: Cloud, alice: RequestContext
) -> None:
    row, agent = at_rest(cloud, alice)
    other = cloud.add_host("two")
    other.guests[str(row.id)] = (row.attempt - 1, PowerState.RUNNING)
    other.hello()
    assert destroys() == 1
    delete(context("alice"), row.id)
    cloud.run()
    assert (agent.guests, other.guests) == ({}, {})


# ----- power ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["hello", "measured"])
def test_a_guest_that_was_stopped_and_started_by_hand(cloud: Cloud, alice: RequestContext, how: str) -> None:
    row, agent = at_rest(cloud, alice)
    agent.guests[str(row.id)] = (row.attempt, PowerState.SHUTDOWN)
    getattr(agent, how)()
    assert state_of(row) == ("stopped", None)
    Instance.objects.filter(id=row.id).update(updated_at=timezone.now() - timedelta(hours=1))
    agent.guests[str(row.id)] = (row.attempt, PowerState.RUNNING)
    getattr(agent, how)()
    assert state_of(row) == ("active", None)
    assert not InstanceAction.objects.filter(message=GONE).exists()


@pytest.mark.parametrize("how", ["hello", "measured"])
def test_a_guest_that_was_removed_by_hand_is_found_stopped_and_its_owner_is_notified_once(
    cloud: Cloud, alice: RequestContext, how: str
) -> None:
    row, agent = at_rest(cloud, alice)
    agent.guests.clear()
    for _ in range(3):
        getattr(agent, how)()
    assert state_of(row) == ("stopped", None)
    assert Instance.objects.get().power_state == PowerState.NOSTATE
    record = InstanceAction.objects.get(message=GONE)
    assert (record.action, record.user_id, record.project_id) == ("stop", None, row.project_id)
    assert record.finished_at is not None
    Start.begin(context("alice"), row.id)
    cloud.run()
    assert state_of(row) == ("active", None)


def test_the_owner_is_notified_again_when_it_happens_again(cloud: Cloud, alice: RequestContext) -> None:
    row, agent = at_rest(cloud, alice)
    for _ in range(2):
        agent.guests.clear()
        agent.hello()
        Start.begin(context("alice"), row.id)
        cloud.run()
    assert InstanceAction.objects.filter(message=GONE).count() == 2


@pytest.mark.doctor_finds("guests")
def test_a_power_event_that_says_so_first_does_not_keep_the_owner_from_being_notified(
    cloud: Cloud, alice: RequestContext
) -> None:
    row, agent = at_rest(cloud, alice)
    agent.power(row.id, PowerState.NOSTATE)
    assert state_of(row) == ("stopped", None)
    agent.guests.clear()
    agent.hello()
    assert InstanceAction.objects.filter(message=GONE).count() == 1


@pytest.mark.doctor_finds("guests")
def test_what_waits_paused_or_suspended_says_that_its_guest_is_gone(cloud: Cloud, alice: RequestContext) -> None:
    row, agent = at_rest(cloud, alice)
    Suspend.begin(context("alice"), row.id)
    cloud.run()
    agent.guests.clear()
    agent.hello()
    fresh = Instance.objects.get()
    assert (fresh.vm_state, fresh.power_state) == (VmState.SUSPENDED, PowerState.NOSTATE)
    assert InstanceAction.objects.filter(message=GONE).count() == 1


def test_a_stale_audit_moves_nothing(cloud: Cloud, alice: RequestContext) -> None:
    row, agent = at_rest(cloud, alice)
    Instance.objects.update(updated_at=timezone.now())
    agent.guests.clear()
    agent.measured()
    assert state_of(row) == ("active", None)
    assert not InstanceAction.objects.filter(message=GONE).exists()


# ----- what is left ---------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_what_is_left_of_a_deleted_server_is_ordered_away_at_the_second_look(
    cloud: Cloud, alice: RequestContext
) -> None:
    row, agent = at_rest(cloud, alice)
    delete(context("alice"), row.id)
    cloud.run()
    HostCommand.objects.update(created_at=timezone.now() - timedelta(hours=1))
    agent.left, before = [folder(row)], destroys()
    agent.measured()
    assert destroys() == before
    agent.measured()
    assert destroys() == before + 1
    agent.measured()
    assert destroys() == before + 1, "it was asked already"
    agent.work()
    agent.left = []
    agent.measured()
    assert not Kept.objects.exists()


@pytest.mark.doctor_finds("leftovers")
def test_what_is_left_of_a_server_that_is_elsewhere_is_ordered_away(cloud: Cloud, alice: RequestContext) -> None:
    row, agent = at_rest(cloud, alice)
    other = cloud.add_host("two")
    other.left = [folder(row)]
    other.measured()
    other.measured()
    order = HostCommand.objects.get(kind="destroy_request")
    assert (order.host_id, order.subject_id) == (other.host.id, row.id)
    cloud.run()
    assert state_of(row) == ("active", None)
    assert str(row.id) in agent.guests


@pytest.mark.doctor_finds("guests")
def test_what_a_server_has_on_its_own_host_stays(cloud: Cloud, alice: RequestContext) -> None:
    """Somebody removed the domain and left the disk: the owner can start it."""
    row, agent = at_rest(cloud, alice)
    agent.guests.clear()
    agent.left = [folder(row)]
    for _ in range(3):
        agent.measured()
    assert not destroys()
    assert state_of(row) == ("stopped", None)


@pytest.mark.doctor_finds("leftovers")
def test_what_no_record_knows_is_kept_in_mind_and_left_alone(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("one")
    stranger, lost = str(uuid.uuid4()), uuid.uuid4()
    agent.guests[stranger] = (1, PowerState.RUNNING)
    agent.left = [folder(lost), Leftover(kind="foreign_domain", name="somebodys-vm")]
    for _ in range(3):
        agent.measured()
    assert not HostCommand.objects.exists()
    kept = {(row.kind, row.name) for row in Kept.objects.all()}
    assert kept == {("guest", stranger), ("folder", str(lost)), ("foreign_domain", "somebodys-vm")}


def test_an_agent_that_did_not_look_forgets_nothing(cloud: Cloud) -> None:
    agent = cloud.add_host("one")
    agent.left = [folder(uuid.uuid4())]
    agent.measured()
    agent.left = None
    agent.measured()
    assert Kept.objects.count() == 1


def test_a_host_cannot_fill_the_table(cloud: Cloud) -> None:
    agent = cloud.add_host("one")
    agent.left = [Leftover(kind="x" * 100, name=f"\0\n{number}" + "y" * 400) for number in range(3 * MOST_LEFTOVERS)]
    agent.measured()
    agent.measured()
    assert Kept.objects.count() == MOST
    agent.left = [Leftover(kind="tap", name="t", subject_id="no id")]
    agent.measured()
    assert [(row.kind, row.subject_id) for row in Kept.objects.all()] == [("tap", None)]


# ----- what a host owns -----------------------------------------------------------------------------------------------


def owned(agent: ScriptedAgent) -> dict[str, int]:
    return {each.subject_id: each.generation for each in liveness.ownership(agent.host.id).subjects}


@pytest.mark.slow
def test_a_host_owns_what_is_there_or_on_its_way(cloud: Cloud, alice: RequestContext) -> None:
    row, agent = at_rest(cloud, alice)
    coming = cloud.launch(alice)
    assert owned(agent) == {str(row.id): row.attempt}
    drain()
    assert owned(agent) == {str(row.id): row.attempt, str(coming.id): cloud.fresh(coming).attempt}
    delete(context("alice"), row.id)
    assert owned(agent)[str(row.id)] == row.attempt + 1
    cloud.run()
    assert set(owned(agent)) == {str(coming.id)}


def test_a_host_does_not_own_what_was_given_to_another_or_failed(cloud: Cloud, alice: RequestContext) -> None:
    agent = cloud.add_host("one")
    row = cloud.launch(alice)
    drain()
    (order,) = agent.take()
    assert owned(agent) == {str(row.id): order.generation}
    agent.fail(order, "It broke.", retryable=True)
    assert owned(agent) == {}
    cloud.run()
