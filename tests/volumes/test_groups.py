"""Groups of volumes: what is made from them, and what operators reset."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from provisioning.common.context import RequestContext
from provisioning.common.errors import InvalidInputError, NotFoundError
from provisioning.events.models import Event
from provisioning.hosts.models import DEFAULT_ZONE
from provisioning.volumes.models import Group, GroupSnapshot, GroupType, Snapshot, Volume, VolumeType
from provisioning.volumes.records.requests import VolumeRequest
from provisioning.volumes.services import Create
from provisioning.volumes.services.catalogue import group_types
from provisioning.volumes.services.groups import (
    create_group,
    create_group_from,
    create_group_snapshot,
    reset_group_snapshot_status,
    reset_group_status,
)
from provisioning.volumes.services.lifecycle.snapshots import CreateSnapshot, reset_snapshot_status
from tests.volumes.conftest import Town


@pytest.fixture
def group(town: Town) -> Group:
    GroupType.objects.create(name="together")
    VolumeType.objects.create(name="plain")
    made = create_group(town.alice, "together", ["plain"], name="g")
    Create.begin(town.alice, VolumeRequest(size_gb=1, volume_type="plain", group_id=str(made.id)))
    town.agent.work()
    return made


def newest_event() -> int:
    return Event.objects.order_by("-id").values_list("id", flat=True).first() or 0


def announced_since(event: int) -> list[dict[str, object]]:
    rows = Event.objects.filter(id__gt=event, kind="volume").order_by("id")
    return [row.payload for row in rows]


@pytest.mark.parametrize("from_snapshot", [False, True])
def test_copies_are_in_their_group_from_their_first_event_on(town: Town, group: Group, from_snapshot: bool) -> None:
    source = {"source_group_id": str(group.id)}
    if from_snapshot:
        source = {"group_snapshot_id": str(create_group_snapshot(town.alice, str(group.id)).id)}
        town.agent.work()
    made = create_group_from(town.alice, **source)
    (copy,) = made.volumes.all()
    assert (copy.group_id, made.availability_zone) == (made.id, DEFAULT_ZONE)
    town.agent.work()
    assert town.fresh(copy).status == "available"


def test_a_copy_whose_type_is_none_of_the_groups_is_refused(town: Town, group: Group) -> None:
    other = VolumeType.objects.create(name="other")
    Volume.objects.update(volume_type=other)
    with pytest.raises(InvalidInputError):
        create_group_from(town.alice, source_group_id=str(group.id))
    assert Group.objects.count() == 1


@pytest.mark.both_databases("locks")
def test_a_reset_of_a_group_is_announced(town: Town, group: Group, operator: RequestContext) -> None:
    before, changed_at = newest_event(), group.updated_at
    operator = operator.in_project(town.alice.project_id)
    reset_group_status(operator, str(group.id), "error")
    group.refresh_from_db()
    assert (group.status, group.updated_at > changed_at) == ("error", True)
    assert [event["id"] for event in announced_since(before)] == [str(group.volumes.get().id)]
    reset_group_status(operator, str(group.id), "available")
    taken = create_group_snapshot(town.alice, str(group.id))
    town.agent.work()
    before = newest_event()
    reset_group_snapshot_status(operator, str(taken.id), "error")
    assert GroupSnapshot.objects.get().status == "error"
    assert [event["record"] for event in announced_since(before)] == ["snapshot"]


def test_a_group_snapshot_ends_with_its_last_snapshot(town: Town, group: Group, operator: RequestContext) -> None:
    Create.begin(town.alice, VolumeRequest(size_gb=1, volume_type="plain", group_id=str(group.id)))
    town.agent.work()
    create_group_snapshot(town.alice, str(group.id))
    first, last = Snapshot.objects.order_by("id")
    reset_snapshot_status(operator, first.id, "available")
    assert GroupSnapshot.objects.get().status == "creating"
    reset_snapshot_status(operator, last.id, "available")
    assert GroupSnapshot.objects.get().status == "available"


def test_a_group_snapshot_with_a_failed_snapshot_has_failed(town: Town, group: Group) -> None:
    create_group_snapshot(town.alice, str(group.id))
    CreateSnapshot().failed(Snapshot.objects.get(), "The pool is full.")
    assert GroupSnapshot.objects.get().status == "error"


def test_each_status_that_an_operator_sets_stays(town: Town, group: Group, operator: RequestContext) -> None:
    taken = create_group_snapshot(town.alice, str(group.id))
    town.agent.work()
    for status in ("creating", "available", "error"):
        reset_group_snapshot_status(operator, str(taken.id), status)
        assert GroupSnapshot.objects.get().status == status


def test_the_default_zone_is_named_in_one_place() -> None:
    elsewhere = (
        "identity/records/catalog.py",
        "notifications/messages.py",
        "hosts/models.py",
    )  # the service, a namespace
    paths = []
    for path in Path("provisioning").rglob("*.py"):
        if "migrations" in path.parts or str(path).endswith(elsewhere):
            continue
        text = path.read_text()
        nodes = ast.walk(ast.parse(text)) if DEFAULT_ZONE in text else []
        paths += [str(path) for node in nodes if isinstance(node, ast.Constant) and node.value == DEFAULT_ZONE]
    assert paths == []


@pytest.mark.both_databases("locks")
def test_a_type_of_groups_changes_its_specs_and_goes(db: None) -> None:
    kind = group_types.create_group_type("kind", group_specs={"a": "1"})
    assert group_types.set_group_specs(kind, {"b": "2"}).group_specs == {"a": "1", "b": "2"}
    group_types.delete_group_spec(kind, "a")
    with pytest.raises(NotFoundError):
        group_types.delete_group_spec(kind, "a")
    kind.refresh_from_db()
    assert kind.group_specs == {"b": "2"}
    group_types.delete_group_type(kind)
    assert not type(kind).objects.exists()
