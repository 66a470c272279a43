"""Findings of the doctor about moves that were left half-way."""

from __future__ import annotations

import uuid

import pytest
from django.utils import timezone

from compute_agent.contract.commands import RefreshVolumeRequest
from compute_agent.contract.volume import ConnectVolumeRequest
from provisioning.common.context import RequestContext
from provisioning.compute.actions.attach_volume import VolumeToAttach, attach_volume
from provisioning.compute.actions.power import Stop
from provisioning.compute.flavors.sizes import room_of
from provisioning.compute.host_link.allocations import claim_room, record_second
from provisioning.compute.host_link.release import send_destroy
from provisioning.compute.models import Instance, Migration, MoveAllocation
from provisioning.compute.records.migration_records import MIGRATION, open_migration
from provisioning.hosts.models import Host, HostCommand
from provisioning.network.models import Port
from provisioning.volumes.models import Attachment, Volume
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create
from tests.core.doctor.findings import OLD, broken, look, only, repaired
from tests.support import invariants
from tests.support.clouds import Cloud, context
from tests.support.jobs import drain

pytestmark = pytest.mark.django_db


@pytest.fixture
def server(cloud: Cloud, alice: RequestContext) -> Instance:
    """A server on the host ``one``; ``two`` is empty."""
    Host.objects.filter(name="two").update(enabled=False)
    server = cloud.running(alice)
    Host.objects.update(enabled=True)
    return server


def left(server: Instance, context: RequestContext, host: str) -> Migration:
    """A move to the host that has failed, and whose second allocation was kept."""
    target, room = Host.objects.get(name=host), room_of(server.flavor)
    migration = open_migration(context, server, MIGRATION, server.flavor, target=target)
    assert claim_room(room, target.id)
    record_second(server, migration, target.id, room)
    Migration.objects.update(status="error")
    broken(server, updated_at=timezone.now() - OLD)
    return migration


def test_resources_on_a_second_host(cloud: Cloud, server: Instance, alice: RequestContext) -> None:
    migration = left(server, alice, "two")
    Migration.objects.filter(pk=migration.pk).update(status="migrating")
    assert look("second_hosts") == [], "the move is in progress"
    Migration.objects.filter(pk=migration.pk).update(status="error")
    assert "host two" in only("second_hosts").sentence
    repaired("second_hosts")
    cloud.run()
    assert not MoveAllocation.objects.exists()
    assert Host.objects.get(name="two").instances_allocated == 0


def test_two_allocations_on_the_same_host(cloud: Cloud, server: Instance, alice: RequestContext) -> None:
    left(server, alice, "one")
    repaired("second_hosts")
    assert not MoveAllocation.objects.exists()
    assert not HostCommand.objects.filter(kind="destroy_request").exists()


def test_ports_of_another_host(cloud: Cloud, server: Instance) -> None:
    Port.objects.filter(device_id=server.id).update(host="two")
    assert "bound to two" in only("bound_ports").sentence
    repaired("bound_ports")
    assert {port.host for port in Port.objects.filter(device_id=server.id)} == {"one"}


@pytest.fixture
def misplaced(cloud: Cloud, server: Instance, alice: RequestContext) -> Attachment:
    """A volume of a server on ``one`` that is exported to ``two``; a third host serves it."""
    cloud.add_host("storage").serve()
    Host.objects.filter(name="storage").update(enabled=False)
    volume = Create.begin(alice, VolumeRequest(size_gb=1))
    cloud.run()
    attach_volume(alice, server.id, VolumeToAttach(str(volume.id)))
    cloud.run()
    Attachment.objects.update(host=Host.objects.get(name="two"))
    return Attachment.objects.get()


