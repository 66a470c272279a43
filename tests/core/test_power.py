"""Start, stop, reboot; and guests whose power changes by itself."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

import pytest
from django.utils import timezone

from compute_agent.contract.commands import PowerRequest
from provisioning.common.context import RequestContext
from provisioning.common.errors import NotFoundError, UnavailableError
from provisioning.compute.actions import power
from provisioning.compute.actions.power import Start, Stop
from provisioning.compute.errors import InstanceBusyError
from provisioning.compute.models import Instance, InstanceAction
from provisioning.compute.states import PowerState
from provisioning.hosts.models import Host
from tests.support.clouds import Cloud, context, state_of
from tests.support.standing import standing

pytestmark = pytest.mark.django_db


@pytest.fixture
@standing
def running(cloud: Cloud, alice: RequestContext) -> Instance:
    cloud.add_host("kelvin")
    instance = cloud.launch(alice)
    cloud.run()
    return instance


def order_of(cloud: Cloud) -> str:
    (command,) = cloud.agents["kelvin"].take(acknowledge=False)
    assert isinstance(command.body, PowerRequest)
    return command.body.action


@pytest.mark.slow
def test_stop_and_start(cloud: Cloud, running: Instance) -> None:
    Stop.begin(context("alice"), running.id)
    assert state_of(running) == ("active", "powering-off")
    assert order_of(cloud) == "stop"
    cloud.run()
    assert state_of(running) == ("stopped", None)
    assert cloud.fresh(running).power_state == PowerState.SHUTDOWN
    Start.begin(context("alice"), running.id)
    assert state_of(running) == ("stopped", "powering-on")
    assert order_of(cloud) == "start"
    cloud.run()
    assert state_of(running) == ("active", None)
    assert cloud.fresh(running).power_state == PowerState.RUNNING
    actions = InstanceAction.objects.filter(instance=running).order_by("id")
    assert [(row.action, row.finished_at is not None, row.message) for row in actions] == [
        ("create", True, None),
        ("stop", True, None),
        ("start", True, None),
    ]


@pytest.mark.parametrize(
    ("hard", "task", "order"), [(False, "rebooting", "reboot_soft"), (True, "rebooting_hard", "reboot_hard")]
)
def test_reboot(cloud: Cloud, running: Instance, *, hard: bool, task: str, order: str) -> None:
    power.reboot(context("alice"), running.id, hard=hard)
    assert state_of(running) == ("active", task)
    assert order_of(cloud) == order
    cloud.run()
    assert state_of(running) == ("active", None)


@pytest.mark.parametrize("work", [Start.begin, Stop.begin, power.reboot])
def test_not_while_something_else_goes_on(cloud: Cloud, running: Instance, work: Callable[..., Instance]) -> None:
    Stop.begin(context("alice"), running.id)
    with pytest.raises(InstanceBusyError, match="task_state powering-off"):
        work(context("alice"), running.id)


def test_a_running_server_cannot_be_started(cloud: Cloud, running: Instance) -> None:
    with pytest.raises(InstanceBusyError, match=r"Cannot 'start' instance .* while it is in vm_state active"):
        Start.begin(context("alice"), running.id)


def test_not_another_projects(cloud: Cloud, running: Instance, charlie: RequestContext) -> None:
    with pytest.raises(NotFoundError):
        Stop.begin(charlie, running.id)


def test_not_when_the_host_is_down(cloud: Cloud, running: Instance) -> None:
    Host.objects.update(last_seen_at=timezone.now() - timedelta(hours=1))
    with pytest.raises(UnavailableError):
        Stop.begin(context("alice"), running.id)
    assert state_of(running) == ("active", None)
    assert cloud.agents["kelvin"].take() == []


def test_a_failed_stop_leaves_it_active_and_says_why(cloud: Cloud, running: Instance) -> None:
    Stop.begin(context("alice"), running.id)
    agent = cloud.agents["kelvin"]
    agent.report(agent.take()[0], "failed", error_code="host_error", message="The guest does not listen.")
    assert state_of(running) == ("active", None)
    assert InstanceAction.objects.get(instance=running, action="stop").message == "The guest does not listen."


@pytest.mark.doctor_finds("actions")
def test_the_end_of_an_older_order_does_not_end_a_newer_task(cloud: Cloud, running: Instance) -> None:
    agent = cloud.agents["kelvin"]
    power.reboot(context("alice"), running.id)
    (reboot,) = agent.take()
    Instance.objects.filter(id=running.id).update(task_state="powering-off")
    agent.report(reboot, "finished", power_state=PowerState.RUNNING)
    assert state_of(running) == ("active", "powering-off")
    Instance.objects.filter(id=running.id).update(task_state=None, task_deadline=None)


def test_a_guest_that_shuts_itself_down_is_found_stopped(cloud: Cloud, running: Instance) -> None:
    agent = cloud.agents["kelvin"]
    agent.power(running.id, PowerState.SHUTDOWN)
    assert state_of(running) == ("stopped", None)
    agent.power(running.id, PowerState.RUNNING)
    assert state_of(running) == ("active", None)
    agent.power(running.id, PowerState.CRASHED)
    assert state_of(running) == ("stopped", None)
    assert cloud.fresh(running).power_state == PowerState.CRASHED


def test_power_changes_during_a_task_are_left_to_its_end(cloud: Cloud, running: Instance) -> None:
    agent = cloud.agents["kelvin"]
    power.reboot(context("alice"), running.id)
    agent.power(running.id, PowerState.SHUTDOWN)
    assert state_of(running) == ("active", "rebooting")
    cloud.run()
    assert state_of(running) == ("active", None)


def test_a_power_report_of_an_old_attempt_changes_nothing(cloud: Cloud, running: Instance) -> None:
    agent = cloud.agents["kelvin"]
    agent.guests[str(running.id)] = (7, PowerState.RUNNING)
    agent.power(running.id, PowerState.SHUTDOWN)
    assert state_of(running) == ("active", None)


def test_a_paused_guest_keeps_its_state_and_shows_its_power(cloud: Cloud, running: Instance) -> None:
    cloud.agents["kelvin"].power(running.id, PowerState.PAUSED)
    assert state_of(running) == ("active", None)
    assert cloud.fresh(running).power_state == PowerState.PAUSED


def test_a_repeated_report_of_an_earlier_stop_does_not_end_a_later_one(cloud: Cloud, running: Instance) -> None:
    agent = cloud.agents["kelvin"]
    Stop.begin(context("alice"), running.id)
    cloud.run()
    Start.begin(context("alice"), running.id)
    cloud.run()
    Stop.begin(context("alice"), running.id)
    agent.repeat_everything()
    assert state_of(running) == ("active", "powering-off")
    cloud.run()
    assert state_of(running) == ("stopped", None)
