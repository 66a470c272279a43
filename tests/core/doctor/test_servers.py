"""What the doctor finds of servers, and of the commands for them."""

from __future__ import annotations

import uuid

import pytest
from django.utils import timezone
from django_q.models import OrmQ

from compute_agent.contract.commands import PowerRequest
from provisioning.common.context import RequestContext
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.power import Stop
from provisioning.compute.actions.reset_state import ResetState
from provisioning.compute.actions.resize import ConfirmResize, resize
from provisioning.compute.launch.retry import retry
from provisioning.compute.models import InstanceAction, InstanceFault, Migration
from provisioning.compute.records import host_commands
from provisioning.compute.states import TaskState, VmState
from provisioning.compute.upkeep.reaper import reap
from provisioning.doctor.checks.actions import LEFT_OPEN
from provisioning.doctor.examinations.examination import treat
from provisioning.hosts.models import HostCommand
from tests.core.doctor.findings import OLD, broken, look, only, repaired
from tests.support import invariants
from tests.support.clouds import ADMIN, Cloud, context
from tests.support.jobs import drain


def test_a_task_without_a_deadline(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.launch(alice)
    broken(row, task_deadline=None)
    finding = only("tasks")
    assert (finding.severity, finding.subject) == ("error", f"instance {row.id}")
    assert finding.sentence == "It is scheduling and has no deadline: nothing would ever end the task."
    assert repaired("tasks").startswith("The deadline is ")


def test_a_deadline_without_a_task(cloud: Cloud, alice: RequestContext) -> None:
    broken(cloud.running(alice), task_deadline=timezone.now())
    assert repaired("tasks") == "The deadline was removed."


def test_a_task_that_nobody_ends(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.launch(alice)
    broken(row, task_deadline=timezone.now() - OLD)
    assert only("tasks").sentence.startswith("It is scheduling, 3600 seconds past its deadline")
    assert repaired("tasks") == "The reaper has handled it: building, scheduling."


def test_a_state_that_is_none(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    broken(row, vm_state=VmState.PAUSED, task_state=TaskState.SPAWNING, task_deadline=timezone.now() + OLD)
    assert only("states").sentence == (
        "It is paused with the task spawning, a combination that does not exist. An operator may reset it to error."
    )


def test_a_deletion_without_a_date(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    delete(context("alice"), row.id)
    cloud.run()
    broken(row, deleted_at=None)
    assert repaired("states") == "The deletion time was set to the time of the last change."


def test_a_date_of_a_deletion_that_was_none(cloud: Cloud, alice: RequestContext) -> None:
    broken(cloud.running(alice), deleted_at=timezone.now())
    assert only("states").sentence == "It is active, but has a deletion time."


def test_a_resized_server_that_forgot_its_other_size(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    resize(context("alice"), row.id, "2")
    cloud.run()
    assert look("states") == []
    broken(row, old_flavor=None)
    assert only("states").subject == f"instance {row.id}"


def test_an_error_that_nothing_explains(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    broken(row, vm_state=VmState.ERROR)
    assert only("faults").subject == f"instance {row.id}"
    ResetState.begin(context("operator", ADMIN), row.id, "active")
    ResetState.begin(context("operator", ADMIN), row.id, "error")
    assert look("faults") == [], "an operator knows why"
    InstanceAction.objects.filter(action="resetState").delete()
    assert look("faults")
    InstanceFault.objects.create(instance=row, code=500, message="Its disk is full.")
    assert look("faults") == []


@pytest.mark.parametrize("message", ["", "broken", "KeyError: 'host' was not there", "The size is None", 'File "x"'])
def test_what_no_user_understands(cloud: Cloud, alice: RequestContext, message: str) -> None:
    row = cloud.running(alice)
    InstanceAction.objects.update(message="The host did not report.")
    InstanceFault.objects.create(instance=row, code=500, message="Its disk is full.")
    assert look("messages") == []
    InstanceFault.objects.update(message=message)
    assert repr(message) in only("messages").sentence
    InstanceFault.objects.all().delete()
    InstanceAction.objects.update(message=message)
    assert [each.subject for each in look("messages")] == [f"instance {row.id}"] * bool(message)


def test_a_launch_whose_job_is_lost(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.launch(alice)
    assert look("launches") == []
    OrmQ.objects.all().delete()
    assert only("launches").sentence == "It is scheduling, but no scheduling job is queued for it."
    repaired("launches")
    cloud.run()
    assert cloud.fresh(row).vm_state == VmState.ACTIVE


def test_a_launch_that_waits_for_the_host_that_failed_is_not_lost(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.launch(alice)
    drain()
    fresh = cloud.fresh(row)
    assert fresh.host_id is not None
    retry(fresh, fresh.host_id, "It is silent.", clean=False)
    assert look("launches", "commands", "missing_commands", "allocations", "ports") == []
    cloud.run()
    assert cloud.fresh(row).vm_state == VmState.ACTIVE


def test_an_action_that_never_ended(cloud: Cloud, alice: RequestContext) -> None:
    cloud.running(alice)
    InstanceAction.objects.update(finished_at=None)
    assert only("actions").sentence.startswith("The action create of ")
    assert repaired("actions") == "The action create is closed."
    assert InstanceAction.objects.get().message == LEFT_OPEN


@pytest.mark.slow
def test_a_move_that_never_ended(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    resize(context("alice"), row.id, "2")
    cloud.run()
    assert look("migrations") == []
    ConfirmResize.begin(context("alice"), row.id)
    cloud.run()
    Migration.objects.update(status="migrating")
    assert only("migrations").sentence == "Its resize is migrating, but nothing is running."
    assert repaired("migrations") == "It is closed."


def test_a_move_that_an_operator_cut_off_is_only_reported(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    resize(context("alice"), row.id, "2")
    cloud.run()
    ResetState.begin(context("operator", ADMIN), row.id, "active")
    assert only("migrations").severity == "note"


@pytest.mark.slow
def test_a_command_that_nobody_awaits(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    assert row.host_id
    host_commands.send(row.host_id, row.id, row.attempt, PowerRequest(action="stop"), None)
    assert only("commands").sentence == (
        f"The command power_request of attempt {row.attempt} is open: the server is active, no task."
    )
    assert repaired("commands") == "The command was withdrawn."
    host_commands.send(row.host_id, row.id, row.attempt - 1, PowerRequest(action="stop"), None)
    assert f"the server is at attempt {row.attempt}" in only("commands").sentence
    repaired("commands")
    host_commands.send(uuid.uuid4(), row.id, row.attempt, PowerRequest(action="stop"), None)
    assert "its host no longer exists" in only("commands").sentence
    repaired("commands")
    host_commands.send(row.host_id, uuid.uuid4(), 1, PowerRequest(action="stop"), None)
    assert "the server has no record" in only("commands").sentence
    assert treat(look("commands"), repair=True)[0].repaired
    assert look("commands") == []


def test_a_task_whose_command_is_lost(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    Stop.begin(context("alice"), row.id)
    HostCommand.objects.filter(finished_at=None).delete()
    assert only("missing_commands").sentence == "It is powering-off, but no host has an open command for this task."
    (treated,) = treat([only("missing_commands")], repair=True)
    assert treated.repaired == "The deadline was set to now: the reaper ends the task in its next run."
    reap()
    assert look("missing_commands", "tasks", "actions") == []
    assert cloud.fresh(row).task_state is None


def test_a_task_with_two_commands(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    Stop.begin(context("alice"), row.id)
    assert look("missing_commands") == []
    row = cloud.fresh(row)
    assert row.host_id
    host_commands.send(row.host_id, row.id, row.attempt, PowerRequest(action="stop"), None)
    assert only("missing_commands").sentence.startswith("It is powering-off, and 2 commands for this task are open")


@pytest.mark.slow
def test_a_resize_that_settles_an_earlier_one_has_two_commands(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    resize(context("alice"), row.id, "2")
    ResetState.begin(context("operator", ADMIN), row.id, "active")
    resize(context("alice"), row.id, "2")
    assert HostCommand.objects.filter(finished_at=None).count() == 2
    assert look("commands", "missing_commands") == []


@pytest.mark.slow
def test_a_delete_whose_command_is_lost(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    delete(context("alice"), row.id)
    HostCommand.objects.filter(finished_at=None).delete()
    assert "is not asked to remove it" in only("missing_commands").sentence
    repaired("missing_commands")
    cloud.run()
    invariants.check_empty()
