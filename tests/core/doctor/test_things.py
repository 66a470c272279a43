"""What the doctor finds of quotas, images, guests and machines."""

from __future__ import annotations

import uuid
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone
from django_q.models import OrmQ

from compute_agent.contract.messages import Leftover
from provisioning.common.context import RequestContext
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.power import Start
from provisioning.compute.actions.reset_state import ResetState
from provisioning.compute.actions.shelve import Shelve
from provisioning.compute.actions.snapshot import create_image
from provisioning.compute.models import FirmwareState, Instance, InstanceAction
from provisioning.doctor.checks import queue
from provisioning.doctor.examinations.examination import treat
from provisioning.hosts.models import Host, HostCommand
from provisioning.images import services as images
from provisioning.images.models import Image
from provisioning.jobs.models import Lease, WorkerBeat
from provisioning.notifications.models import Delivery, Webhook
from provisioning.notifications.services import STANDING
from provisioning.quotas.models import QuotaUsage
from tests.core.doctor.findings import OLD, broken, look, only, repaired
from tests.support.clouds import Cloud, context
from tests.support.jobs import drain


def shelved(cloud: Cloud, caller: RequestContext) -> Instance:
    row = cloud.running(caller)
    Shelve.begin(context("alice"), row.id)
    cloud.run()
    return cloud.fresh(row)


@pytest.mark.slow
def test_quota_that_is_miscounted(cloud: Cloud, alice: RequestContext) -> None:
    cloud.running(alice)
    QuotaUsage.objects.filter(resource="cores").update(in_use=9)
    assert "cores: the counters show 9 in use; the reservations add up to 1 in use." in only("quota").sentence
    assert repaired("quota") == "Counted again."


