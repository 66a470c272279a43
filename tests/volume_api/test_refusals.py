"""What the Block Storage API refuses, in which words, and what it counts when pages are short."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.utils import timezone

from provisioning.hosts.models import Host
from provisioning.volumes.models import Attachment, PoolHost, Snapshot, StoragePool, Volume
from tests.volume_api.conftest import V3, World, at

pytestmark = pytest.mark.django_db
NEWEST = at("3.70")


def _message(answer: Any, code: int = 400) -> str:
    assert answer.status_code == code, answer.content
    [fault] = answer.json().values()
    return str(fault["message"])


def test_the_largest_size_is_reported_for_one_that_is_too_large(world: World) -> None:
    requested = {"volume": {"size": 2097152}}
    assert "2097151" in _message(world.alice.post(f"{V3}/volumes", requested, **NEWEST))


def test_texts_that_are_neither_yes_nor_no_are_refused(world: World) -> None:
    ident = world.make()
    for method, path in (
        ("delete", f"volumes/{ident}?cascade=maybe"),
        ("delete", f"volumes/{ident}?force=maybe"),
        ("get", f"os-quota-sets/{world.people.operator.project_id}?usage=maybe"),
        ("get", "scheduler-stats/get_pools?detail=maybe"),
    ):
        name = path.partition("?")[2].partition("=")[0]
        assert name in _message(getattr(world.operator, method)(f"{V3}/{path}", **NEWEST))
    assert "consumes_quota" in _message(world.alice.get(f"{V3}/volumes?consumes_quota=maybe", **NEWEST))
    ours, none = (world.alice.get(f"{V3}/volumes?consumes_quota={word}", **NEWEST) for word in ("true", "false"))
    assert (len(ours.json()["volumes"]), none.json()["volumes"]) == (1, [])


def test_bootable_is_read_as_it_was_before_3_2(world: World) -> None:
    Volume.objects.filter(id=world.make()).update(bootable=True)
    assert len(world.alice.get(f"{V3}/volumes?bootable=maybe", **at("3.1")).json()["volumes"]) == 1
    assert world.alice.get(f"{V3}/volumes?bootable=maybe", **at("3.2")).status_code == 400


def test_a_summary_counts_what_is_on_no_page(world: World) -> None:
    for size in (1, 2):
        world.make(size=size, metadata={"size": str(size)})
    for query in ("?limit=1", "?offset=1", ""):
        summary = world.alice.get(f"{V3}/volumes/summary{query}", **NEWEST).json()["volume-summary"]
        assert (summary["total_count"], summary["total_size"], summary["metadata"]) == (
            2,
            3,
            {"size": ["1", "2"]},
        )
    one = world.alice.get(f"{V3}/volumes/summary?size=2", **NEWEST).json()["volume-summary"]
    assert (one["total_count"], one["total_size"]) == (1, 2)


@pytest.mark.slow
def test_volumes_of_a_type_are_made_in_the_zones_of_the_type(world: World) -> None:
    def typed(zones: str) -> None:
        specs = {"RESKEY:availability_zones": zones}
        world.operator.post(f"{V3}/types", {"volume_type": {"name": zones, "extra_specs": specs}})

    zone = StoragePool.objects.values_list("availability_zone", flat=True).get()
    typed("mars")
    typed(f"mars, {zone}")
    assert world.show(world.make(volume_type=f"mars, {zone}"))["availability_zone"] == zone
    nowhere = world.make(volume_type="mars")
    assert world.show(nowhere)["status"] == "error"
    [message] = world.alice.get(f"{V3}/messages?resource_uuid={nowhere}", **NEWEST).json()["messages"]
    assert "a zone of the type (mars)" in message["user_message"]
    requested = {"volume": {"size": 1, "volume_type": "mars", "availability_zone": zone}}
    assert "mars" in _message(world.alice.post(f"{V3}/volumes", requested, **NEWEST))
    plain = world.make()
    assert world.act(plain, "os-retype", {"new_type": "mars"}) == 400, "its pool is in another zone"


@pytest.mark.slow
def test_a_volume_of_a_group_keeps_to_the_types_of_the_group(world: World) -> None:
    kinds = {
        name: world.operator.post(f"{V3}/types", {"volume_type": {"name": name}}).json()["volume_type"]["id"]
        for name in ("fast", "slow")
    }
    group_type = world.operator.post(f"{V3}/group_types", {"group_type": {"name": "kind"}}, **NEWEST).json()
    requested = {"group_type": group_type["group_type"]["id"], "volume_types": [kinds["fast"]]}
    nowhere = {"group": requested | {"availability_zone": "mars"}}
    assert "mars" in _message(world.alice.post(f"{V3}/groups", nowhere, **NEWEST))
    group = world.alice.post(f"{V3}/groups", {"group": requested}, **NEWEST).json()["group"]["id"]
    for volume_type in ("slow", None):
        body = {"volume": {"size": 1, "group_id": group, "volume_type": volume_type}}
        assert "type" in _message(world.alice.post(f"{V3}/volumes", body, **NEWEST))
    member = world.make(volume_type="fast", group_id=group)
    assert world.act(member, "os-retype", {"new_type": "slow"}) == 400
    where = {"host": f"{Host.objects.get().name}@fake#other"}
    other = StoragePool.objects.create(name="other", driver="fake", total_gb=9, free_gb=9)
    PoolHost.objects.create(pool=other, host=Host.objects.get(), last_seen_at=timezone.now())
    assert world.act(member, "os-migrate_volume", where, api=world.operator) == 400
    assert world.show(member)["volume_type"] == "fast"


def test_snapshots_cannot_stay_behind_a_transfer(world: World) -> None:
    ident = world.make()
    assert world.alice.post(f"{V3}/snapshots", {"snapshot": {"volume_id": ident}}, **NEWEST).status_code == 202
    world.agent.work()
    requested = {"transfer": {"volume_id": ident, "no_snapshots": True}}
    assert "snapshots" in _message(world.alice.post(f"{V3}/volume-transfers", requested, **NEWEST))
    assert world.show(ident)["status"] == "available"


def test_a_backup_is_in_a_zone_that_there_is(world: World) -> None:
    requested = {"backup": {"volume_id": world.make(), "availability_zone": "mars"}}
    assert "mars" in _message(world.alice.post(f"{V3}/backups", requested, **NEWEST))


def test_a_quota_below_what_is_used_is_set_when_asked_to_by_force(world: World) -> None:
    world.make()
    place = f"{V3}/os-quota-sets/{world.people.alice.project_id}"
    assert "force" in _message(world.operator.put(place, {"quota_set": {"volumes": 0}}))
    answer = world.operator.put(place, {"quota_set": {"volumes": 0, "force": True}})
    assert answer.json()["quota_set"]["volumes"] == 0
    assert world.alice.post(f"{V3}/volumes", {"volume": {"size": 1}}, **NEWEST).status_code == 413


def test_pools_are_reported_among_what_is_filtered(world: World) -> None:
    [pool] = world.alice.get(f"{V3}/resource_filters?resource=pool", **NEWEST).json()["resource_filters"]
    assert pool["filters"] == ["name", "volume_type"]


def _group_of(world: World) -> tuple[str, str]:
    """Make a group with one volume; return the ids of both."""
    kind = world.operator.post(f"{V3}/types", {"volume_type": {"name": "fast"}}).json()["volume_type"]["id"]
    group_type = world.operator.post(f"{V3}/group_types", {"group_type": {"name": "kind"}}, **NEWEST).json()
    requested = {"group": {"group_type": group_type["group_type"]["id"], "volume_types": [kind]}}
    group = world.alice.post(f"{V3}/groups", requested, **NEWEST).json()["group"]["id"]
    return group, world.make(volume_type="fast", group_id=group)


@pytest.mark.slow
def test_a_volume_of_a_group_is_not_deleted_alone(world: World) -> None:
    group, member = _group_of(world)
    taken = world.alice.post(f"{V3}/group_snapshots", {"group_snapshot": {"group_id": group}}, **NEWEST)
    world.agent.work()
    where = f"{V3}/volumes/{member}?cascade=True"
    assert f"belongs to group {group}" in _message(world.alice.delete(where, **NEWEST))
    assert world.alice.put(f"{V3}/groups/{group}", {"group": {"remove_volumes": member}}, **NEWEST).status_code == 202
    assert "group snapshot" in _message(world.alice.delete(where, **NEWEST))
    snapshot = taken.json()["group_snapshot"]["id"]
    assert world.alice.delete(f"{V3}/group_snapshots/{snapshot}", **NEWEST).status_code == 202
    world.agent.work()
    assert world.alice.delete(where, **NEWEST).status_code == 202


def test_a_snapshot_that_is_busy_keeps_its_volume(world: World) -> None:
    ident = world.make()
    world.alice.post(f"{V3}/snapshots", {"snapshot": {"volume_id": ident}}, **NEWEST)
    world.agent.work()
    where = f"{V3}/volumes/{ident}?cascade=True"
    Snapshot.objects.update(status="backing-up")
    assert "is backing-up" in _message(world.alice.delete(where, **NEWEST))
    Snapshot.objects.update(status="error")
    assert world.alice.delete(where, **NEWEST).status_code == 202


@pytest.mark.slow
def test_by_force_a_volume_gives_back_what_is_its_own(world: World) -> None:
    attach = {"instance_uuid": str(uuid.uuid4()), "mountpoint": "/dev/vdb"}
    one, other = world.make(), world.make()
    for ident in (one, other):
        assert world.act(ident, "os-attach", attach) == 202
    theirs = str(Attachment.objects.get(volume_id=other).id)
    assert world.act(one, "os-force_detach", {"attachment_id": theirs}, api=world.operator) == 404
    assert (world.show(one)["status"], world.show(other)["status"]) == ("in-use", "in-use")
    assert world.act(other, "os-force_detach", {"attachment_id": theirs}, api=world.operator) == 202
    assert world.show(other)["status"] == "available"
