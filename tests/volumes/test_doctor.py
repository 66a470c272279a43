"""What the doctor finds of volumes: records that do not go together, and hosts that have something else."""

from __future__ import annotations

import uuid

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from compute_agent.contract.volume import (
    VOLUME_COPY,
    BackupVolumeRequest,
    DeleteSnapshotRequest,
    DeleteVolumeRequest,
    GuestVolumes,
    PoolContents,
    StoredVolume,
)
from provisioning.compute.models import BlockDevice
from provisioning.doctor.examinations.examination import examine, treat
from provisioning.doctor.finding import Finding
from provisioning.hosts import calls
from provisioning.hosts.commands import send
from provisioning.hosts.models import Host, HostCommand
from provisioning.hosts.subjects import Subject
from provisioning.volumes.models import Attachment, PoolHost, Snapshot, StoragePool, Volume
from provisioning.volumes.services import CreateSnapshot, Delete, SnapshotRequest, VolumeDeletion
from provisioning.volumes.services.connections import attachments
from provisioning.volumes.states import VolumeStatus
from tests.support.landing import one_in
from tests.volumes.conftest import Town

CHECKS = ("volumes", "attachments", "block_devices", "pool_counters", "pools", "pool_contents")


def look(*names: str) -> list[Finding]:
    return examine(names or CHECKS, pause=0)


def repair_only(check: str) -> None:
    """Mend the one thing that there is; nothing is found any more."""
    (finding,) = look()
    assert finding.check == check
    (treated,) = treat([finding], repair=True)
    assert treated.repaired
    assert look() == []


@pytest.mark.slow
def test_a_status_that_does_not_follow_from_the_attachments_is_mended(town: Town) -> None:
    volume = town.make()
    assert look() == []
    Volume.objects.update(status=VolumeStatus.IN_USE)
    repair_only("volumes")
    assert town.fresh(volume).status == VolumeStatus.AVAILABLE
    Volume.objects.update(status=VolumeStatus.EXTENDING)
    assert [(each.check, each.remedy) for each in look()] == [("volumes", None)]


@pytest.mark.slow
def test_a_volume_that_is_held_for_a_server_that_is_over_is_given_back(town: Town) -> None:
    volume = town.make()
    town.attach(volume)  # to a server that no record knows
    repair_only("attachments")
    town.agent.work()
    assert town.fresh(volume).status == VolumeStatus.AVAILABLE
    assert not Attachment.objects.exists()


@pytest.mark.both_databases("locks")
def test_a_pool_counts_anew_and_one_that_nobody_serves_is_reported(town: Town) -> None:
    town.make(3)
    StoragePool.objects.update(allocated_gb=1)
    repair_only("pool_counters")
    assert StoragePool.objects.get().allocated_gb == 3
    PoolHost.objects.all().delete()
    assert [each.check for each in look()] == ["pools"]


@pytest.fixture
def contents(town: Town, monkeypatch: pytest.MonkeyPatch) -> list[StoredVolume]:
    """What the host says its pool has."""
    StoragePool.objects.update(driver="nbd")
    stored: list[StoredVolume] = []
    monkeypatch.setattr(calls, "call", lambda *_: PoolContents(volumes=list(stored)))
    return stored


def test_data_without_a_record_and_records_without_data_are_reported_and_left_alone(
    town: Town, contents: list[StoredVolume]
) -> None:
    volume, strange = town.make(), str(uuid.uuid4())
    contents[:] = [StoredVolume(id=strange), StoredVolume(id=str(uuid.uuid4()), gone=True)]
    result = {each.subject: each for each in look("pool_contents")}
    assert result.keys() == {f"pool {town.pool.name}", f"volume {volume.id}"}
    assert not any(each.remedy for each in result.values())
    contents[:] = [StoredVolume(id=str(volume.id))]
    assert look("pool_contents") == []


@pytest.mark.slow
def test_data_that_was_ordered_away_and_is_there_again_is_removed_and_no_other(
    town: Town, contents: list[StoredVolume]
) -> None:
    volume = town.make()
    Delete.begin(town.alice, volume.id, VolumeDeletion())
    contents[:] = [StoredVolume(id=str(volume.id))]
    assert look("pool_contents") == []  # it goes on
    town.agent.work()
    for held_open in (False, True):
        contents[:] = [StoredVolume(id=str(volume.id), daemon=held_open, gone=held_open)]
        (treated,) = treat(look("pool_contents"), repair=True)
        assert treated.repaired
        (command,) = town.agent.take()
        assert isinstance(command.body, DeleteVolumeRequest)
        assert (command.body.volume.id, command.body.volume.pool_id) == (str(volume.id), str(volume.pool_id))
        assert look("pool_contents") == []
        town.agent.report(command, "finished")
    HostCommand.objects.all().delete()  # too long ago
    assert [each.remedy for each in look("pool_contents")] == [None]


@pytest.mark.slow
def test_attachments_that_are_no_disk_of_their_server_are_given_back_and_disks_without_one_reported(town: Town) -> None:
    server, volume = town.cloud.launch(town.alice), town.make()
    attachment = town.attach(volume, server.id)
    repair_only("block_devices")
    assert not Attachment.objects.exists()
    disk = {"instance": server, "source_type": "volume", "destination_type": "volume", "volume_id": volume.id}
    BlockDevice.objects.create(attachment_id=attachment.id, **disk)
    assert [(each.check, each.remedy) for each in look("block_devices")] == [("block_devices", None)]


