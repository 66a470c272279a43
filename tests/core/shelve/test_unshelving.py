"""Back from the shelf, on any host, with everything the server had."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from compute_agent.contract.commands import BuildRequest, PowerRequest
from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.common.errors import ConflictError
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.shelve import Shelve
from provisioning.compute.actions.unshelve import unshelve
from provisioning.compute.launch.schedule import schedule
from provisioning.compute.models import Allocation, Instance, InstanceAction, InstanceActionEvent, InstanceFault
from provisioning.compute.upkeep import reaper
from provisioning.hosts.models import Host
from provisioning.images import services as images
from provisioning.images.models import Image
from provisioning.network.models import Port
from tests.core.shelve.shelves import OFFLOADED, action, addresses, let_deadline_pass, nothing_taken, only
from tests.support.clouds import Cloud, next_request, state_of
from tests.support.jobs import drain
from tests.support.scripted_agent import ScriptedAgent

pytestmark = pytest.mark.slow


def test_a_shelved_server_is_started_where_it_is(
    cloud: Cloud, h1: ScriptedAgent, shelved: Instance, alice: RequestContext
) -> None:
    unshelve(alice, shelved.id)
    assert state_of(shelved) == ("shelved", "unshelving")
    command = only(h1, PowerRequest)
    h1.carry_out(command)
    row = cloud.fresh(shelved)
    assert (row.vm_state, row.task_state, row.power_state) == ("active", None, PowerState.RUNNING)
    assert (row.snapshot_image_id, row.shelved_at) == (None, None)
    assert Image.objects.get(id=shelved.snapshot_image_id).status == "deleted"


def test_a_shelved_server_that_does_not_start_stays_on_its_shelf(
    cloud: Cloud, h1: ScriptedAgent, shelved: Instance, alice: RequestContext
) -> None:
    unshelve(alice, shelved.id)
    h1.report(only(h1, PowerRequest), "failed", error_code="host_failed", message="No memory.")
    row = cloud.fresh(shelved)
    assert (row.vm_state, row.task_state, row.snapshot_image_id) == ("shelved", None, shelved.snapshot_image_id)
    assert Image.objects.get(id=shelved.snapshot_image_id).status == "active"


def test_the_only_disk_of_a_shelved_server_is_not_deleted(
    cloud: Cloud, offloaded: Instance, alice: RequestContext
) -> None:
    image_id = offloaded.snapshot_image_id
    assert image_id is not None
    with pytest.raises(ConflictError, match=str(offloaded.id)):
        images.delete(alice, image_id)
    assert Image.objects.get(id=image_id).status == "active"
    delete(alice, offloaded.id)
    cloud.run()
    assert Image.objects.get(id=image_id).status == "deleted", "it goes with its server"


def test_it_comes_back_on_another_host_with_all_that_it_was(
    cloud: Cloud, h1: ScriptedAgent, offloaded: Instance, alice: RequestContext
) -> None:
    before = addresses(offloaded)
    Host.objects.filter(id=h1.host.id).update(enabled=False)
    h2 = cloud.add_host("h2")
    unshelve(alice, offloaded.id)
    assert state_of(offloaded) == ("shelved_offloaded", "unshelving")
    drain()
    assert state_of(offloaded) == ("shelved_offloaded", "spawning")
    command = only(h2, BuildRequest)
    assert isinstance(command.body, BuildRequest)
    spec = command.body.instance
    assert (spec.uuid, spec.hostname) == (str(offloaded.id), offloaded.hostname)
    assert spec.image.id == str(offloaded.snapshot_image_id)
    assert [(port.id, port.mac_address, port.fixed_ips[0].address) for port in spec.ports] == [
        (str(port), mac, address) for port, mac, address in before
    ]
    assert command.generation == offloaded.attempt + 1
    h2.carry_out(command)
    row = cloud.fresh(offloaded)
    assert (row.vm_state, row.task_state, row.power_state) == ("active", None, PowerState.RUNNING)
    assert row.host is not None
    assert row.host.name == "h2"
    assert (row.image_id, row.snapshot_image_id, row.shelved_at) == (cloud.image.id, None, None)
    assert Image.objects.get(id=offloaded.snapshot_image_id).status == "deleted"
    assert addresses(offloaded) == before
    assert {(port.host, port.status) for port in Port.objects.filter(device_id=row.id)} == {("h2", "ACTIVE")}
    done = action(offloaded, "unshelve")
    assert (done.message, done.finished_at is not None) == (None, True)
    names = set(InstanceActionEvent.objects.filter(action=done).values_list("name", flat=True))
    assert {"api_unshelve", "schedule", "claim", "allocate_network", "hand_off", "start_guest"} <= names


def test_it_goes_round_again(cloud: Cloud, offloaded: Instance, alice: RequestContext, settings: Any) -> None:
    settings.SHELVED_OFFLOAD_TIME = 0
    for _ in range(2):
        unshelve(next_request(alice), offloaded.id)
        cloud.run()
        assert state_of(offloaded) == ("active", None)
        Shelve.begin(next_request(alice), offloaded.id)
        cloud.run()
        nothing_taken(offloaded)


def test_another_host_is_tried_when_one_fails_and_tries_are_counted_anew(
    cloud: Cloud, h1: ScriptedAgent, offloaded: Instance, alice: RequestContext
) -> None:
    assert offloaded.attempt >= 2
    for name in ("h2", "h3"):
        cloud.add_host(name)
    unshelve(alice, offloaded.id)
    failed = []
    for _ in range(2):
        drain()
        host = cloud.agent_of(offloaded)
        failed.append(host.host.name)
        host.fail(only(host, BuildRequest), "It broke.", retryable=True, after="create_disk")
        assert state_of(offloaded) == ("shelved_offloaded", "unshelving")
    cloud.run()
    row = cloud.fresh(offloaded)
    assert (row.vm_state, row.excluded_hosts) == ("active", [])
    assert row.host is not None
    assert len({*failed, row.host.name}) == 3


def test_after_three_hosts_it_stays_on_its_shelf_with_a_fault(
    cloud: Cloud, offloaded: Instance, alice: RequestContext
) -> None:
    for name in ("h2", "h3", "h4"):
        cloud.add_host(name)
    before = addresses(offloaded)
    unshelve(alice, offloaded.id)
    for _ in range(3):
        drain()
        host = cloud.agent_of(offloaded)
        host.fail(only(host, BuildRequest), "It broke.", retryable=True)
    nothing_taken(offloaded)
    assert addresses(offloaded) == before
    fault = InstanceFault.objects.filter(instance=offloaded).latest("id")
    assert "3 hosts were tried" in fault.message
    assert action(offloaded, "unshelve").message == fault.message
    assert Image.objects.get(id=offloaded.snapshot_image_id).status == "active"
    unshelve(next_request(alice), offloaded.id)
    cloud.run()
    assert state_of(offloaded) == ("active", None)


def test_a_fatal_failure_is_cleaned_up_before_anything_else(
    cloud: Cloud, h1: ScriptedAgent, offloaded: Instance, alice: RequestContext
) -> None:
    unshelve(alice, offloaded.id)
    drain()
    h1.fail(only(h1, BuildRequest), "The image is damaged.", retryable=False)
    assert state_of(offloaded) == OFFLOADED
    assert Allocation.objects.filter(instance=offloaded).exists()  # until the host has confirmed
    unshelve(next_request(alice), offloaded.id)
    drain()
    assert state_of(offloaded) == ("shelved_offloaded", "unshelving")  # never two guests of one server
    cloud.run()
    assert state_of(offloaded) == ("active", None)


def test_no_host_with_room_leaves_it_on_its_shelf(
    cloud: Cloud, h1: ScriptedAgent, offloaded: Instance, alice: RequestContext
) -> None:
    Host.objects.filter(id=h1.host.id).update(enabled=False)
    unshelve(alice, offloaded.id)
    cloud.run()
    nothing_taken(offloaded)
    assert (action(offloaded, "unshelve").message or "").startswith("No valid host was found.")


@pytest.mark.doctor_finds("shelves")
def test_without_its_image_it_stays_on_its_shelf(cloud: Cloud, offloaded: Instance, alice: RequestContext) -> None:
    Image.objects.filter(id=offloaded.snapshot_image_id).update(status="deleted")
    unshelve(alice, offloaded.id)
    cloud.run()
    nothing_taken(offloaded)
    assert "image was removed" in (action(offloaded, "unshelve").message or "")


def test_a_silent_host_is_instructed_to_destroy_and_another_one_tried(
    cloud: Cloud, h1: ScriptedAgent, offloaded: Instance, alice: RequestContext
) -> None:
    cloud.add_host("h2")
    unshelve(alice, offloaded.id)
    drain()
    first = cloud.agent_of(offloaded)
    only(first, BuildRequest)
    let_deadline_pass(offloaded)
    reaper.reap()
    assert state_of(offloaded) == ("shelved_offloaded", "unshelving")
    cloud.run()
    row = cloud.fresh(offloaded)
    assert row.vm_state == "active"
    assert row.host_id != first.host.id


def test_a_worker_that_dies_after_the_claim_is_gone_on_with(
    cloud: Cloud, h1: ScriptedAgent, offloaded: Instance, alice: RequestContext, monkeypatch: pytest.MonkeyPatch
) -> None:
    unshelve(alice, offloaded.id)
    attempt = cloud.fresh(offloaded).attempt
    monkeypatch.setattr("provisioning.compute.launch.schedule._build", lambda *_: None)
    schedule(str(offloaded.id), attempt)
    assert state_of(offloaded) == ("shelved_offloaded", "unshelving")
    assert Allocation.objects.get(instance=offloaded).attempt == attempt
    monkeypatch.undo()
    schedule(str(offloaded.id), attempt)
    schedule(str(offloaded.id), attempt)  # delivered once more
    assert state_of(offloaded) == ("shelved_offloaded", "spawning")
    cloud.run()
    assert state_of(offloaded) == ("active", None)
    assert Host.objects.get(id=h1.host.id).instances_allocated == 1


@pytest.mark.parametrize("stage", ["asked", "claimed", "handed over"])
def test_a_delete_while_it_comes_back_leaves_nothing(
    cloud: Cloud, h1: ScriptedAgent, offloaded: Instance, alice: RequestContext, stage: str,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    unshelve(alice, offloaded.id)
    if stage == "claimed":
        monkeypatch.setattr("provisioning.compute.launch.schedule._build", lambda *_: None)
    if stage != "asked":
        drain()
    delete(alice, offloaded.id)
    monkeypatch.undo()
    assert (state_of(offloaded) == ("deleted", None)) == (stage != "handed over")
    cloud.run()
    assert state_of(offloaded) == ("deleted", None)
    assert not Allocation.objects.filter(instance=offloaded).exists()
    assert not Port.objects.filter(device_id=offloaded.id).exists()
    assert Image.objects.get(id=offloaded.snapshot_image_id).status == "deleted"
    assert h1.guests == {}


def test_a_lost_job_is_cast_again_and_ends_at_last(
    cloud: Cloud, h1: ScriptedAgent, offloaded: Instance, alice: RequestContext
) -> None:
    unshelve(alice, offloaded.id)
    Instance.objects.filter(id=offloaded.id).update(created_at=timezone.now() - timedelta(days=100))
    let_deadline_pass(offloaded)
    reaper.reap()
    assert state_of(offloaded) == ("shelved_offloaded", "unshelving")
    InstanceAction.objects.filter(action="unshelve").update(started_at=timezone.now() - timedelta(days=1))
    let_deadline_pass(offloaded)
    reaper.reap()
    nothing_taken(offloaded)