@pytest.mark.slow
def test_an_image_that_nobody_finishes(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    image_id = create_image(context("alice"), row.id, "copy")
    assert look("images") == []
    HostCommand.objects.filter(kind="snapshot_request").delete()
    broken(row, task_state=None, task_deadline=None)
    InstanceAction.objects.update(finished_at=timezone.now())
    assert only("images").sentence == "It is queued, but no host has a command for its data: it will never be complete."
    assert repaired("images") == "It was deleted."
    assert Image.objects.get(id=image_id).status == "deleted"


def test_an_image_that_a_person_calls_so_is_theirs(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    images.create(alice, name="mine", properties={"instance_uuid": str(row.id), "image_type": "snapshot"})
    assert look("images") == []


@pytest.mark.both_databases("constraints")
def test_a_shelf_that_is_empty(cloud: Cloud, alice: RequestContext) -> None:
    row = shelved(cloud, alice)
    assert look("shelves") == []
    Image.objects.filter(id=row.snapshot_image_id).update(status=Image.Status.DELETED)
    assert "its snapshot image is deleted" in only("shelves").sentence
    broken(row, snapshot_image_id=None)
    assert "its snapshot image is missing" in only("shelves").sentence


@pytest.mark.parametrize("offloaded", [True, False])
def test_firmware_states_that_are_missing_or_not_needed(
    cloud: Cloud, alice: RequestContext, operator: RequestContext, settings: Any, offloaded: bool
) -> None:
    settings.SHELVED_OFFLOAD_TIME = 0 if offloaded else -1
    row = cloud.running(alice)
    Instance.objects.filter(id=row.id).update(image_properties={"hw_firmware_type": "uefi"})
    Shelve.begin(context("alice"), row.id)
    cloud.run()
    assert look("firmware_states") == []
    if offloaded:
        FirmwareState.objects.all().delete()
        assert "its firmware state is missing" in only("firmware_states").sentence
        Instance.objects.filter(id=row.id).update(image_properties={})
        return
    ResetState.begin(operator, row.id, "active")
    assert only("firmware_states").sentence == "Its firmware state is stored although it is not shelved."
    assert repaired("firmware_states") == "The state was deleted."
    assert not FirmwareState.objects.exists()


@pytest.mark.slow
def test_a_shelf_of_a_deleted_server(cloud: Cloud, alice: RequestContext) -> None:
    row = shelved(cloud, alice)
    delete(context("alice"), row.id)
    cloud.run()
    assert look("shelves") == []
    Image.objects.filter(id=row.snapshot_image_id).update(status=Image.Status.ACTIVE, deleted_at=None)
    assert only("shelves").subject == f"image {row.snapshot_image_id}"
    assert repaired("shelves") == "It was deleted."


def test_a_guest_that_is_gone(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    agent = cloud.agent_of(row)
    agent.guests.clear()
    agent.hello()
    finding = only("guests")
    assert finding.sentence.startswith(f"It is stopped, but host {agent.host.name} has no guest for it. Starting it")
    assert finding.severity == "warning"
    Start.begin(context("alice"), row.id)
    cloud.run()
    assert look("guests") == []


def test_a_server_on_no_host(cloud: Cloud, alice: RequestContext) -> None:
    broken(cloud.running(alice), host=None)
    assert only("guests").sentence == "It is active, but has no host. An operator may reset it to error."


def test_a_server_that_is_being_built_on_no_host(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.launch(alice)
    drain()
    assert look("guests") == []
    broken(row, host=None)
    assert only("guests").subject == f"instance {row.id}"


@pytest.mark.both_databases("constraints")
def test_leftovers(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    agent, lost = cloud.agent_of(row), str(uuid.uuid4())
    agent.left = [
        Leftover(kind="folder", name=lost, subject_id=lost),
        Leftover(kind="tap", name="tap01234567-89"),
        *(Leftover(kind="foreign_domain", name=f"vm{number}") for number in range(7)),
    ]
    agent.measured()
    assert look("leftovers") == [], "one audit may have seen what was on its way"
    agent.measured()
    result = {each.severity: each.sentence for each in look("leftovers") if "tap" not in each.sentence}
    assert result == {
        "warning": f"It has a directory of disks ({lost}) of the server {lost}, which has no record. It is not touched:"
        " the records may be lost.",
        "note": "It has 7 guests that Novella did not create and does not touch: vm0, vm1, vm2, vm3, vm4 ….",
    }
    assert any(each.sentence.startswith("It has a network interface (tap01234567-89) of no server.")
               for each in look("leftovers"))  # fmt: skip
    assert not any(each.repair for each in look("leftovers"))


@pytest.mark.slow
def test_what_is_left_of_a_deleted_server(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    agent = cloud.agent_of(row)
    delete(context("alice"), row.id)
    cloud.run()
    agent.left = [Leftover(kind="folder", name=str(row.id), subject_id=str(row.id))]
    agent.measured()
    agent.measured()
    assert only("leftovers").sentence.endswith(f"of the server {row.id}, which is deleted.")
    (treated,) = treat([only("leftovers")], repair=True)
    assert treated.repaired == f"Host {agent.host.name} was asked to remove everything of the server."
    (command,) = agent.take()
    assert command.subject_id == str(row.id)
    agent.carry_out(command)


def test_a_silent_host(cloud: Cloud, alice: RequestContext) -> None:
    row = cloud.running(alice)
    Host.objects.filter(id=row.host_id).update(last_seen_at=timezone.now() - OLD)
    assert only("hosts").sentence.endswith("; 1 server is on it.")
    Host.objects.filter(id=row.host_id).update(forced_down=True)
    assert only("hosts").severity == "warning"
    Instance.objects.filter(id=row.id).update(vm_state="deleted")
    assert only("hosts").severity == "note"


def test_workers_that_are_silent(cloud: Cloud) -> None:
    WorkerBeat.objects.update(beat_at=timezone.now() - OLD)
    severities = [(each.severity, each.subject) for each in look("workers")]
    assert severities == [("error", "workers"), ("warning", "workers m:b:1")]


def test_a_queue_that_stands_still(cloud: Cloud, alice: RequestContext, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("provisioning.jobs.queue.cast.time.time", lambda: timezone.now().timestamp() - 3600)
    cloud.launch(alice)
    assert only("queue").sentence == "The oldest message has been waiting for 60 minutes."
    monkeypatch.setattr(queue, "DEEP", 0)
    assert len(look("queue")) == 2


@pytest.mark.parametrize("payload", ["nonsense", "ab.{}"])
def test_a_message_that_is_not_ours(cloud: Cloud, payload: str) -> None:
    message = OrmQ.objects.create(key="scheduler", payload=payload, lock=timezone.now())
    assert only("foreign_messages").sentence == (
        "It is not one of Novella's jobs: it is not signed with this cloud's key. It is never run."
    )
    assert repaired("foreign_messages") == "It was removed."
    assert not OrmQ.objects.filter(id=message.id).exists()


def test_periodic_work_that_is_not_done(cloud: Cloud) -> None:
    long_ago = timezone.now() - timedelta(days=2)
    Lease.objects.create(name="compute.reaper", holder="", expires_at=long_ago, last_run_at=long_ago)
    finding = only("periodic")
    assert finding.subject == "periodic work compute.reaper"
    assert finding.sentence.startswith("It is due every 5 seconds, and last started: ")
    now = timezone.now()
    Lease.objects.update(last_run_at=now, last_error="ZeroDivisionError")
    assert only("periodic").sentence == "Its last run failed: ZeroDivisionError"


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
        "It cannot be reached, or rejects notifications: It refuses. Waiting: 0.",
        "Notifications given up: 1; the operators' pages can send them again.",
    }