@pytest.mark.both_databases("locks")
@pytest.mark.parametrize("running", [True, False])
def test_a_volume_that_is_exported_to_another_host(
    cloud: Cloud, server: Instance, misplaced: Attachment, *, running: bool
) -> None:
    if not running:
        Stop.begin(context("alice"), server.id)
        cloud.run()
    assert "exported to host two" in only("connections").sentence
    repaired("connections")
    row = Attachment.objects.get()
    assert (row.host, row.status, row.connection) == (server.host, "attaching", {})
    [connect] = cloud.agents["storage"].take()
    assert isinstance(connect.body, ConnectVolumeRequest)
    assert [client.host_id for client in connect.body.clients] == [str(server.host_id)], "the other export ends"
    cloud.agents["storage"].carry_out(connect)
    drain()
    [refresh] = cloud.agents["one"].take()
    assert isinstance(refresh.body, RefreshVolumeRequest)
    assert refresh.body.disk.connection.export
    cloud.agents["one"].carry_out(refresh)
    row.refresh_from_db()
    assert (row.host, row.status, row.volume.status) == (server.host, "attached", "in-use")
    invariants.check()


@pytest.mark.slow
def test_a_refused_export_is_found_and_repeated(cloud: Cloud, server: Instance, misplaced: Attachment) -> None:
    repaired("connections")
    [connect] = cloud.agents["storage"].take()
    cloud.agents["storage"].fail(connect, "The pool is not there.", retryable=False)
    drain()
    row = Attachment.objects.get()
    assert (row.host, row.status, row.connection) == (server.host, "error_attaching", {})
    assert "could not be exported to host one" in only("connections").sentence
    Host.objects.filter(name="one").update(last_seen_at=timezone.now() - OLD)
    assert only("connections").repair is None, "its host cannot connect it now"
    Host.objects.filter(name="one").update(last_seen_at=timezone.now())
    repaired("connections")
    cloud.run()
    row.refresh_from_db()
    assert (row.host, row.status, row.volume.status) == (server.host, "attached", "in-use")
    invariants.check()


def test_a_refused_export_to_another_host_is_named_as_such(server: Instance, misplaced: Attachment) -> None:
    Attachment.objects.update(status="error_attaching")
    assert "is on another host" in only("connections").sentence


def test_an_export_that_may_be_in_use_is_kept(cloud: Cloud, server: Instance, misplaced: Attachment) -> None:
    two, long_ago = Host.objects.filter(name="two"), timezone.now() - OLD
    two.update(last_seen_at=long_ago)
    assert "force it down" in only("connections").sentence
    two.update(forced_down=True)
    assert only("connections").repair is not None
    two.update(forced_down=False, last_seen_at=timezone.now())
    send_destroy(server.id, two.get().id, server.attempt + 1)
    result = only("connections")
    assert "has not confirmed" in result.sentence
    assert result.repair is None
    cloud.agents["two"].work()
    result = only("connections")
    assert result.repair is not None
    Host.objects.filter(name="one").update(last_seen_at=long_ago)
    assert result.repair() is None
    assert "is back" in only("connections").sentence
    assert Attachment.objects.get().host == two.get()


def test_a_guest_without_the_disk_keeps_its_volume(cloud: Cloud, server: Instance, misplaced: Attachment) -> None:
    repaired("connections")
    cloud.agents["storage"].work()
    drain()
    [refresh] = cloud.agents["one"].take()
    cloud.agents["one"].fail(refresh, "The guest does not have the volume.", retryable=False)
    row = Attachment.objects.get()
    assert (row.host, row.status) == (server.host, "attached")
    assert server.faults.count() == 1
    invariants.check()


def test_a_volume_that_is_still_exported_to_a_second_host(cloud: Cloud, server: Instance) -> None:
    two = Host.objects.get(name="two")
    volume = Volume.objects.create(project_id=server.project_id, user_id=uuid.uuid4(), size_gb=1, status="in-use")
    row = Attachment.objects.create(
        volume=volume, project_id=server.project_id, instance_id=server.id, host=server.host, second_host=two
    )
    finding = only("second_connections")
    assert "exported to host two" in finding.sentence
    assert finding.repair is not None
    finding.repair()
    assert Attachment.objects.get(pk=row.pk).second_host is None
    row.delete()
    volume.delete()


def test_ports_that_are_still_bound_to_a_second_host(cloud: Cloud, server: Instance) -> None:
    Port.objects.filter(device_id=server.id).update(second_host="two")
    assert "second host" in only("second_bindings").sentence
    repaired("second_bindings")
    assert {port.second_host for port in Port.objects.filter(device_id=server.id)} == {""}