@pytest.mark.slow
def test_disks_of_guests_and_attachments_are_compared_both_ways(town: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    server, volume, other = town.cloud.launch(town.alice), town.make(), town.make()
    town.cloud.run()
    attachment = town.attach(volume, server.id)
    StoragePool.objects.update(driver="nbd")
    has: list[str] = []
    monkeypatch.setattr(calls, "call", lambda *_: GuestVolumes(guests={str(server.id): has, str(uuid.uuid4()): ["x"]}))
    assert [each.subject for each in look("guest_volumes")] == [f"instance {server.id}"], "the guest lacks it"
    has[:] = [str(volume.id)]
    assert look("guest_volumes") == []
    has[:] = [str(volume.id), str(other.id)]
    assert [each.severity for each in look("guest_volumes")] == ["error"], "the guest has one more"
    has[:] = []
    attachments.begin_detaching(attachment.id)
    assert look("guest_volumes") == [], "it goes on"


@pytest.mark.parametrize("name", ["clone-{}-0123abcd", "image-{}-0123abcd", "unmanaged-{}-0123abcd", "backup-{}"])
def test_what_copies_have_left_of_a_volume_is_removed_and_strange_snapshots_are_reported(
    town: Town, contents: list[StoredVolume], name: str
) -> None:
    volume, copy = town.make(), str(uuid.uuid4())
    left, strange = name.format(copy), str(uuid.uuid4())
    contents[:] = [StoredVolume(id=str(volume.id), snapshots=[left, strange, f"snapshot-{copy}"])]
    result = {each.evidence: each for each in look("pool_contents")}
    assert result.keys() == {left, strange}
    assert result[strange].remedy is None
    (treated,) = treat([result[left]], repair=True)
    assert treated.repaired
    (command,) = town.agent.take()
    assert isinstance(command.body, DeleteSnapshotRequest)
    assert command.body.snapshot_id == left
    town.agent.report(command, "finished")
    subject = Subject(VOLUME_COPY, uuid.UUID(copy), 1)
    contents[:] = [StoredVolume(id=str(volume.id), snapshots=[left])]
    assert len(look("pool_contents")) == 1
    send(town.host.id, subject, BackupVolumeRequest(volume=command.body.volume, backup_id=copy), None)
    assert look("pool_contents") == [], "the copy goes on"


def test_a_pool_whose_host_is_reported_as_dead_is_reported(town: Town) -> None:
    town.make()
    Host.objects.update(forced_down=True)
    assert [(each.subject, each.severity) for each in look("pools")] == [(f"pool {town.pool.name}", "warning")]


def test_a_snapshot_that_nothing_ends_is_reported(town: Town) -> None:
    volume = town.make()
    CreateSnapshot.begin(town.alice, volume.id, SnapshotRequest())
    assert look("volumes") == []
    Snapshot.objects.update(deadline=None)
    assert [each.check for each in look("volumes")] == ["volumes"]


@pytest.mark.slow
def test_a_daemon_that_nobody_needs_or_that_forgot_a_client_is_notified_again(
    town: Town, contents: list[StoredVolume]
) -> None:
    volume = town.make()
    contents[:] = [StoredVolume(id=str(volume.id), daemon=True, attachments=[str(uuid.uuid4())])]
    assert [each.remedy for each in look("pool_contents")] == ["Send the host the clients again."]
    attachment = town.attach(volume)
    contents[:] = [StoredVolume(id=str(volume.id), daemon=True, attachments=[str(attachment.id)])]
    assert look("pool_contents") == []
    contents[:] = [StoredVolume(id=str(volume.id))]  # the daemon has died
    (treated,) = treat(look("pool_contents"), repair=True)
    assert treated.repaired
    assert [client.attachment_id for client in town.agent.take()[0].body.clients] == [str(attachment.id)]  # type: ignore[union-attr]


@pytest.mark.slow
@one_in(2, "check", ["volumes", "pools", "pool_contents"])
def test_many_volumes_cost_no_more_queries_than_a_few(town: Town, contents: list[StoredVolume], check: str) -> None:
    def cost() -> int:
        contents[:] = [
            StoredVolume(
                id=str(volume.id),
                snapshots=[str(key) for key in Snapshot.objects.filter(volume=volume).values_list("id", flat=True)],
                attachments=[str(key) for key in Attachment.objects.filter(volume=volume).values_list("id", flat=True)],
                daemon=Attachment.objects.filter(volume=volume).exists(),
            )
            for volume in Volume.objects.all()
        ]
        with CaptureQueriesContext(connection) as queries:
            assert look(check) == []
        return len(queries)

    def some() -> None:
        town.attach(town.make())
        CreateSnapshot.begin(town.alice, town.make().id, SnapshotRequest())
        town.agent.work()
        StoragePool.objects.create(id=uuid.uuid4(), name="more", driver="nbd", shared=False, total_gb=1, free_gb=1)

    some()
    first = cost()
    for _ in range(4):
        some()
    assert cost() == first
