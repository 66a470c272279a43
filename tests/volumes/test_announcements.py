"""Notifications and live pages of volumes, and the effect of a frozen host."""

from __future__ import annotations

import pytest

from provisioning.events.models import Event
from provisioning.notifications.messages import TOPIC
from provisioning.volumes.errors import InvalidVolumeError
from provisioning.volumes.models import StoragePool
from provisioning.volumes.records.announcements import TYPES
from provisioning.volumes.services import (
    CreateSnapshot,
    Delete,
    DeleteSnapshot,
    Deletion,
    Extend,
    SnapshotRequest,
    VolumeDeletion,
    set_items,
    update_volume,
)
from provisioning.volumes.services.connections import attachments
from tests.volumes.conftest import Town


def notified() -> list[str]:
    return list(Event.objects.filter(topic=TOPIC).order_by("id").values_list("kind", flat=True))


@pytest.mark.slow
def test_changes_are_reported_as_in_cinder_and_wake_the_pages(town: Town) -> None:
    volume = town.make(name="data")
    attachment = town.attach(volume)
    Extend.begin(town.alice, volume.id, 2)
    town.agent.work()
    attachments.begin_detaching(attachment.id)
    attachments.release(attachment.id)
    town.agent.work()
    snapshot = CreateSnapshot.begin(town.alice, volume.id, SnapshotRequest())
    town.agent.work()
    DeleteSnapshot.begin(town.alice, snapshot.id, Deletion())
    town.agent.work()
    Delete.begin(town.alice, volume.id, VolumeDeletion())
    town.agent.work()
    names = [name for name in notified() if name.startswith(("volume.", "snapshot."))]
    assert names == [
        f"{name}.{moment}"
        for name in ("volume.create", "volume.attach", "volume.resize", "volume.detach", "snapshot.create",
                     "snapshot.delete", "volume.delete")
        for moment in ("start", "end")
    ]  # fmt: skip
    assert set(names) <= set(TYPES)
    seen = Event.objects.filter(topic=f"project:{town.alice.project_id}", kind="volume").order_by("id")
    states = [each.payload["status"] for each in seen if each.payload["record"] == "volume"]
    assert [each for n, each in enumerate(states) if not n or states[n - 1] != each] == [
        "creating", "available", "reserved", "attaching", "in-use", "extending", "in-use", "detaching", "available",
        "deleting",
    ]  # fmt: skip
    versions = [each.payload["version"] for each in seen if each.payload["record"] == "volume"]
    assert versions == sorted(versions)


@pytest.mark.slow
def test_what_is_reported_of_a_volume_and_a_frozen_pool(town: Town) -> None:
    volume = town.make(metadata={"a": "b"})
    StoragePool.objects.update(frozen=True)
    for change in (
        lambda: Extend.begin(town.alice, volume.id, 2),
        lambda: CreateSnapshot.begin(town.alice, volume.id, SnapshotRequest()),
        lambda: Delete.begin(town.alice, volume.id, VolumeDeletion()),
    ):
        with pytest.raises(InvalidVolumeError):
            change()
    town.attach(volume)
    update_volume(town.alice, volume.id, name="new")
    set_items(town.alice, volume.id, {"c": "d"})
    set_items(town.alice, volume.id, {"signature": "x"}, bag="image_metadata", replace=True)
    after = town.fresh(volume)
    assert (after.name, after.metadata, after.image_metadata) == ("new", {"a": "b", "c": "d"}, {"signature": "x"})
