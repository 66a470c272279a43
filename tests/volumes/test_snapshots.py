"""Snapshots, what is made of them, reverts and images of volumes."""

from __future__ import annotations

import uuid

import pytest

from provisioning.common.errors import InvalidInputError
from provisioning.common.tasks import TASKS
from provisioning.hosts.models import RejectedReport
from provisioning.images.models import Image
from provisioning.quotas.recounts import drift
from provisioning.volumes.errors import InvalidVolumeError
from provisioning.volumes.models import Message, Snapshot, Volume
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import (
    Create,
    CreateSnapshot,
    Delete,
    DeleteSnapshot,
    Deletion,
    Extend,
    Reimage,
    ReimageRequest,
    Revert,
    SnapshotRequest,
    UploadRequest,
    UploadToImage,
    VolumeDeletion,
)
from provisioning.volumes.services.connections.attachments import release, reserve
from provisioning.volumes.tasks import SILENT
from tests.volumes.conftest import Town


def taken(town: Town, volume: Volume, **values: bool) -> Snapshot:
    snapshot = CreateSnapshot.begin(town.alice, volume.id, SnapshotRequest(name="s", **values))  # type: ignore[arg-type]
    town.agent.work()
    snapshot.refresh_from_db()
    return snapshot


@pytest.mark.slow
def test_a_snapshot_is_taken_cloned_and_deleted(town: Town) -> None:
    volume = town.make(2)
    town.attach(volume)
    with pytest.raises(InvalidVolumeError):
        CreateSnapshot.begin(town.alice, volume.id, SnapshotRequest())
    snapshot = taken(town, volume, force=True)
    assert (snapshot.status, snapshot.progress, town.pool.snapshots) == (
        "available", 100, {str(snapshot.id): str(volume.id)},
    )  # fmt: skip
    with pytest.raises(InvalidInputError, match="at least 2 GiB"):
        Create.begin(town.alice, VolumeRequest(size_gb=1, snapshot_id=str(snapshot.id)))
    clone = Create.begin(town.alice, VolumeRequest(snapshot_id=str(snapshot.id)))
    town.agent.work()
    assert (town.fresh(clone).status, clone.size_gb, clone.source_snapshot_id) == ("available", 2, snapshot.id)
    DeleteSnapshot.begin(town.alice, snapshot.id, Deletion())
    town.agent.work()
    assert (Snapshot.objects.count(), town.pool.snapshots) == (0, {})
    assert [str(difference) for difference in drift.find()] == []


@pytest.mark.slow
def test_a_volume_is_deleted_with_its_snapshots_only_if_that_is_requested(town: Town) -> None:
    volume = town.make()
    taken(town, volume)
    with pytest.raises(InvalidVolumeError):
        Delete.begin(town.alice, volume.id, VolumeDeletion())
    Delete.begin(town.alice, volume.id, VolumeDeletion(cascade=True))
    town.agent.work()
    assert (Volume.objects.count(), Snapshot.objects.count(), town.pool.volumes, town.pool.snapshots) == (0, 0, {}, {})
    assert [str(difference) for difference in drift.find()] == []


@pytest.mark.slow
def test_only_the_newest_snapshot_of_this_size_is_reverted_to(town: Town) -> None:
    volume = town.make()
    older, newer = taken(town, volume), taken(town, volume)
    with pytest.raises(InvalidInputError):
        Revert.begin(town.alice, volume.id, str(older.id))
    Revert.begin(town.alice, volume.id, str(newer.id))
    assert town.fresh(volume).status == "reverting"
    town.agent.work()
    assert town.fresh(volume).status == "available"
    Extend.begin(town.alice, volume.id, 2)
    town.agent.work()
    with pytest.raises(InvalidInputError):
        Revert.begin(town.alice, volume.id, str(newer.id))


@pytest.mark.slow
def test_an_image_is_written_over_a_volume_that_nobody_reads(town: Town) -> None:
    image, volume = town.cloud.image, town.make(1)
    Reimage.begin(town.alice, volume.id, ReimageRequest(str(image.id)))
    with pytest.raises(InvalidVolumeError, match="is downloading"):
        Reimage.begin(town.alice, volume.id, ReimageRequest(str(image.id)))
    [command] = town.agent.take()
    assert (town.fresh(volume).status, town.fresh(volume).bootable) == ("downloading", False)
    town.agent.carry_out(command)
    volume = town.fresh(volume)
    assert (volume.status, volume.bootable, volume.source_image_id) == ("available", True, image.id)
    assert volume.image_metadata["image_name"] == "small"

    Image.objects.filter(id=image.id).update(min_disk=2)
    with pytest.raises(InvalidInputError, match="needs 2 GiB"):
        Reimage.begin(town.alice, volume.id, ReimageRequest(str(image.id)))
    Image.objects.filter(id=image.id).update(min_disk=0)
    town.agent.failing["reimage_volume_request"] = "The disk is broken."
    Reimage.begin(town.alice, volume.id, ReimageRequest(str(image.id)))
    town.agent.work()
    assert town.fresh(volume).status == "error"
    assert "The disk is broken." in Message.objects.get().text
    Reimage.begin(town.alice, volume.id, ReimageRequest(str(image.id)))
    town.agent.work()
    assert town.fresh(volume).status == "available"


