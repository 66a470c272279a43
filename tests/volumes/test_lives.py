"""Lives of volumes, as their owner and their host see them: what is refused, what is counted, what is left."""

from __future__ import annotations

import uuid

import pytest

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError, OverQuotaError
from provisioning.quotas.recounts import drift
from provisioning.quotas.selectors import usage_of
from provisioning.quotas.services.limits import set_limit
from provisioning.volumes.errors import InvalidVolumeError, VolumeNotFoundError
from provisioning.volumes.models import Attachment, Message, StoragePool, Volume
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import (
    Create,
    CreateSnapshot,
    Delete,
    Extend,
    Revert,
    SnapshotRequest,
    VolumeDeletion,
    reset_status,
)
from provisioning.volumes.services.connections import attachments
from provisioning.volumes.services.updates.transfers import create_transfer
from tests.support.clouds import context
from tests.volumes.conftest import Town


def held(town: Town) -> dict[str, int]:
    assert town.alice.project_id is not None
    result = usage_of(town.alice.project_id)
    assert [str(each) for each in drift.find()] == []
    return {name: result[name] for name in ("volumes", "gigabytes", "snapshots")}


def allocated() -> int:
    return StoragePool.objects.get().allocated_gb


@pytest.mark.slow
def test_an_empty_volume_is_made_attached_grown_and_deleted(town: Town) -> None:
    volume = town.make(2, name="data")
    assert (volume.status, volume.launched_at is not None) == ("available", True)
    assert town.pool.volumes == {str(volume.id): 2}
    assert (held(town)["gigabytes"], allocated()) == (2, 2)

    attachment = town.attach(volume)
    assert (town.fresh(volume).status, attachment.status, attachment.mountpoint) == ("in-use", "attached", "/dev/vdb")
    first = town.disk(attachment)
    assert (first.size_gb, first.connection.export, first.read_only) == (2, f"{volume.id}.1", False)
    with pytest.raises(InvalidVolumeError):
        Delete.begin(town.alice, volume.id, VolumeDeletion())

    Extend.begin(town.alice, volume.id, 5)
    assert town.fresh(volume).status == "extending"
    town.agent.work()
    grown = town.disk(attachment)
    assert (town.fresh(volume).status, grown.size_gb, grown.connection.export) == (
        "in-use",
        5,
        f"{volume.id}.2",
    )
    assert (held(town)["gigabytes"], allocated()) == (5, 5)

    attachments.begin_detaching(attachment.id)
    assert town.fresh(volume).status == "detaching"
    attachments.release(attachment.id)
    town.agent.work()
    assert (town.fresh(volume).status, town.fresh(volume).daemon_host_id, town.pool.clients) == ("available", None, {})

    Delete.begin(town.alice, volume.id, VolumeDeletion())
    assert town.fresh(volume).status == "deleting"
    town.agent.work()
    assert not Volume.objects.exists()
    assert (town.pool.volumes, allocated(), held(town)) == ({}, 0, {"volumes": 0, "gigabytes": 0, "snapshots": 0})


@pytest.mark.slow
def test_a_volume_that_was_reset_while_somebody_has_it_is_refused_for_that(town: Town) -> None:
    volume = town.make()
    snapshot = CreateSnapshot.begin(town.alice, volume.id, SnapshotRequest())
    town.agent.work()
    attachment = town.attach(volume)
    Volume.objects.filter(id=volume.id).update(status="available")  # an operator's reset
    for act in (
        lambda: town.attach(volume),
        lambda: create_transfer(town.alice, volume.id),
        lambda: Revert.begin(town.alice, volume.id, str(snapshot.id)),
    ):
        with pytest.raises(InvalidVolumeError, match=f"server {attachment.instance_id}"):
            act()
    assert Attachment.objects.get().id == attachment.id


def test_an_operators_reset_gives_back_what_a_volume_was_to_grow_by(town: Town, operator: RequestContext) -> None:
    volume = town.make(1)
    Extend.begin(town.alice, volume.id, 5)
    reset_status(operator, volume.id, status="available")
    assert (town.fresh(volume).wanted_gb, held(town)["gigabytes"], allocated()) == (None, 1, 1)
    town.agent.work()
    assert (town.fresh(volume).status, town.fresh(volume).size_gb) == ("available", 1)
    Extend.begin(town.alice, volume.id, 6)
    town.agent.work()
    assert (town.fresh(volume).size_gb, held(town)["gigabytes"], allocated()) == (6, 6, 6)


