"""Shelving along the line: onto the shelf, off the host, and back, on any host, with everything the server had."""

from __future__ import annotations

import uuid
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from compute_agent.contract.commands import BuildRequest, DestroyRequest, PowerRequest, SnapshotRequest
from compute_agent.contract.messages import Command
from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext, new_request_id
from provisioning.common.errors import ConflictError, ForbiddenError, InvalidInputError
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.lock import lock
from provisioning.compute.actions.reset_state import reset_state
from provisioning.compute.actions.shelve import offload, shelve
from provisioning.compute.actions.soft_delete import restore
from provisioning.compute.actions.unshelve import Destination, unshelve
from provisioning.compute.errors import InstanceBusyError, InstanceLockedError
from provisioning.compute.launch.schedule import schedule
from provisioning.compute.models import Allocation, Instance, InstanceAction, InstanceActionEvent, InstanceFault
from provisioning.compute.services import server_groups
from provisioning.compute.upkeep import reaper
from provisioning.compute.upkeep.offload import offload_shelved
from provisioning.hosts.models import Host
from provisioning.images import services as images
from provisioning.images.models import Image
from provisioning.network.models import FixedIP, Port
from provisioning.quotas.models import QuotaUsage
from tests.support.clouds import Cloud, state_of
from tests.support.jobs import drain
from tests.support.scripted_agent import ScriptedAgent

OFFLOADED = ("shelved_offloaded", None)


@pytest.fixture(autouse=True)
def _kept_on_its_host(settings: Any) -> None:
    """Servers stay on their host until a test says otherwise."""
    settings.SHELVED_OFFLOAD_TIME = -1


@pytest.fixture
def h1(cloud: Cloud) -> ScriptedAgent:
    return cloud.add_host("h1")


@pytest.fixture
def server(cloud: Cloud, h1: ScriptedAgent, alice: RequestContext) -> Instance:
    instance = cloud.launch(alice)
    cloud.run()
    assert state_of(instance) == ("active", None)
    return instance


@pytest.fixture
def shelved(cloud: Cloud, server: Instance, alice: RequestContext) -> Instance:
    shelve(alice, server.id)
    cloud.run()
    assert state_of(server) == ("shelved", None)
    return cloud.fresh(server)


@pytest.fixture
def offloaded(cloud: Cloud, shelved: Instance, operator: RequestContext) -> Instance:
    offload(operator, shelved.id)
    cloud.run()
    assert state_of(shelved) == OFFLOADED
    return cloud.fresh(shelved)


def anew(caller: RequestContext) -> RequestContext:
    return replace(caller, request_id=new_request_id())


def addresses(server: Instance) -> list[tuple[uuid.UUID, str, str]]:
    rows = FixedIP.objects.filter(port__device_id=server.id).select_related("port")
    return [(row.port.id, row.port.mac_address, row.address) for row in rows]


def action(server: Instance, name: str) -> InstanceAction:
    return InstanceAction.objects.filter(instance=server, action=name).latest("id")


def only(host: ScriptedAgent, kind: type) -> Command:
    (command,) = host.take()
    assert isinstance(command.body, kind)
    return command


def let_deadline_pass(server: Instance) -> None:
    Instance.objects.filter(id=server.id).update(task_deadline=timezone.now() - timedelta(seconds=1))


def nothing_taken(server: Instance) -> None:
    """On the shelf, with its ports and without anything on a host."""
    row = Instance.objects.get(id=server.id)
    assert (row.vm_state, row.task_state, row.host_id, row.power_state) == (*OFFLOADED, None, 0)
    assert not Allocation.objects.filter(instance=server).exists()
    ports = Port.objects.filter(device_id=server.id)
    assert {(port.host, port.status) for port in ports} == {("", "DOWN")}
    assert (row.requested_host, row.excluded_hosts) == ("", [])


# ----- onto the shelf -------------------------------------------------------------------------------------------------


