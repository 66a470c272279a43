"""Onto the shelf, and off the host: stopped, copied, and away with everything the server had kept."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from django.utils import timezone

from compute_agent.contract.commands import DestroyRequest, SnapshotRequest
from compute_agent.contract.power import PowerState
from provisioning.common.context import RequestContext
from provisioning.compute.actions.delete import delete
from provisioning.compute.actions.interfaces import attach_interface, detach_interface
from provisioning.compute.actions.lock import lock
from provisioning.compute.actions.shelve import Offload, Shelve
from provisioning.compute.actions.unshelve import unshelve
from provisioning.compute.errors import InstanceBusyError, InstanceLockedError
from provisioning.compute.launch.request import NetworkRequest
from provisioning.compute.models import Allocation, Instance
from provisioning.compute.upkeep import reaper
from provisioning.compute.upkeep.offload import offload_shelved
from provisioning.hosts.models import Host
from provisioning.images.models import Image
from provisioning.network.models import Port
from provisioning.quotas.models import QuotaUsage
from tests.core.shelve.shelves import action, addresses, let_deadline_pass, nothing_taken, only
from tests.support.clouds import Cloud, state_of
from tests.support.scripted_agent import ScriptedAgent


@pytest.mark.slow
def test_a_shelved_server_is_stopped_copied_and_still_on_its_host(
    cloud: Cloud, h1: ScriptedAgent, server: Instance, alice: RequestContext
) -> None:
    Shelve.begin(alice, server.id)
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
    Shelve.begin(alice, server.id)
    cloud.run()
    assert state_of(server) == ("shelved", None)


def test_a_locked_server_is_not_shelved(server: Instance, alice: RequestContext) -> None:
    lock(alice, server.id)
    with pytest.raises(InstanceLockedError):
        Shelve.begin(alice, server.id)


def test_what_is_not_shelved_is_not_taken_off(
    server: Instance, alice: RequestContext, operator: RequestContext
) -> None:
    with pytest.raises(InstanceBusyError, match="Cannot 'unshelve' instance"):
        unshelve(alice, server.id)
    with pytest.raises(InstanceBusyError, match="Cannot 'shelveOffload' instance"):
        Offload.begin(operator, server.id)


@pytest.mark.parametrize("how", ["failed", "silent", "lied"])
def test_a_shelving_that_fails_leaves_the_server_and_no_image(
    cloud: Cloud, h1: ScriptedAgent, server: Instance, alice: RequestContext, how: str
) -> None:
    Shelve.begin(alice, server.id)
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
    Shelve.begin(alice, server.id)
    command = only(h1, SnapshotRequest)
    h1.send(command, command.body)  # type: ignore[arg-type]
    delete(alice, server.id)
    cloud.run()
    assert state_of(server) == ("deleted", None)
    assert not Image.objects.filter(name="web-shelved").exclude(status="deleted").exists()


@pytest.mark.slow
def test_offloading_frees_the_host_and_keeps_ports_and_quota(
    cloud: Cloud, h1: ScriptedAgent, shelved: Instance, alice: RequestContext, operator: RequestContext
) -> None:
    before, attempt = addresses(shelved), shelved.attempt
    used = {row.resource: row.in_use for row in QuotaUsage.objects.filter(project_id=alice.project_id)}
    Offload.begin(operator, shelved.id)
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
    Shelve.begin(alice, server.id)
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
    Offload.begin(operator, shelved.id)
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
    Offload.begin(operator, shelved.id)
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
        Offload.begin(operator, shelved.id)
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


@pytest.mark.slow
def test_what_its_guest_had_not_done_yet_is_done_with_its_end(
    cloud: Cloud, h1: ScriptedAgent, server: Instance, alice: RequestContext, settings: Any
) -> None:
    settings.SHELVED_OFFLOAD_TIME = 0
    old = Port.objects.get(device_id=server.id)
    new = attach_interface(alice, server.id, NetworkRequest(str(cloud.network.id)))
    detach_interface(alice, server.id, str(old.id))
    assert len(h1.take()) == 2, "the host has taken both orders, and says nothing of them"
    Shelve.begin(alice, server.id)
    cloud.run()
    assert state_of(server) == ("shelved_offloaded", None)
    assert [port.id for port in Port.objects.filter(device_id=server.id)] == [new]
    assert not Port.objects.filter(id=old.id).exists()
    for name in ("attach_interface", "detach_interface"):
        assert action(server, name).message is None
    unshelve(alice, server.id)
    cloud.run()
    assert state_of(server) == ("active", None)
