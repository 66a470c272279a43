"""Pause, suspend, lock, a password, a state set by hand, and deletes that can be taken back."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import Settings

from compute_agent.contract.commands import PasswordRequest, PowerRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.lock import Unlock, lock
from provisioning.compute.actions.power import ChangePassword, CrashDump, Power, Start, Stop, reboot
from provisioning.compute.actions.reset_state import ResetState
from provisioning.compute.actions.soft_delete import Restore
from provisioning.compute.errors import InstanceBusyError, InstanceLockedError
from provisioning.compute.models import Instance, InstanceAction, InstanceActionEvent, InstanceFault
from provisioning.compute.states import PowerState
from provisioning.compute.upkeep.reaper import reap
from provisioning.compute.upkeep.reclaim import reclaim
from provisioning.hosts.models import Host, HostCommand
from provisioning.quotas.services.repair import examine
from tests.support.actions import service
from tests.support.clouds import ADMIN, Cloud, context, state_of
from tests.support.standing import standing

pytestmark = pytest.mark.django_db


@pytest.fixture
@standing
def running(cloud: Cloud, alice: RequestContext) -> Instance:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    return instance


def operator() -> RequestContext:
    return context("operator", ADMIN)


@pytest.mark.parametrize(
    ("there", "task", "state", "power", "back"),
    [
        ("pause", "pausing", "paused", PowerState.PAUSED, "unpause"),
        ("suspend", "suspending", "suspended", PowerState.SHUTDOWN, "resume"),
    ],
)
def test_there_and_back(
    cloud: Cloud, running: Instance, there: Power, task: str, state: str, power: PowerState, back: Power
) -> None:
    service(there)(context("alice"), running.id)
    assert state_of(running) == ("active", task)
    cloud.run()
    assert state_of(running) == (state, None)
    assert cloud.fresh(running).power_state == power
    with pytest.raises(
        InstanceBusyError, match=f"Cannot '{there}' instance {running.id} while it is in vm_state {state}"
    ):
        service(there)(context("alice"), running.id)
    service(back)(context("alice"), running.id)
    cloud.run()
    assert state_of(running) == ("active", None)
    assert cloud.fresh(running).power_state == PowerState.RUNNING
    done = InstanceAction.objects.filter(instance=running).order_by("id")
    assert [(row.action, row.finished_at is not None, row.message) for row in done][1:] == [
        (there, True, None),
        (back, True, None),
    ]
    steps = InstanceActionEvent.objects.filter(action__action=there).order_by("id")
    assert [(row.name, row.result, row.host) for row in steps] == [
        (f"api_{there}", "Success", ""),
        (f"compute_{there}", "Success", "kelvin"),
    ]


def test_a_suspended_guest_is_not_found_stopped(cloud: Cloud, running: Instance) -> None:
    service("suspend")(context("alice"), running.id)
    cloud.run()
    cloud.agents["kelvin"].power(running.id, PowerState.SHUTDOWN)
    assert state_of(running) == ("suspended", None)


@pytest.mark.parametrize("before", ["pause", "suspend", "stop"])
def test_a_hard_reboot_brings_every_resting_server_up(cloud: Cloud, running: Instance, before: Power) -> None:
    service(before)(context("alice"), running.id)
    cloud.run()
    reboot(context("alice"), running.id, hard=True)
    cloud.run()
    assert state_of(running) == ("active", None)


def test_what_a_host_could_not_do_is_reported_in_the_action_and_in_a_fault(cloud: Cloud, running: Instance) -> None:
    service("pause")(context("alice"), running.id)
    agent = cloud.agents["kelvin"]
    (order,) = agent.take()
    agent.report(order, "failed", error_code="unsupported", message="The guest does not run.")
    assert state_of(running) == ("active", None)
    action = InstanceAction.objects.get(instance=running, action="pause")
    assert action.message == "The guest does not run."
    assert InstanceActionEvent.objects.get(action=action, name="compute_pause").result == "Error"
    assert InstanceFault.objects.get(instance=running).message == "The guest does not run."


def test_an_order_without_an_answer_ends_and_what_comes_late_is_passed_over(cloud: Cloud, running: Instance) -> None:
    service("pause")(context("alice"), running.id)
    agent = cloud.agents["kelvin"]
    (order,) = agent.take()
    Instance.objects.filter(id=running.id).update(task_deadline=timezone.now() - timedelta(seconds=1))
    reap()
    assert state_of(running) == ("active", None)
    assert "did not report" in (InstanceAction.objects.get(instance=running, action="pause").message or "")
    agent.report(order, "finished", power_state=PowerState.PAUSED)
    assert state_of(running) == ("active", None)


# ----- lock -----------------------------------------------------------------------------------------------------------


def test_a_locked_server_is_left_alone_by_all_but_operators(cloud: Cloud, running: Instance) -> None:
    lock(context("alice"), running.id, reason="it is the mail server")
    for deed in (
        lambda who: Stop.begin(who, running.id),
        lambda who: delete(who, running.id),
        lambda who: service("pause")(who, running.id),
    ):
        with pytest.raises(InstanceLockedError, match=f"Instance {running.id} is locked: it is the mail server"):
            deed(context("alice"))
    Stop.begin(operator(), running.id)
    cloud.run()
    assert state_of(running) == ("stopped", None)
    Unlock.begin(context("alice"), running.id)
    Start.begin(context("alice"), running.id)
    cloud.run()
    fresh = cloud.fresh(running)
    assert (state_of(running), fresh.locked, fresh.locked_reason) == (("active", None), False, None)


# ----- password -------------------------------------------------------------------------------------------------------


def test_a_password_goes_to_the_guests_agent_and_is_kept_nowhere(cloud: Cloud, running: Instance) -> None:
    with pytest.raises(ConflictError, match="no guest agent"):
        ChangePassword.begin(context("alice"), running.id, "sesame-open")
    assert state_of(running) == ("active", None)
    Instance.objects.filter(id=running.id).update(
        image_properties={"hw_qemu_guest_agent": "yes", "os_admin_user": "ada"}
    )
    ChangePassword.begin(context("alice"), running.id, "sesame-open")
    assert state_of(running) == ("active", "updating_password")
    agent = cloud.agents["kelvin"]
    (order,) = agent.take()
    assert order.body == PasswordRequest(user="ada", password="sesame-open")
    agent.carry_out(order)
    assert state_of(running) == ("active", None)
    assert not HostCommand.objects.filter(body__contains="sesame").exists()


# ----- by hand --------------------------------------------------------------------------------------------------------


def test_a_reset_ends_whatever_goes_on(cloud: Cloud, running: Instance) -> None:
    Stop.begin(context("alice"), running.id)
    (order,) = cloud.agents["kelvin"].take()
    ResetState.begin(operator(), running.id, "error")
    assert state_of(running) == ("error", None)
    cloud.agents["kelvin"].report(order, "finished", power_state=PowerState.SHUTDOWN)
    assert state_of(running) == ("error", None)
    assert not InstanceAction.objects.filter(instance=running, finished_at=None).exists()
    ResetState.begin(operator(), running.id, "active")
    assert state_of(running) == ("active", None)
    ResetState.begin(operator(), running.id, "error")
    delete(context("alice"), running.id)
    cloud.run()
    assert state_of(running) == ("deleted", None)


def test_a_server_without_a_host_is_not_set_to_active(cloud: Cloud, alice: RequestContext) -> None:
    lost = cloud.launch(alice)
    cloud.run()
    assert state_of(lost) == ("error", None)
    with pytest.raises(ConflictError, match="has no host"):
        ResetState.begin(operator(), lost.id, "active")


# ----- delete with a way back -----------------------------------------------------------------------------------------


@pytest.fixture
def keeping(settings: Settings) -> None:
    settings.RECLAIM_INSTANCE_INTERVAL = 3600


def expire(instance: Instance) -> None:
    Instance.objects.filter(id=instance.id).update(soft_deleted_at=timezone.now() - timedelta(hours=2))


@pytest.mark.parametrize(("before", "afterwards"), [(None, "active"), ("stop", "stopped"), ("suspend", "stopped")])
@pytest.mark.usefixtures("keeping")
def test_a_deleted_server_comes_back(cloud: Cloud, running: Instance, before: Power | None, afterwards: str) -> None:
    if before:
        service(before)(context("alice"), running.id)
        cloud.run()
    delete(context("alice"), running.id)
    cloud.run()
    assert state_of(running) == ("soft-delete", None)
    assert cloud.agents["kelvin"].guests[str(running.id)][1] == PowerState.SHUTDOWN
    Restore.begin(context("alice"), running.id)
    cloud.run()
    assert state_of(running) == (afterwards, None)
    assert examine() == []
    with pytest.raises(InstanceBusyError, match="Cannot 'restore'"):
        Restore.begin(context("alice"), running.id)


@pytest.mark.usefixtures("keeping")
def test_what_nobody_restores_is_reclaimed_when_its_time_is_over(cloud: Cloud, running: Instance) -> None:
    delete(context("alice"), running.id)
    cloud.run()
    assert reclaim() == 0
    expire(running)
    assert reclaim() == 1
    cloud.run()
    assert state_of(running) == ("deleted", None)
    assert str(running.id) not in cloud.agents["kelvin"].guests


@pytest.mark.usefixtures("keeping")
def test_a_delete_that_is_asked_for_twice_can_still_be_taken_back(cloud: Cloud, running: Instance) -> None:
    for _ in range(2):
        delete(context("alice"), running.id)
        cloud.run()
        assert state_of(running) == ("soft-delete", None)
    delete(context("alice"), running.id, force=True)
    cloud.run()
    assert state_of(running) == ("deleted", None)


@pytest.mark.usefixtures("keeping")
def test_a_forced_delete_is_for_good(cloud: Cloud, running: Instance) -> None:
    delete(context("alice"), running.id, force=True)
    cloud.run()
    assert state_of(running) == ("deleted", None)


@pytest.mark.usefixtures("keeping")
def test_the_host_being_down_stops_no_delete(cloud: Cloud, running: Instance) -> None:
    Host.objects.update(last_seen_at=timezone.now() - timedelta(hours=1))
    delete(context("alice"), running.id)
    assert state_of(running) == ("soft-delete", None)
    (order,) = cloud.agents["kelvin"].take()
    assert isinstance(order.body, PowerRequest)
    assert order.body.action == "stop"


def test_one_crash_dump_at_a_time(cloud: Cloud, running: Instance) -> None:
    agent = cloud.agent_of(running)
    CrashDump.begin(context("alice"), running.id)
    with pytest.raises(ConflictError):
        CrashDump.begin(context("alice"), running.id)
    (command,) = agent.take()
    with pytest.raises(ConflictError):
        CrashDump.begin(context("alice"), running.id)
    agent.carry_out(command)
    CrashDump.begin(context("alice"), running.id)
    assert InstanceAction.objects.filter(instance=running, action="trigger_crash_dump").count() == 2


def test_a_crash_dump_without_an_answer_ends(cloud: Cloud, running: Instance) -> None:
    """It has a deadline: the action is closed, the fault says why, and nothing of it is open at the host."""
    CrashDump.begin(context("alice"), running.id)
    cloud.agents["kelvin"].take()
    command = HostCommand.objects.get(subject_id=running.id, finished_at=None)
    assert (command.beside, command.deadline is not None) == (True, True)
    HostCommand.objects.filter(pk=command.pk).update(deadline=timezone.now() - timedelta(seconds=1))
    reap()
    action = InstanceAction.objects.get(instance=running, action="trigger_crash_dump")
    assert action.finished_at is not None
    assert action.message
    assert InstanceFault.objects.filter(instance=running).exists()
    assert not HostCommand.objects.filter(finished_at=None).exists()
    assert state_of(running) == ("active", None)