def test_a_shelved_server_is_stopped_copied_and_still_on_its_host(
    cloud: Cloud, h1: ScriptedAgent, server: Instance, alice: RequestContext
) -> None:
    shelve(alice, server.id)
    assert state_of(server) == ("active", "shelving")
    command = only(h1, SnapshotRequest)
    body = command.body
    assert isinstance(body, SnapshotRequest)
    assert (body.stop, body.disk_format) == (True, "qcow2")
    h1.copied(command)
    assert state_of(server) == ("active", "shelving_image_uploading")
    h1.carry_out(command)
    row = cloud.fresh(server)
    assert (row.vm_state, row.task_state, row.power_state) == ("shelved", None, PowerState.SHUTDOWN)
    image = Image.objects.get(id=row.snapshot_image_id)
    assert (image.name, image.status, image.properties["image_type"]) == ("web-shelved", "active", "snapshot")
    assert row.shelved_at is not None
    assert row.host is not None
    assert row.image_id == cloud.image.id
    assert action(server, "shelve").message is None


@pytest.mark.parametrize("state", ["stopped", "paused", "suspended"])
def test_servers_at_rest_are_shelved_too(cloud: Cloud, server: Instance, alice: RequestContext, state: str) -> None:
    Instance.objects.filter(id=server.id).update(vm_state=state)
    shelve(alice, server.id)
    cloud.run()
    assert state_of(server) == ("shelved", None)


def test_a_locked_server_is_not_shelved(server: Instance, alice: RequestContext) -> None:
    lock(alice, server.id)
    with pytest.raises(InstanceLockedError):
        shelve(alice, server.id)


def test_what_is_not_shelved_is_not_taken_off(
    server: Instance, alice: RequestContext, operator: RequestContext
) -> None:
    with pytest.raises(InstanceBusyError, match="Cannot 'unshelve' instance"):
        unshelve(alice, server.id)
    with pytest.raises(InstanceBusyError, match="Cannot 'shelveOffload' instance"):
        offload(operator, server.id)


@pytest.mark.parametrize("how", ["failed", "silent", "lied"])
def test_a_shelving_that_fails_leaves_the_server_and_no_image(
    cloud: Cloud, h1: ScriptedAgent, server: Instance, alice: RequestContext, how: str
) -> None:
    shelve(alice, server.id)
    command = only(h1, SnapshotRequest)
    if how == "failed":
        h1.send(command, command.body)  # type: ignore[arg-type]
        h1.report(command, "failed", error_code="host_failed", message="No room.")
    elif how == "silent":
        let_deadline_pass(server)
        reaper.reap()
    else:
        h1.report(command, "finished", power_state=PowerState.SHUTDOWN)
    row = cloud.fresh(server)
    assert (row.vm_state, row.task_state, row.snapshot_image_id, row.shelved_at) == ("active", None, None, None)
    assert not Image.objects.filter(name="web-shelved").exclude(status="deleted").exists()
    assert action(server, "shelve").message


def test_a_delete_while_it_is_shelved_takes_the_image_along(
    cloud: Cloud, h1: ScriptedAgent, server: Instance, alice: RequestContext
) -> None:
    shelve(alice, server.id)
    command = only(h1, SnapshotRequest)
    h1.send(command, command.body)  # type: ignore[arg-type]
    delete(alice, server.id)
    cloud.run()
    assert state_of(server) == ("deleted", None)
    assert not Image.objects.filter(name="web-shelved").exclude(status="deleted").exists()


# ----- off the host ---------------------------------------------------------------------------------------------------


def test_offloading_frees_the_host_and_keeps_ports_and_quota(
    cloud: Cloud, h1: ScriptedAgent, shelved: Instance, alice: RequestContext, operator: RequestContext
) -> None:
    before, attempt = addresses(shelved), shelved.attempt
    used = {row.resource: row.in_use for row in QuotaUsage.objects.filter(project_id=alice.project_id)}
    offload(operator, shelved.id)
    assert state_of(shelved) == ("shelved", "shelving_offloading")
    assert Host.objects.get(id=h1.host.id).vcpus_allocated == 1  # until the host has confirmed
    command = only(h1, DestroyRequest)
    assert command.generation == attempt + 1
    h1.carry_out(command)
    nothing_taken(shelved)
    assert Host.objects.get(id=h1.host.id).vcpus_allocated == 0
    assert addresses(shelved) == before
    assert {row.resource: row.in_use for row in QuotaUsage.objects.filter(project_id=alice.project_id)} == used
    h1.repeat_everything()
    nothing_taken(shelved)
    assert action(shelved, "shelveOffload").finished_at is not None