def test_what_no_pool_can_take_is_an_error_with_a_reason(town: Town) -> None:
    assert town.alice.project_id is not None
    set_limit(town.alice.project_id, "gigabytes", -1)
    volume = town.make(50_000)
    assert (volume.status, volume.pool) == ("error", None)
    assert "at most 2000 GiB free" in Message.objects.get(resource_id=volume.id).text
    assert ("failed", volume.id) in town.guests.notified

    Volume.objects.filter(id=volume.id).update(status="available")  # an operator's reset
    for act in (
        lambda: Extend.begin(town.alice, volume.id, 60_000),
        lambda: CreateSnapshot.begin(town.alice, volume.id, SnapshotRequest()),
        lambda: town.attach(volume),
    ):
        with pytest.raises(InvalidVolumeError, match="was never placed in a pool"):
            act()
    assert (town.fresh(volume).status, Attachment.objects.exists()) == ("available", False)
    Delete.begin(town.alice, volume.id, VolumeDeletion())
    assert not Volume.objects.exists()
    assert held(town)["volumes"] == 0


@pytest.mark.parametrize("size", [0, -1, None, True, 10**9])
def test_sizes_that_cannot_be(town: Town, size: int) -> None:
    with pytest.raises(InvalidInputError) as refused:
        Create.begin(town.alice, VolumeRequest(size_gb=size))
    assert refused.value.field == "size"
    assert not Volume.objects.exists()


def test_limits_of_volumes_sizes_and_types(town: Town) -> None:
    assert town.alice.project_id is not None
    set_limit(town.alice.project_id, "per_volume_gigabytes", 3)
    with pytest.raises(OverQuotaError, match="per_volume_gigabytes"):
        Create.begin(town.alice, VolumeRequest(size_gb=4))
    volume = town.make(3)
    set_limit(town.alice.project_id, "per_volume_gigabytes", -1)
    set_limit(town.alice.project_id, "gigabytes", 5)
    with pytest.raises(OverQuotaError, match="gigabytes"):
        Extend.begin(town.alice, volume.id, 6)
    assert town.fresh(volume).status == "available"
    assert (allocated(), held(town)["gigabytes"]) == (3, 3)


def test_another_projects_volume_is_nobodys(town: Town) -> None:
    volume, charlie = town.make(), context("charlie")
    for act in (
        lambda: Delete.begin(charlie, volume.id, VolumeDeletion()),
        lambda: Extend.begin(charlie, volume.id, 2),
        lambda: attachments.reserve(charlie, volume.id, uuid.uuid4()),
        lambda: Create.begin(charlie, VolumeRequest(source_volume_id=str(volume.id))),
    ):
        with pytest.raises(VolumeNotFoundError):
            act()
    with pytest.raises(NotFoundError):
        Create.begin(charlie, VolumeRequest(size_gb=1, volume_type="none such"))


@pytest.mark.slow
def test_a_host_that_fails_leaves_a_reason_and_nothing_held(town: Town) -> None:
    town.agent.failing["create_volume_request"] = "The disk is full."
    volume = town.make()
    assert (volume.status, "The disk is full." in Message.objects.get().text) == ("error", True)
    good = town.make(2)
    town.agent.failing["grow_volume_request"] = "No."
    Extend.begin(town.alice, good.id, 9)
    town.agent.work()
    assert (town.fresh(good).status, town.fresh(good).size_gb) == ("error_extending", 2)
    assert (held(town)["gigabytes"], allocated()) == (3, 3)
    town.agent.failing["delete_volume_request"] = "No."
    Delete.begin(town.alice, good.id, VolumeDeletion())
    town.agent.work()
    assert town.fresh(good).status == "error_deleting"
    Delete.begin(town.alice, good.id, VolumeDeletion())
    town.agent.work()
    assert not Volume.objects.filter(id=good.id).exists()


def test_a_volume_has_one_user(town: Town) -> None:
    volume = town.make()
    attachments.reserve(town.alice, volume.id, uuid.uuid4())
    with pytest.raises(InvalidVolumeError):
        attachments.reserve(town.alice, volume.id, uuid.uuid4())
    assert (town.fresh(volume).status, Attachment.objects.count()) == ("reserved", 1)


def test_a_daemon_that_does_not_start_refuses_the_attachment(town: Town) -> None:
    volume = town.make()
    town.agent.failing["connect_volume_request"] = "No port is free."
    attachment = attachments.reserve(town.alice, volume.id, uuid.uuid4())
    attachments.connect(attachment, town.host)
    town.agent.work()
    assert ("No port is free.", attachment.id) in town.guests.notified
    assert (town.fresh(volume).status, Attachment.objects.count()) == ("available", 0)
