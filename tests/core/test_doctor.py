"""The doctor: each check sees what a broken record is, says it in plain words, and mends it."""

from __future__ import annotations

import json
import uuid
from datetime import timedelta
from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone
from django_q.models import OrmQ

from compute_agent.contract.commands import PowerRequest
from compute_agent.contract.messages import Leftover
from provisioning.common.context import RequestContext
from provisioning.compute import host_commands
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.interfaces import detach_interface
from provisioning.compute.actions.power import start, stop
from provisioning.compute.actions.reset_state import reset_state
from provisioning.compute.actions.resize import confirm_resize, resize
from provisioning.compute.actions.shelve import shelve
from provisioning.compute.actions.snapshot import create_image
from provisioning.compute.launch.retry import retry
from provisioning.compute.models import Allocation, Instance, InstanceAction, InstanceFault, Migration
from provisioning.compute.states import TaskState, VmState
from provisioning.compute.upkeep.reaper import reap
from provisioning.doctor import runs
from provisioning.doctor.checks import queue
from provisioning.doctor.checks.actions import LEFT_OPEN
from provisioning.doctor.examination import examine, treat
from provisioning.doctor.finding import Finding, checks
from provisioning.doctor.models import DoctorRun
from provisioning.doctor.runs import KEPT
from provisioning.hosts.models import Host, HostCommand
from provisioning.images import services as images
from provisioning.images.models import Image
from provisioning.jobs.models import Lease, WorkerBeat
from provisioning.network.models import FixedIP, Port
from provisioning.notifications.models import Delivery, Webhook
from provisioning.notifications.services import STANDING
from provisioning.quotas.models import QuotaUsage
from tests.support import invariants
from tests.support.clouds import ADMIN, Cloud, context
from tests.support.jobs import drain


@pytest.fixture
def cloud(db: None) -> Cloud:
    """A cloud with two hosts and a worker; what a test breaks and does not mend stays broken."""
    made = Cloud.make()
    made.add_host("one")
    made.add_host("two")
    WorkerBeat.objects.create(name="m:b:1", topics="scheduler,conductor", beat_at=timezone.now())
    return made


def look(*names: str) -> list[Finding]:
    return examine(names, pause=0)


def only(check: str) -> Finding:
    (found,) = look(check)
    return found


def mended(check: str) -> str:
    """Mend the one thing that a check finds; it finds nothing any more."""
    (treated,) = treat([only(check)], repair=True)
    assert treated.repaired
    assert look(check) == []
    invariants.check()
    return treated.repaired


def at_rest(cloud: Cloud, caller: RequestContext) -> Instance:
    made = cloud.launch(caller)
    cloud.run()
    return cloud.fresh(made)


def shelved(cloud: Cloud, caller: RequestContext) -> Instance:
    row = at_rest(cloud, caller)
    shelve(context("alice"), row.id)
    cloud.run()
    return cloud.fresh(row)


# ----- what is well is not found --------------------------------------------------------------------------------------


def test_a_busy_cloud_is_well(cloud: Cloud, alice: RequestContext) -> None:
    assert look() == []
    for _ in range(3):
        at_rest(cloud, alice)
    first, second, third = (cloud.fresh(row) for row in Instance.objects.order_by("created_at"))
    cloud.launch(alice)
    assert look() == []
    stop(context("alice"), first.id)
    delete(context("alice"), second.id)
    create_image(context("alice"), third.id, "copy")
    assert look() == []
    Host.objects.filter(name="one").update(last_seen_at=timezone.now() - timedelta(hours=1))
    assert {found.check for found in look()} == {"hosts"}
    cloud.run()
    Host.objects.update(last_seen_at=timezone.now())
    assert look() == []