def test_no_time_means_at_once(cloud: Cloud, server: Instance, alice: RequestContext, settings: Any) -> None:
    settings.SHELVED_OFFLOAD_TIME = 0
    shelve(alice, server.id)
    cloud.run()
    nothing_taken(server)


def test_the_clock_takes_off_what_has_stood_long_enough(
    cloud: Cloud, h1: ScriptedAgent, shelved: Instance, settings: Any
) -> None:
    assert offload_shelved() == 0  # never
    settings.SHELVED_OFFLOAD_TIME = 3600
    assert offload_shelved() == 0
    Instance.objects.filter(id=shelved.id).update(shelved_at=timezone.now() - timedelta(hours=2))
    Host.objects.filter(id=h1.host.id).update(last_seen_at=timezone.now() - timedelta(hours=1))
    assert offload_shelved() == 0  # its host is down
    h1.hello()
    assert offload_shelved() == 1
    cloud.run()
    nothing_taken(shelved)


def test_an_offload_waits_for_a_host_that_is_down(
    cloud: Cloud, h1: ScriptedAgent, shelved: Instance, operator: RequestContext
) -> None:
    Host.objects.filter(id=h1.host.id).update(last_seen_at=timezone.now() - timedelta(hours=1))
    offload(operator, shelved.id)
    for _ in range(2):
        let_deadline_pass(shelved)
        reaper.reap()
        assert state_of(shelved) == ("shelved", "shelving_offloading")
        assert Allocation.objects.filter(instance=shelved).exists()
    h1.hello()
    cloud.run()
    nothing_taken(shelved)


def test_an_offload_that_the_host_could_not_do_is_ordered_again(
    cloud: Cloud, h1: ScriptedAgent, shelved: Instance, operator: RequestContext
) -> None:
    offload(operator, shelved.id)
    command = only(h1, DestroyRequest)
    h1.report(command, "failed", error_code="destroy_failed", message="Not yet.", retryable=True)
    assert state_of(shelved) == ("shelved", "shelving_offloading")
    let_deadline_pass(shelved)
    reaper.reap()
    cloud.run()
    nothing_taken(shelved)


@pytest.mark.parametrize("where", ["shelved", "offloading", "offloaded"])
def test_a_server_on_its_shelf_is_deleted_with_its_image(
    cloud: Cloud, h1: ScriptedAgent, shelved: Instance, alice: RequestContext, operator: RequestContext, where: str
) -> None:
    if where != "shelved":
        offload(operator, shelved.id)
    if where == "offloaded":
        cloud.run()
    delete(alice, shelved.id)
    if where == "offloaded":
        assert state_of(shelved) == ("deleted", None)  # nobody is asked: there is nothing anywhere
        assert h1.take() == []
    cloud.run()
    assert state_of(shelved) == ("deleted", None)
    assert Image.objects.get(id=shelved.snapshot_image_id).status == "deleted"
    assert not Port.objects.filter(device_id=shelved.id).exists()


# ----- back -----------------------------------------------------------------------------------------------------------


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
        unshelve(anew(alice), offloaded.id)
        cloud.run()
        assert state_of(offloaded) == ("active", None)
        shelve(anew(alice), offloaded.id)
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
    unshelve(anew(alice), offloaded.id)
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
    unshelve(anew(alice), offloaded.id)
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