def test_an_image_that_does_not_fit_changes_nothing(town: Town) -> None:
    image, volume = town.cloud.image, town.make(1)
    Reimage.begin(town.alice, volume.id, ReimageRequest(str(image.id)))
    [command] = town.agent.take()
    town.agent.report(command, "failed", error_code="image_unacceptable", message="It lies about its size.")
    volume = town.fresh(volume)
    assert (volume.status, volume.bootable, Message.objects.count()) == ("available", False, 1)


@pytest.mark.slow
def test_no_image_is_written_over_what_a_server_has(town: Town) -> None:
    image, volume = town.cloud.image, town.make(1)
    held = reserve(town.alice, volume.id, uuid.uuid4())
    with pytest.raises(InvalidVolumeError):
        Reimage.begin(town.alice, volume.id, ReimageRequest(str(image.id)))
    Reimage.begin(town.alice, volume.id, ReimageRequest(str(image.id), reserved=True))
    town.agent.work()
    assert town.fresh(volume).status == "reserved"
    release(held.id)
    town.attach(volume)
    Volume.objects.filter(id=volume.id).update(status="error")
    with pytest.raises(InvalidVolumeError, match="has attachments"):
        Reimage.begin(town.alice, volume.id, ReimageRequest(str(image.id), reserved=True))


def test_a_host_that_is_silent_about_an_image_leaves_the_volume_in_error(town: Town) -> None:
    image, volume = town.cloud.image, town.make(1)
    Reimage.begin(town.alice, volume.id, ReimageRequest(str(image.id)))
    task = TASKS.of(Volume, "downloading")
    assert task is not None
    task.overdue(town.fresh(volume))
    assert (town.fresh(volume).status, town.guests.notified[-1]) == ("error", (SILENT, volume.id))
    assert "failed" not in {word for word, _ in town.guests.notified}, "no launch is notified of a failure"


def test_a_snapshot_that_fails_says_why(town: Town) -> None:
    town.agent.failing["snapshot_volume_request"] = "No room."
    volume = town.make()
    assert taken(town, volume).status == "error"
    message = Message.objects.get()
    assert (message.resource_type, "No room." in message.text) == ("VOLUME_SNAPSHOT", True)


@pytest.mark.slow
def test_a_volume_is_made_of_an_image_and_becomes_one(town: Town, tmp_path: object) -> None:
    source = town.cloud.image
    with pytest.raises(InvalidInputError):
        Create.begin(town.alice, VolumeRequest(image_id=str(source.id)))
    Image.objects.filter(id=source.id).update(min_disk=3)
    with pytest.raises(InvalidInputError, match="at least 3 GiB"):
        Create.begin(town.alice, VolumeRequest(size_gb=2, image_id=str(source.id)))
    volume = Create.begin(town.alice, VolumeRequest(size_gb=3, image_id=str(source.id)))
    assert (volume.status, volume.bootable, volume.image_metadata["image_name"]) == ("downloading", True, "small")
    town.agent.work()
    volume, image = UploadToImage.begin(town.alice, volume.id, UploadRequest("copy"))
    assert (town.fresh(volume).status, image.status) == ("uploading", "queued")
    town.agent.work()
    image.refresh_from_db()
    assert (town.fresh(volume).status, image.status, image.min_disk) == ("available", "active", 3)
    assert "uploading_to" not in town.fresh(volume).admin_metadata

    UploadToImage.begin(town.alice, volume.id, UploadRequest("too late"))
    waiting = town.agent.take()
    Delete.begin(town.alice, volume.id, VolumeDeletion(force=True))
    for command in waiting:
        town.agent.carry_out(command)
    assert RejectedReport.objects.count() == 0
    town.agent.work()
    assert not Volume.objects.filter(id=volume.id).exists()

    volume = town.make()
    town.agent.failing["upload_volume_request"] = "The portal is away."
    _, lost = UploadToImage.begin(town.alice, volume.id, UploadRequest("again"))
    town.agent.work()
    lost.refresh_from_db()
    assert (town.fresh(volume).status, lost.status) == ("available", "deleted")