def test_what_moves_between_two_looks_is_not_found(
    cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = at_rest(cloud, alice)
    Instance.objects.filter(id=row.id).update(task_deadline=timezone.now())

    def meanwhile(_: float) -> None:
        Instance.objects.filter(id=row.id).update(task_deadline=None)

    monkeypatch.setattr("provisioning.doctor.examination.time.sleep", meanwhile)
    assert look("tasks") == []


def test_a_repair_looks_a_last_time(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    Port.objects.filter(device_id=row.id).update(device_id=uuid.uuid4())
    found = [each for each in look("ports") if each.mend]
    Port.objects.update(device_id=row.id)
    assert [each.repaired for each in treat(found, repair=True)] == [None]
    assert Port.objects.filter(device_id=row.id).exists()


# ----- servers --------------------------------------------------------------------------------------------------------

OLD = timedelta(hours=1)


def broken(row: Instance, **columns: Any) -> None:
    Instance.objects.filter(id=row.id).update(**columns)


def test_a_task_without_a_deadline(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.launch(alice)
    broken(row, task_deadline=None)
    found = only("tasks")
    assert (found.severity, found.subject) == ("error", f"instance {row.id}")
    assert found.sentence == "It is scheduling and has no deadline: nothing would ever end that."
    assert mended("tasks").startswith("The deadline is ")


def test_a_deadline_without_a_task(cloud: Cloud, alice: RequestContext) -> None:
    broken(at_rest(cloud, alice), task_deadline=timezone.now())
    assert mended("tasks") == "The deadline is gone."


def test_a_task_that_nobody_ends(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.launch(alice)
    broken(row, task_deadline=timezone.now() - OLD)
    assert only("tasks").sentence.startswith("It is scheduling, 3600 seconds past the deadline")
    assert mended("tasks") == "The reaper has looked after it: building, scheduling."


def test_a_state_that_is_none(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    broken(row, vm_state=VmState.PAUSED, task_state=TaskState.SPAWNING, task_deadline=timezone.now() + OLD)
    assert only("states").sentence == (
        "It is paused with the task spawning, which is no state a server can be in. An operator may reset it to error."
    )


def test_a_deletion_without_a_date(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    delete(context("alice"), row.id)
    cloud.run()
    broken(row, deleted_at=None)
    assert mended("states") == "The time of its last change was written down."


def test_a_date_of_a_deletion_that_was_none(cloud: Cloud, alice: RequestContext) -> None:
    broken(at_rest(cloud, alice), deleted_at=timezone.now())
    assert only("states").sentence == "It is active, and has the date of a deletion."


def test_a_resized_server_that_forgot_its_other_size(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    resize(context("alice"), row.id, "2")
    cloud.run()
    assert look("states") == []
    broken(row, old_flavor=None)
    assert only("states").subject == f"instance {row.id}"


def test_an_error_that_nothing_explains(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    broken(row, vm_state=VmState.ERROR)
    assert only("faults").subject == f"instance {row.id}"
    reset_state(context("operator", ADMIN), row.id, "active")
    reset_state(context("operator", ADMIN), row.id, "error")
    assert look("faults") == [], "an operator knows why"
    InstanceAction.objects.filter(action="resetState").delete()
    assert look("faults")
    InstanceFault.objects.create(instance=row, code=500, message="Its disk is full.")
    assert look("faults") == []


@pytest.mark.parametrize("message", ["", "broken", "KeyError: 'host' was not there", "The size is None", 'File "x"'])
def test_what_no_user_understands(cloud: Cloud, alice: RequestContext, message: str) -> None:
    row = at_rest(cloud, alice)
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
    assert only("launches").sentence == "It is scheduling, and no job in the queue looks for a place for it."
    mended("launches")
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
    at_rest(cloud, alice)
    InstanceAction.objects.update(finished_at=None)
    assert only("actions").sentence.startswith("The action create of ")
    assert mended("actions") == "The action create is closed."
    assert InstanceAction.objects.get().message == LEFT_OPEN


def test_a_move_that_never_ended(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    resize(context("alice"), row.id, "2")
    cloud.run()
    assert look("migrations") == []
    confirm_resize(context("alice"), row.id)
    cloud.run()
    Migration.objects.update(status="migrating")
    assert only("migrations").sentence == "Its resize is migrating, and nothing goes on with it."
    assert mended("migrations") == "It is closed."


def test_a_move_that_an_operator_cut_off_is_only_told(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    resize(context("alice"), row.id, "2")
    cloud.run()
    reset_state(context("operator", ADMIN), row.id, "active")
    assert only("migrations").severity == "note"


# ----- commands -------------------------------------------------------------------------------------------------------


def test_a_command_that_nobody_awaits(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    assert row.host_id
    host_commands.send(row.host_id, row.id, row.attempt, PowerRequest(action="stop"), None)
    assert only("commands").sentence == (
        f"The command power_request of attempt {row.attempt} is open: the server is active, no task."
    )
    assert mended("commands") == "The command is withdrawn."
    host_commands.send(row.host_id, row.id, row.attempt - 1, PowerRequest(action="stop"), None)
    assert f"the server is at attempt {row.attempt}" in only("commands").sentence
    mended("commands")
    host_commands.send(uuid.uuid4(), row.id, row.attempt, PowerRequest(action="stop"), None)
    assert "its host is not there any more" in only("commands").sentence
    mended("commands")
    host_commands.send(row.host_id, uuid.uuid4(), 1, PowerRequest(action="stop"), None)
    assert "no record knows the server" in only("commands").sentence
    assert treat(look("commands"), repair=True)[0].repaired
    assert look("commands") == []


def test_a_task_whose_command_is_lost(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    stop(context("alice"), row.id)
    HostCommand.objects.filter(finished_at=None).delete()
    assert only("missing_commands").sentence == "It is powering-off, and no command for that is open at any host."
    (treated,) = treat([only("missing_commands")], repair=True)
    assert treated.repaired == "Its time is up: the reaper ends the task with its next round."
    reap()
    assert look("missing_commands", "tasks", "actions") == []
    assert cloud.fresh(row).task_state is None


def test_a_task_with_two_commands(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    stop(context("alice"), row.id)
    assert look("missing_commands") == []
    row = cloud.fresh(row)
    assert row.host_id
    host_commands.send(row.host_id, row.id, row.attempt, PowerRequest(action="stop"), None)
    assert only("missing_commands").sentence.startswith("It is powering-off, and 2 commands for that are open")


def test_a_resize_that_settles_an_earlier_one_has_two_commands(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    resize(context("alice"), row.id, "2")
    reset_state(context("operator", ADMIN), row.id, "active")
    resize(context("alice"), row.id, "2")
    assert HostCommand.objects.filter(finished_at=None).count() == 2
    assert look("commands", "missing_commands") == []


def test_a_delete_whose_command_is_lost(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    delete(context("alice"), row.id)
    HostCommand.objects.filter(finished_at=None).delete()
    assert "is not asked to remove it" in only("missing_commands").sentence
    mended("missing_commands")
    cloud.run()
    invariants.check_empty()


# ----- room -----------------------------------------------------------------------------------------------------------


def test_a_host_that_miscounts(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    assert row.host is not None
    Host.objects.filter(id=row.host_id).update(vcpus_allocated=5, instances_allocated=7)
    found = only("host_counters")
    assert found.subject == f"host {row.host.name}"
    assert found.sentence == (
        "It counts 7 servers with 5 vCPUs, 1024 MiB and 2 GiB; the servers there hold 1 server with 1 vCPU, 1024 MiB"
        " and 2 GiB."
    )
    mended("host_counters")


def test_room_that_nobody_needs(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    held = Allocation.objects.values().get()
    Host.objects.update(last_seen_at=timezone.now() - OLD)
    delete(context("alice"), row.id)
    Host.objects.update(last_seen_at=timezone.now())
    HostCommand.objects.update(created_at=timezone.now() - OLD, finished_at=timezone.now())
    assert look("allocations") == [], "the reaper has its time"
    broken(row, updated_at=timezone.now() - OLD)
    assert "which nobody asks to remove it" in only("allocations").sentence
    mended("allocations")
    cloud.run()
    assert not Allocation.objects.exists()
    assert held
    invariants.check_empty()


def test_room_about_which_nobody_was_ever_asked(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    Host.objects.update(last_seen_at=timezone.now() - OLD)
    delete(context("alice"), row.id)
    assert look("allocations") == []
    HostCommand.objects.all().delete()
    assert "which nobody asks to remove it" in only("allocations").sentence
    mended("allocations")


def test_room_of_a_launch_that_looks_for_another_host(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.launch(alice)
    drain()
    fresh = cloud.fresh(row)
    assert fresh.host_id is not None
    retry(fresh, fresh.host_id, "It is silent.", clean=False)
    assert look("allocations") == []
    HostCommand.objects.all().delete()
    assert only("allocations").sentence.startswith("It is building, and holds room on host ")
    mended("allocations")
    cloud.run()
    assert cloud.fresh(row).vm_state == VmState.ACTIVE


def test_a_host_that_gives_more_than_it_has(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    assert row.host is not None
    for column, unit in (("vcpus_total", "vCPUs"), ("memory_mb_total", "MiB"), ("disk_gb_total", "GiB")):
        before = getattr(row.host, column)
        Host.objects.filter(id=row.host_id).update(**{column: 0})
        found = only("full_hosts")
        assert (found.subject, unit in found.sentence) == (f"host {row.host.name}", True)
        Host.objects.filter(id=row.host_id).update(**{column: before})


def test_a_server_that_comes_off_its_shelf_without_room(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    broken(row, vm_state=VmState.SHELVED_OFFLOADED)
    assert look("without_room") == []
    Allocation.objects.all().delete()
    assert only("without_room").subject == f"instance {row.id}"


def test_room_of_another_size(cloud: Cloud, alice: RequestContext) -> None:
    at_rest(cloud, alice)
    Allocation.objects.update(vcpus=3)
    Host.objects.filter(instances_allocated=1).update(vcpus_allocated=3)
    assert only("allocations").sentence.endswith("its flavor says 1, 1024 and 2.")
    mended("allocations")


def test_room_on_another_host(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    broken(row, host=Host.objects.exclude(id=row.host_id).get())
    assert "It is on another host than" in only("allocations").sentence


def test_a_server_without_room(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    Allocation.objects.all().delete()
    Host.objects.filter(id=row.host_id).update(
        vcpus_allocated=0, memory_mb_allocated=0, disk_gb_allocated=0, instances_allocated=0
    )
    assert "holds no room there: others may take it" in only("without_room").sentence
    mended("without_room")


# ----- addresses ------------------------------------------------------------------------------------------------------


def test_ports_of_nobody(cloud: Cloud, alice: RequestContext) -> None:
    at_rest(cloud, alice)
    Port.objects.create(
        network=cloud.network, project_id=uuid.uuid4(), mac_address="fa:16:3e:00:00:99", device_id=uuid.uuid4(),
        delete_with_device=True,
    )  # fmt: skip
    assert only("ports").sentence == "1 port with its address is taken by this server, which no record knows."
    assert mended("ports") == "Given back: 1."


def test_ports_of_a_deleted_server(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    Port.objects.update(device_id=None)
    delete(context("alice"), row.id)
    cloud.run()
    Port.objects.update(device_id=row.id)
    assert "which is in state deleted" in only("ports").sentence
    (treated,) = treat([only("ports")], repair=True)
    assert treated.repaired == "Given back: 1."
    assert not FixedIP.objects.exists()


def test_ports_of_a_guest_whose_room_is_lost_stay(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    Allocation.objects.filter(instance=row).delete()
    assert look("ports") == []
    found = look("ports", "without_room", "host_counters")
    treat(found, repair=True)
    assert look() == []
    assert FixedIP.objects.filter(port__device_id=row.id).exists()


def test_ports_of_a_server_that_is_on_no_host(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    Allocation.objects.filter(instance=row).delete()
    broken(row, vm_state=VmState.ERROR, host_id=None)
    assert only("ports").sentence == "1 port with its address is taken by this server, which is in state error."
    (treated,) = treat([only("ports")], repair=True)
    assert treated.repaired == "Given back: 1."
    assert not FixedIP.objects.exists()


def test_interfaces_that_are_not_there(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    Port.objects.all().delete()
    assert only("addresses").sentence == "It has 0 ports, and its record names 1 interface."
    Port.objects.create(
        network=cloud.network, project_id=row.project_id, mac_address="fa:16:3e:00:00:99", device_id=row.id
    )
    assert only("addresses").sentence.startswith("It has no address")


def test_interfaces_that_are_not_there_while_something_goes_on(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    stop(context("alice"), row.id)
    assert look("addresses") == []
    Port.objects.all().delete()
    assert only("addresses").sentence == "It has 0 ports, and its record names 1 interface."
    broken(row, vm_state=VmState.SHELVED_OFFLOADED, task_state=None, task_deadline=None, host=None)
    assert len(look("addresses")) == 1, "the shelved keep theirs"


def test_an_interface_that_nobody_takes_out(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    detach_interface(context("alice"), row.id, str(Port.objects.get().id))
    assert look("leaving_ports") == []
    HostCommand.objects.filter(finished_at=None).delete()
    InstanceAction.objects.update(finished_at=timezone.now())
    assert only("leaving_ports").sentence.startswith(f"It is leaving the server {row.id}")
    assert mended("leaving_ports") == "Its host was told to take it out."
    cloud.run()
    assert not Port.objects.exists()
    invariants.check()


# ----- quota, images --------------------------------------------------------------------------------------------------


def test_quota_that_is_miscounted(cloud: Cloud, alice: RequestContext) -> None:
    at_rest(cloud, alice)
    QuotaUsage.objects.filter(resource="cores").update(in_use=9)
    assert "cores: the counters say 9 in use; the reservations add up to 1 in use." in only("quota").sentence
    assert mended("quota") == "Counted anew."


def test_an_image_that_nobody_finishes(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    image_id = create_image(context("alice"), row.id, "copy")
    assert look("images") == []
    HostCommand.objects.filter(kind="snapshot_request").delete()
    broken(row, task_state=None, task_deadline=None)
    InstanceAction.objects.update(finished_at=timezone.now())
    assert only("images").sentence == "It is queued, and no host is asked for its data: it will never be whole."
    assert mended("images") == "It is deleted."
    assert Image.objects.get(id=image_id).status == "deleted"


def test_an_image_that_a_person_calls_so_is_theirs(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    images.create(alice, name="mine", properties={"instance_uuid": str(row.id), "image_type": "snapshot"})
    assert look("images") == []


def test_a_shelf_that_is_empty(cloud: Cloud, alice: RequestContext) -> None:
    row = shelved(cloud, alice)
    assert look("shelves") == []
    Image.objects.filter(id=row.snapshot_image_id).update(status=Image.Status.DELETED)
    assert "the image it comes back from is deleted" in only("shelves").sentence
    broken(row, snapshot_image_id=None)
    assert "the image it comes back from is not there" in only("shelves").sentence


def test_a_shelf_of_a_deleted_server(cloud: Cloud, alice: RequestContext) -> None:
    row = shelved(cloud, alice)
    delete(context("alice"), row.id)
    cloud.run()
    assert look("shelves") == []
    Image.objects.filter(id=row.snapshot_image_id).update(status=Image.Status.ACTIVE, deleted_at=None)
    assert only("shelves").subject == f"image {row.snapshot_image_id}"
    assert mended("shelves") == "It is deleted."


# ----- guests and leftovers -------------------------------------------------------------------------------------------


def test_a_guest_that_is_gone(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    agent = cloud.agent_of(row)
    agent.guests.clear()
    agent.hello()
    found = only("guests")
    assert found.sentence.startswith(f"It is stopped, and host {agent.host.name} has no guest of it. Starting it")
    assert found.severity == "warning"
    start(context("alice"), row.id)
    cloud.run()
    assert look("guests") == []


def test_a_server_on_no_host(cloud: Cloud, alice: RequestContext) -> None:
    broken(at_rest(cloud, alice), host=None)
    assert only("guests").sentence == "It is active, and on no host. An operator may reset it to error."


def test_a_server_that_is_being_built_on_no_host(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.launch(alice)
    drain()
    assert look("guests") == []
    broken(row, host=None)
    assert only("guests").subject == f"instance {row.id}"


def test_leftovers(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    agent, lost = cloud.agent_of(row), str(uuid.uuid4())
    agent.left = [
        Leftover(kind="folder", name=lost, subject_id=lost),
        Leftover(kind="tap", name="tap01234567-89"),
        *(Leftover(kind="foreign_domain", name=f"vm{number}") for number in range(7)),
    ]
    agent.measured()
    assert look("leftovers") == [], "one audit may have seen what was on its way"
    agent.measured()
    found = {each.severity: each.sentence for each in look("leftovers") if "tap" not in each.sentence}
    assert found == {
        "warning": f"It has a folder of disks ({lost}) of the server {lost}, which no record knows. It is left alone:"
        " the records may be what is lost.",
        "note": "It has 7 guests that Novella did not make and leaves alone: vm0, vm1, vm2, vm3, vm4 ….",
    }
    assert any(each.sentence.startswith("It has a network interface (tap01234567-89) of no server.")
               for each in look("leftovers"))  # fmt: skip
    assert not any(each.mend for each in look("leftovers"))


def test_what_is_left_of_a_deleted_server(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    agent = cloud.agent_of(row)
    delete(context("alice"), row.id)
    cloud.run()
    agent.left = [Leftover(kind="folder", name=str(row.id), subject_id=str(row.id))]
    agent.measured()
    agent.measured()
    assert only("leftovers").sentence.endswith(f"of the server {row.id}, which is deleted.")
    (treated,) = treat([only("leftovers")], repair=True)
    assert treated.repaired == f"Host {agent.host.name} was asked to remove all it has of the server."
    (command,) = agent.take()
    assert command.subject_id == str(row.id)
    agent.carry_out(command)


# ----- machines, queue, clock -----------------------------------------------------------------------------------------


def test_a_silent_host(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    Host.objects.filter(id=row.host_id).update(last_seen_at=timezone.now() - OLD)
    assert only("hosts").sentence.endswith("; 1 server is on it.")
    Host.objects.filter(id=row.host_id).update(forced_down=True)
    assert only("hosts").severity == "note"


def test_workers_that_are_silent(cloud: Cloud) -> None:
    WorkerBeat.objects.update(beat_at=timezone.now() - OLD)
    severities = [(each.severity, each.subject) for each in look("workers")]
    assert severities == [("error", "workers"), ("warning", "workers m:b:1")]


def test_a_queue_that_stands_still(cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provisioning.jobs.cast.time.time", lambda: timezone.now().timestamp() - 3600)
    cloud.launch(alice)
    assert only("queue").sentence == "The oldest message waits for 60 minutes; nobody has begun with it."
    monkeypatch.setattr(queue, "DEEP", 0)
    assert len(look("queue")) == 2


@pytest.mark.parametrize("payload", ["nonsense", "ab.{}"])
def test_a_message_that_is_not_ours(cloud: Cloud, payload: str) -> None:
    message = OrmQ.objects.create(key="scheduler", payload=payload, lock=timezone.now())
    assert only("foreign_messages").sentence == (
        "It is none of ours: it is not signed with this cloud's key. It is never run."
    )
    assert mended("foreign_messages") == "It is removed."
    assert not OrmQ.objects.filter(id=message.id).exists()


def test_periodic_work_that_is_not_done(cloud: Cloud) -> None:
    long_ago = timezone.now() - timedelta(days=2)
    Lease.objects.create(name="compute.reaper", holder="", expires_at=long_ago, last_run_at=long_ago)
    found = only("periodic")
    assert found.subject == "periodic work compute.reaper"
    assert found.sentence.startswith("It is due every 5 seconds, and was last begun: ")
    now = timezone.now()
    Lease.objects.update(last_run_at=now, last_error="ZeroDivisionError")
    assert only("periodic").sentence == "It failed when it was last done: ZeroDivisionError"


def test_a_webhook_that_takes_nothing(cloud: Cloud, settings: Any) -> None:
    now = timezone.now()
    settings.NOTIFICATION_WEBHOOK = "https://hooks.example.org/"
    Webhook.objects.update_or_create(
        name=STANDING, defaults={"held_until": now, "failures": 3, "last_error": "It refuses."}
    )
    Delivery.objects.create(
        subject="s", event_type="instance.create.end", body="{}", created_at=now, due_at=now, failed_at=now
    )
    assert {each.sentence for each in look("webhook")} == {
        "It cannot be reached, or refuses: It refuses. Notifications that wait: 0.",
        "Notifications given up: 1; the operators' pages can send them again.",
    }


def test_a_check_that_breaks_does_not_keep_the_others_from_being_made(
    cloud: Cloud, monkeypatch: pytest.MonkeyPatch
) -> None:
    def breaks() -> Any:
        raise ZeroDivisionError

    monkeypatch.setitem(checks, "quota", breaks)
    WorkerBeat.objects.all().delete()
    assert [each.check for each in look()] == ["quota", "workers"]


# ----- runs -----------------------------------------------------------------------------------------------------------


def command(*arguments: str) -> tuple[str, int]:
    out = StringIO()
    try:
        call_command("doctor", "--pause", "0", *arguments, stdout=out)
    except SystemExit as end:
        return out.getvalue(), int(str(end.code))
    return out.getvalue(), 0


def test_the_command_takes_no_negative_pause(db: None) -> None:
    with pytest.raises(CommandError, match="--pause"):
        call_command("doctor", "--pause", "-1")


def test_the_command_says_all_is_well(cloud: Cloud) -> None:
    text, status = command()
    assert (text.strip(), status) == (f"{len(checks)} checks: all is well.", 0)


def test_the_command_tells_and_mends(cloud: Cloud, alice: RequestContext) -> None:
    row = at_rest(cloud, alice)
    QuotaUsage.objects.filter(resource="cores").update(in_use=9)
    text, status = command()
    assert status == 1
    assert "--repair would: Count anew." in text
    assert "Wrong: 1. Mended: 0. Left: 1." in text
    text, status = command("--repair", "--check", "quota")
    assert status == 0
    assert "Mended: Counted anew." in text
    assert command()[1] == 0
    broken(row, deleted_at=timezone.now())
    assert command("--repair")[1] == 1


def test_the_command_writes_json(cloud: Cloud, alice: RequestContext) -> None:
    at_rest(cloud, alice)
    Host.objects.update(vcpus_allocated=5)
    text, status = command("--json", "--repair")
    said = json.loads(text)
    assert status == 0
    assert (said["errors"], said["repaired"], said["left"]) == (2, 2, 0)
    assert set(said["findings"][0]) == {"check", "severity", "subject", "sentence", "repair", "repaired"}


def test_the_command_knows_its_checks(cloud: Cloud) -> None:
    assert command("--list")[0].split() == list(checks)
    with pytest.raises(CommandError, match="There is no check 'nothing'; there are tasks, "):
        command("--check", "nothing")


def test_runs_are_kept_but_not_for_ever(cloud: Cloud) -> None:
    old = timezone.now() - OLD
    DoctorRun.objects.bulk_create(DoctorRun(started_at=old, finished_at=old, trigger="clock") for _ in range(KEPT + 5))
    run = runs.run("command", pause=0)
    assert DoctorRun.objects.count() == KEPT
    assert DoctorRun.objects.order_by("-started_at")[:1].get() == run