def test_a_silent_host_is_told_to_destroy_and_another_one_tried(
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


# ----- where to -------------------------------------------------------------------------------------------------------


def test_a_zone_can_be_asked_for_and_let_go_of(
    cloud: Cloud, h1: ScriptedAgent, offloaded: Instance, alice: RequestContext
) -> None:
    cloud.add_host("far", zone="far")
    with pytest.raises(InvalidInputError, match="zone is not available"):
        unshelve(anew(alice), offloaded.id, Destination(zone="nowhere"))
    unshelve(anew(alice), offloaded.id, Destination(zone="far"))
    cloud.run()
    row = cloud.fresh(offloaded)
    assert row.host is not None
    assert (row.host.name, row.availability_zone) == ("far", "far")


def test_letting_go_of_the_zone(cloud: Cloud, h1: ScriptedAgent, offloaded: Instance, alice: RequestContext) -> None:
    Instance.objects.filter(id=offloaded.id).update(availability_zone="gone")
    unshelve(alice, offloaded.id, Destination(zone=None))
    cloud.run()
    assert cloud.fresh(offloaded).availability_zone == ""
    assert state_of(offloaded) == ("active", None)


def test_a_host_is_asked_for_by_operators_alone(
    cloud: Cloud, h1: ScriptedAgent, offloaded: Instance, alice: RequestContext, operator: RequestContext
) -> None:
    for name in ("h2", "h3"):
        cloud.add_host(name)
    with pytest.raises(ForbiddenError):
        unshelve(alice, offloaded.id, Destination(host="h3"))
    with pytest.raises(InvalidInputError, match="Compute host h9 could not be found"):
        unshelve(operator, offloaded.id, Destination(host="h9"))
    cloud.add_host("h5", zone="far")
    with pytest.raises(ConflictError, match="Host h3 is not in the availability zone far"):
        unshelve(operator, offloaded.id, Destination(zone="far", host="h3"))
    unshelve(operator, offloaded.id, Destination(host="h3"))
    cloud.run()
    row = cloud.fresh(offloaded)
    assert row.host is not None
    assert (row.host.name, row.requested_host) == ("h3", "")


def test_a_server_on_its_host_goes_nowhere_else(
    shelved: Instance, alice: RequestContext, operator: RequestContext
) -> None:
    for to in (Destination(zone="nova"), Destination(zone=None)):
        with pytest.raises(ConflictError, match="it must be shelved_offloaded"):
            unshelve(alice, shelved.id, to)
    with pytest.raises(ConflictError, match="it must be shelved_offloaded"):
        unshelve(operator, shelved.id, Destination(host="h1"))


def test_the_groups_policy_holds_when_it_comes_back(
    cloud: Cloud, h1: ScriptedAgent, alice: RequestContext, operator: RequestContext
) -> None:
    group = server_groups.create_server_group(alice, "apart", "anti-affinity")
    cloud.add_host("h2")
    first, second = (
        cloud.launch(anew(alice), name=name, scheduler_hints={"group": str(group.id)}) for name in ("one", "two")
    )
    cloud.run()
    shelve(alice, first.id)
    cloud.run()
    offload(operator, first.id)
    cloud.run()
    away = cloud.agent_of(second).host
    Host.objects.exclude(id=away.id).update(enabled=False)
    unshelve(anew(alice), first.id)
    cloud.run()
    nothing_taken(first)
    Host.objects.update(enabled=True)
    unshelve(anew(alice), first.id)
    cloud.run()
    assert cloud.agent_of(first).host.id != away.id


def test_an_operator_sets_a_server_on_its_way_back_to_error_and_it_is_deleted(
    cloud: Cloud, h1: ScriptedAgent, offloaded: Instance, alice: RequestContext, operator: RequestContext
) -> None:
    unshelve(alice, offloaded.id)
    drain()
    reset_state(operator, offloaded.id, "error")
    cloud.run()
    delete(alice, offloaded.id)
    cloud.run()
    assert state_of(offloaded) == ("deleted", None)
    assert not Allocation.objects.filter(instance=offloaded).exists()
    assert Image.objects.get(id=offloaded.snapshot_image_id).status == "deleted"


def test_a_server_on_its_shelf_can_be_deleted_with_a_way_back(
    cloud: Cloud, offloaded: Instance, alice: RequestContext, settings: Any
) -> None:
    settings.RECLAIM_INSTANCE_INTERVAL = 3600
    delete(alice, offloaded.id)
    assert state_of(offloaded) == ("soft-delete", None)
    assert Image.objects.get(id=offloaded.snapshot_image_id).status == "active"
    restore(alice, offloaded.id)
    nothing_taken(offloaded)
    delete(anew(alice), offloaded.id, force=True)
    assert state_of(offloaded) == ("deleted", None)
    assert Image.objects.get(id=offloaded.snapshot_image_id).status == "deleted"


def test_a_guest_of_a_server_on_its_shelf_that_turns_up_is_removed(
    cloud: Cloud, h1: ScriptedAgent, offloaded: Instance
) -> None:
    h1.guests[str(offloaded.id)] = (offloaded.attempt - 1, PowerState.RUNNING)
    h1.hello()
    cloud.run()
    assert h1.guests == {}
    nothing_taken(offloaded)
