"""The operators' pages of block storage: lists that cost the same however long they are, and what is done there."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.apps import apps
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from provisioning.volumes.models import (
    Attachment,
    Backup,
    DefaultType,
    GroupType,
    QosSpec,
    Snapshot,
    StoragePool,
    TypeEncryption,
    Volume,
    VolumeType,
    VolumeTypeAccess,
)
from provisioning.volumes.services import CreateSnapshot, SnapshotRequest, messages
from provisioning.volumes.services.catalogue.group_types import create_group_type
from provisioning.volumes.services.catalogue.qos import create_qos_spec
from provisioning.volumes.services.catalogue.types import create_type, set_default_type
from provisioning.volumes.states import BackupStatus
from tests.ops.test_admin import act
from tests.support.cast import Person
from tests.volumes.conftest import Town, build

PAGES = "/admin/volumes/"
LISTS = (
    "storagepool", "volumetype", "qosspec", "grouptype", "defaulttype", "volume", "snapshot", "backup", "attachment",
    "message",
)  # fmt: skip


@pytest.fixture
def town(db: None, monkeypatch: pytest.MonkeyPatch, alice: Person) -> Town:
    made = build(monkeypatch)
    made.alice = alice.context
    return made


def one_of_each(town: Town, number: int) -> Volume:
    """Make another of everything that the lists show."""
    if number > 1:
        town.cloud.add_host(f"host-{number}").serve()
    kind = create_type(f"type-{number}")
    create_qos_spec(f"qos-{number}", "both", {"total_iops_sec": "100"})
    create_group_type(f"group-type-{number}")
    StoragePool.objects.exclude(hosts=town.host).update(frozen=True)  # the next volume lies on the town's own host
    volume = town.make(name=f"volume-{number}", volume_type=kind.name)
    CreateSnapshot.begin(town.alice, volume.id, SnapshotRequest(name=f"snapshot-{number}"))
    town.agent.work()
    town.attach(volume)
    Backup.objects.create(
        project_id=volume.project_id, volume_id=volume.id, size_gb=1, name=f"backup-{number}",
        status=BackupStatus.AVAILABLE, digest="x",
    )  # fmt: skip
    messages.of_volume(volume, messages.EXTEND, f"no room {number}")
    DefaultType.objects.create(project_id=volume.id, volume_type=kind)
    return volume


@pytest.mark.slow
@pytest.mark.deep
def test_a_list_costs_as_much_with_one_row_as_with_many(admin: Client, town: Town) -> None:
    def cost() -> dict[str, int]:
        result = {}
        for name in LISTS:
            with CaptureQueriesContext(connection) as queries:
                assert admin.get(f"{PAGES}{name}/").status_code == 200, name
            result[name] = len(queries)
        return result

    volume = one_of_each(town, 1)
    cost()  # what is asked once for a process
    once = cost()
    for name in LISTS:
        row = apps.get_model("volumes", name)._default_manager.first()
        assert row is not None
        assert admin.get(f"{PAGES}{name}/{row.pk}/change/").status_code == 200, name
    for number in (2, 3):
        one_of_each(town, number)
    assert cost() == once
    for name, words, result in (
        ("volume", str(volume.id), "volume-1"),
        ("volume", town_project(town), "volume-2"),
        ("snapshot", "volume-1", "snapshot-1"),
        ("backup", str(volume.id), "backup-1"),
        ("attachment", "volume-1", "volume-1"),
        ("message", "no room 1", "no room 1"),
        ("storagepool", "kelvin", "local"),
    ):
        page = admin.get(f"{PAGES}{name}/", {"q": words})
        assert result in page.content.decode(), name


def town_project(town: Town) -> str:
    return str(town.alice.project_name)


@pytest.mark.slow
def test_keys_and_connections_are_on_no_page(admin: Client, town: Town) -> None:
    volume = one_of_each(town, 1)
    Volume.objects.update(encryption_key="SECRET-KEY")
    Backup.objects.update(encryption_key="SECRET-KEY")
    Attachment.objects.update(connection={"socket": "SECRET-KEY"}, connector={"ip": "SECRET-KEY"})
    rows: dict[str, Any] = {"volume": volume, "backup": Backup.objects.get(), "attachment": Attachment.objects.get()}
    for name, row in rows.items():
        assert "SECRET-KEY" not in admin.get(f"{PAGES}{name}/{row.pk}/change/").content.decode(), name
    assert admin.get(f"{PAGES}volume/?encryption_key__startswith=S").status_code in {302, 400}


@pytest.mark.slow
def test_pools_of_one_name_are_distinguished_where_one_is_chosen(admin: Client, town: Town) -> None:
    town.make()
    other = town.cloud.add_host("host-2")
    other.serve()
    page = admin.get(f"{PAGES}volume/").content.decode()
    for each in (town.host.name, other.host.name):
        assert page.count(f"{each}@fake#local") >= 1, "among the filters"
    question = act(admin, f"{PAGES}volume/", "migrate", [Volume.objects.get()]).content.decode()
    assert all(f"{each}@fake#local" in question for each in (town.host.name, other.host.name))


@pytest.mark.slow
def test_a_pool_is_changed_disabled_frozen_and_forgotten(admin: Client, town: Town) -> None:
    pool = StoragePool.objects.get()
    place = f"{PAGES}storagepool/"

    def change(**fields: str) -> Any:
        given = {"availability_zone": "moon", "reserved_percentage": "10", "max_over_subscription_ratio": "2"}
        return admin.post(f"{place}{pool.pk}/change/", given | fields)

    assert change(disabled_reason="new disks").status_code == 302
    pool.refresh_from_db()
    assert (pool.availability_zone, pool.reserved_percentage, pool.max_over_subscription_ratio) == ("moon", 10, 2)
    assert (pool.enabled, pool.disabled_reason) == (False, "new disks")
    shown = admin.get(place).content.decode()
    assert "new disks" in shown
    assert "0 of 180 GiB" in shown
    for wrong in (
        {"max_over_subscription_ratio": "0.5"},
        {"max_over_subscription_ratio": "inf"},
        {"reserved_percentage": "101"},
    ):
        assert change(**wrong).status_code == 200
    act(admin, place, "enable", [pool])
    assert "Freeze these pools?" in act(admin, place, "freeze", [pool]).content.decode()
    act(admin, place, "freeze", [pool], confirmed="yes")
    pool.refresh_from_db()
    assert (pool.enabled, pool.frozen) == (True, True)
    act(admin, place, "thaw", [pool])
    assert "A host serves it." in act(admin, place, "forget", [pool], confirmed="yes").content.decode()
    town.host.servings.all().delete()
    act(admin, place, "forget", [pool], confirmed="yes")
    assert not StoragePool.objects.exists()


@pytest.mark.slow
def test_an_operator_asks_where_a_volume_would_lie(admin: Client, town: Town) -> None:
    page = f"{PAGES}storagepool/would-fit/"
    town.cloud.add_host("small").serve()
    StoragePool.objects.filter(hosts__name="small").update(total_gb=1, free_gb=1, name="tiny")
    assert admin.get(page).status_code == 200
    fit = admin.get(page, {"size": "50"}).context["fit"]
    assert (fit.fits, [name for name, _, _ in fit.pools]) == (40, ["local"])
    assert fit.decision.losses == {"CapacityFilter": ("tiny",)}
    create_type("quick", extra_specs={"driver": "rbd"})
    answer = admin.get(page, {"size": "1", "volume_type": "quick"})
    assert answer.context["fit"].fits == 0
    assert "no pool offers driver=rbd" in answer.content.decode()
    wrong = admin.get(page, {"size": "1", "hints": json.dumps({"same_host": "nothing"})})
    assert wrong.context["fit"] is None
    assert not Volume.objects.exists()


@pytest.mark.slow
def test_a_type_is_made_changed_and_removed_with_all_its_parts(admin: Client, town: Town, alice: Person) -> None:
    spec = create_qos_spec("slow", "front-end", {"total_iops_sec": "100"})
    place = f"{PAGES}volumetype/"

    def send(tail: str, **fields: Any) -> Any:
        given = {"name": "gold", "description": "", "extra_specs": "{}", "provider": "", "cipher": "", "key_size": ""}
        return admin.post(place + tail, given | fields)

    specs = '{"driver": "fake"}'
    made = {"extra_specs": specs, "provider": "luks", "key_size": "256", "qos_spec": str(spec.pk)}
    assert send("add/", **made, projects=[str(alice.project_id)]).status_code == 302
    kind = VolumeType.objects.get(name="gold")
    assert (kind.is_public, kind.extra_specs, kind.qos_spec_id) == (False, {"driver": "fake"}, spec.pk)
    assert TypeEncryption.objects.get().key_size == 256
    assert VolumeTypeAccess.objects.get().project_id == alice.project_id
    assert "does not change" not in admin.get(f"{place}{kind.pk}/change/").content.decode()
    send(f"{kind.pk}/change/", extra_specs='{"a": "b"}', is_public="on", qos_spec="")
    kind.refresh_from_db()
    assert (kind.is_public, kind.extra_specs, kind.qos_spec_id) == (True, {"a": "b"}, None)
    assert not TypeEncryption.objects.exists()
    send(f"{kind.pk}/change/", is_public="on")
    town.make(volume_type="gold")
    refused = send(f"{kind.pk}/change/", is_public="on", extra_specs=specs)
    assert "currently in use" in refused.content.decode()
    Volume.objects.all().delete()
    admin.post(f"{place}{kind.pk}/delete/", {"post": "yes"})
    assert not VolumeType.objects.filter(name="gold").exists()


@pytest.mark.slow
def test_other_offers_are_made_and_changed(admin: Client, town: Town, alice: Person) -> None:
    admin.post(
        f"{PAGES}qosspec/add/", {"name": "q", "consumer": "back-end", "specs": '{"a": "1", "read_iops_sec": "2"}'}
    )
    spec = QosSpec.objects.get()
    place, requested = f"{PAGES}qosspec/{spec.pk}/change/", {"read_iops_sec": "3"}
    refused = admin.post(place, {"consumer": "front-end", "specs": json.dumps({"read_iops_sec": "few"})})
    assert "read_iops_sec" in refused.content.decode()
    admin.post(place, {"consumer": "front-end", "specs": json.dumps(requested)})
    spec.refresh_from_db()
    assert (spec.consumer, spec.specs) == ("front-end", requested)
    admin.post(f"{PAGES}grouptype/add/", {"name": "g", "is_public": "on", "group_specs": '{"a": "1"}'})
    group = GroupType.objects.get(name="g")
    admin.post(f"{PAGES}grouptype/{group.pk}/change/", {"name": "h", "group_specs": "{}"})
    group.refresh_from_db()
    assert (group.name, group.group_specs, group.is_public) == ("h", {}, False)
    kind = create_type("theirs")
    admin.post(f"{PAGES}defaulttype/add/", {"project_id": str(alice.project_id), "volume_type": str(kind.pk)})
    assert DefaultType.objects.get().volume_type_id == kind.pk
    other = create_type("other")
    admin.post(f"{PAGES}defaulttype/{alice.project_id}/change/", {"volume_type": str(other.pk)})
    assert DefaultType.objects.get().volume_type_id == other.pk
    admin.post(f"{PAGES}defaulttype/{alice.project_id}/delete/", {"post": "yes"})
    assert not DefaultType.objects.exists()


@pytest.mark.slow
def test_a_stuck_volume_is_reset_detached_and_deleted(admin: Client, town: Town) -> None:
    volume = town.make()
    town.attach(volume)
    place = f"{PAGES}volume/"
    Volume.objects.update(status="extending")
    assert "Which status" in act(admin, place, "reset", [volume]).content.decode()
    act(admin, place, "reset", [volume], confirmed="yes", choice="nonsense")
    assert Volume.objects.get().status == "extending"
    act(admin, place, "reset", [volume], confirmed="yes", choice="in-use")
    assert Volume.objects.get().status == "in-use"
    act(admin, place, "detach", [volume], confirmed="yes")
    assert not Attachment.objects.exists()
    assert Volume.objects.get().status == "available"
    town.attach(volume)
    act(admin, f"{PAGES}attachment/", "release", [Attachment.objects.get()], confirmed="yes")
    assert not Attachment.objects.exists()
    CreateSnapshot.begin(town.alice, volume.id, SnapshotRequest())
    town.agent.work()
    act(admin, f"{PAGES}snapshot/", "reset", [Snapshot.objects.get()], confirmed="yes", choice="error")
    assert Snapshot.objects.get().status == "error"
    act(admin, place, "force_delete", [volume], confirmed="yes")
    town.agent.work()
    assert not Volume.objects.exists()


@pytest.mark.slow
def test_a_volume_moves_and_changes_its_type(admin: Client, town: Town) -> None:
    volume, second = town.make(), town.make()
    town.cloud.add_host("other").serve()
    there = StoragePool.objects.get(hosts__name="other")
    place = f"{PAGES}volume/"
    act(admin, place, "migrate", [volume], confirmed="yes", choice=str(there.pk))
    assert Volume.objects.get(pk=volume.pk).migration_status == "migrating"
    kind = create_type("other")
    set_default_type(second.project_id, kind)
    act(admin, place, "change_type", [second], confirmed="yes", choice=str(kind.pk))
    assert Volume.objects.get(pk=second.pk).volume_type_id == kind.pk
