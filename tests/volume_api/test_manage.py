"""Unmanaged disks and snapshots in pools get records, and records are deleted without the data (``manageable_volumes``,
``manageable_snapshots``, ``os-unmanage``).
"""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from compute_agent.contract.volume import UnmanagedDisk, UnmanagedDisks
from provisioning.hosts import calls
from provisioning.quotas.recounts import drift
from provisioning.quotas.selectors import usage_of
from provisioning.volumes.host_link.host_commands import send
from provisioning.volumes.models import Snapshot, StoragePool, Volume
from provisioning.volumes.services import user_tasks
from tests.support.clouds import GIB
from tests.support.scripted_pool import ScriptedPool
from tests.support.tables import each_row
from tests.volume_api.conftest import V3, World, at

pytestmark = pytest.mark.django_db
NEWEST = at("3.71")  # which the SDK asks for
DISKS = [
    UnmanagedDisk(name="big", size=5 * GIB),
    UnmanagedDisk(name="old disk", size=GIB + 1),
    UnmanagedDisk(name="laid", reason="It has a backing file."),
]


@pytest.fixture
def pool(world: World, monkeypatch: pytest.MonkeyPatch) -> str:
    """The name of a pool that takes over what lies there."""
    world.agent.serve(ScriptedPool(name="files", capabilities={"manage": "true"}))
    monkeypatch.setattr(calls, "call", lambda *_: UnmanagedDisks(disks=list(DISKS)))
    return "kelvin@fake#files"


def managed(world: World, pool: str, **changes: Any) -> Any:
    requested = {"host": pool, "ref": {"source-name": "old disk"}, **changes}
    return world.operator.post(f"{V3}/manageable_volumes", {"volume": requested}, **NEWEST)


def test_what_is_nobody_s_is_listed(world: World, pool: str) -> None:
    host = pool.replace("#", "%23")

    def listed(query: str, path: str = "manageable_volumes") -> Any:
        return world.operator.get(f"{V3}/{path}?host={host}{query}", **NEWEST).json()["manageable-volumes"]

    assert listed("&sort=size:desc&limit=1") == [
        {"reference": {"source-name": "big"}, "size": 5, "safe_to_manage": True}
    ]
    whole = listed("", "os-volume-manage/detail")
    assert [each["reference"]["source-name"] for each in whole] == ["big", "laid", "old disk"]
    assert [each["size"] for each in whole] == [5, 1, 2]
    assert (whole[1]["safe_to_manage"], whole[1]["reason_not_safe"]) == (False, "It has a backing file.")
    assert listed("&offset=2") == [{"reference": {"source-name": "old disk"}, "size": 2, "safe_to_manage": True}]
    for query in ("", "?host=moon", f"?host={host}&sort=name", f"?host={host}&limit=x", f"?host={host}&offset=x"):
        assert world.operator.get(f"{V3}/manageable_volumes{query}", **NEWEST).status_code == 400, query
    assert world.alice.get(f"{V3}/manageable_volumes?host={host}", **NEWEST).status_code == 403
    assert world.operator.get(f"{V3}/manageable_volumes?host={host}", **at("3.7")).status_code == 404


def test_a_disk_becomes_a_volume_and_a_volume_a_disk(world: World, pool: str, monkeypatch: pytest.MonkeyPatch) -> None:
    project = world.people.operator.project_id
    before = usage_of(project)["gigabytes"]
    answer = managed(world, pool, name="found", bootable=True, metadata={"a": "b"})
    assert answer.status_code == 202, answer.content
    ident = answer.json()["volume"]["id"]
    world.agent.work()
    shown = world.show(ident)
    assert (shown["status"], shown["size"], shown["bootable"], shown["metadata"]) == (
        "available",
        2,
        "true",
        {"a": "b"},
    )
    assert shown["os-vol-host-attr:host"] == pool
    assert usage_of(project)["gigabytes"] == before + 2
    assert StoragePool.objects.get(name="files").allocated_gb == 2
    assert world.act(ident, "os-unmanage", {}) in (403, 404)
    sent: list[Any] = []
    monkeypatch.setattr(user_tasks, "send", lambda volume, body: (sent.append(body), send(volume, body)))
    assert world.act(ident, "os-unmanage", {}, api=world.operator) == 202
    assert [body.name for body in sent] == [f"volume-{ident}"], "Cinder's volume_name_template, which clients use"
    assert world.operator.get(f"{V3}/volumes/{ident}", **NEWEST).status_code == 404
    assert usage_of(project)["gigabytes"] == before
    assert StoragePool.objects.get(name="files").allocated_gb == 0
    assert [str(each) for each in drift.find()] == []


@pytest.fixture
def types(world: World) -> None:
    """One of another pool, and one that encrypts."""
    specs = {"volume_backend_name": "other"}
    world.operator.post(f"{V3}/types", {"volume_type": {"name": "elsewhere", "extra_specs": specs}})
    kind = world.operator.post(f"{V3}/types", {"volume_type": {"name": "luks"}}).json()["volume_type"]["id"]
    encrypted = {"encryption": {"provider": "luks", "control_location": "front-end"}}
    world.operator.post(f"{V3}/types/{kind}/encryption", encrypted)


@each_row(
    "changes",
    [
        {"ref": {"source-name": "../volumes"}},
        {"ref": {"source-name": "laid"}},
        {"ref": {"source-id": "old disk"}},
        {"ref": {}},
        {"ref": {"source-name": ["old disk"]}},
        {"ref": "old disk"},
        {"host": "kelvin@fake#local"},
        {"host": "moon@fake#files"},
        {"availability_zone": "mars"},
        {"volume_type": "luks"},
        {"volume_type": "elsewhere"},
        {"name": "a\nb"},
        {"metadata": {"a": 1}},
        {"bogus": 1},
    ],
)
def test_what_cannot_be_taken_over_is_refused(world: World, pool: str, types: None, changes: dict[str, Any]) -> None:
    answer = managed(world, pool, **changes)
    assert answer.status_code == 400, answer.content
    assert Volume.objects.count() == 0
    assert [str(each) for each in drift.find()] == []


@pytest.mark.slow
def test_a_volume_that_something_hangs_on_is_not_given_up(world: World, pool: str) -> None:
    ident = managed(world, pool).json()["volume"]["id"]
    assert world.act(ident, "os-unmanage", api=world.operator) == 400, "it is not there yet"
    held = managed(world, pool).json()["volume"]["id"]
    world.agent.work()
    assert world.act(held, "os-reserve", api=world.operator) == 202
    assert world.act(held, "os-unmanage", api=world.operator) == 400
    assert world.act(held, "os-unreserve", api=world.operator) == 202
    made = world.operator.post(f"{V3}/snapshots", {"snapshot": {"volume_id": held}}, **NEWEST)
    assert made.status_code == 202
    world.agent.work()
    assert world.act(held, "os-unmanage", api=world.operator) == 400
    plain = world.make()
    Volume.objects.filter(id=plain).update(pool=StoragePool.objects.get(name="local"))
    assert world.act(plain, "os-unmanage", api=world.operator) == 400, "its pool keeps nothing beside volumes"
    assert world.show(held)["status"] == "available"


@pytest.mark.slow
def test_a_host_that_fails_leaves_the_volume_and_says_why(world: World, pool: str) -> None:
    ident = managed(world, pool).json()["volume"]["id"]
    world.agent.work()
    world.agent.failing["unmanage_volume_request"] = "no room"
    assert world.act(ident, "os-unmanage", api=world.operator) == 202
    assert world.show(ident)["status"] == "error_deleting"
    [message] = world.operator.get(f"{V3}/messages?resource_uuid={ident}", **NEWEST).json()["messages"]
    assert message["user_message"].endswith("no room")
    world.agent.failing["create_volume_request"] = "gone"
    lost = managed(world, pool).json()["volume"]["id"]
    world.agent.work()
    assert world.show(lost)["status"] == "error"


@pytest.fixture
def contents(world: World, monkeypatch: pytest.MonkeyPatch) -> ScriptedPool:
    """The pool ``files``, whose host lists its volumes."""
    pool = ScriptedPool(name="files", capabilities={"volume_backend_name": "files"})
    world.agent.serve(pool)
    monkeypatch.setattr(calls, "call", lambda *_: pool.contents())
    return pool


def stored(world: World, pool: ScriptedPool, size: int = 1) -> str:
    """Create a volume of alice's in the pool."""
    ident = world.make(size=size)
    world.agent.work()
    if ident not in pool.volumes:
        Volume.objects.filter(id=ident).update(pool=StoragePool.objects.get(name="files"))
        pool.volumes[ident] = size
    return ident


def managed_snapshot(world: World, ident: str, source: str, path: str = "manageable_snapshots", **more: Any) -> Any:
    body = {"volume_id": ident, "ref": {"source-name": source}, **more}
    return world.operator.post(f"{V3}/{path}", {"snapshot": body}, **NEWEST)


def test_a_snapshot_is_unmanaged_listed_and_managed_again(world: World, contents: ScriptedPool) -> None:
    ident, host = stored(world, contents, 2), "kelvin@fake%23files"
    project = Volume.objects.get(id=ident).project_id
    before = usage_of(project)
    taken = world.alice.post(f"{V3}/snapshots", {"snapshot": {"volume_id": ident}}, **NEWEST).json()["snapshot"]["id"]
    world.agent.work()
    action, nothing = f"{V3}/snapshots/{taken}/action", {"os-unmanage": None}
    assert world.alice.post(action, nothing, **NEWEST).status_code == 403
    assert world.operator.post(action, nothing, **NEWEST).status_code == 202
    assert world.operator.get(f"{V3}/snapshots/{taken}", **NEWEST).json()["snapshot"]["status"] == "unmanaging"
    assert world.operator.post(action, nothing, **NEWEST).status_code == 400, "it is being unmanaged"
    world.agent.work()
    assert world.operator.get(f"{V3}/snapshots/{taken}", **NEWEST).status_code == 404
    left = f"snapshot-{taken}"
    assert contents.snapshots == {left: ident}, "Cinder's snapshot_name_template, which clients use"
    assert usage_of(project) == before

    def listed(path: str = "manageable_snapshots", query: str = "") -> Any:
        return world.operator.get(f"{V3}/{path}?host={host}{query}", **NEWEST).json()["manageable-snapshots"]

    contents.snapshots |= {"a": ident, str(uuid.uuid4()): ident, f"backup-{uuid.uuid4()}": ident, "strange": "other"}
    short = {"reference": {"source-name": left}, "size": 2, "safe_to_manage": True}
    short["source_reference"] = {"source-name": f"volume-{ident}"}
    assert [each["reference"]["source-name"] for each in listed()] == ["a", left], "the pool's own are not listed"
    assert listed(query="&sort=reference:desc&limit=1") == [short]
    assert listed("os-snapshot-manage/detail", "&offset=1") == [
        short | {"reason_not_safe": None, "cinder_id": None, "extra_info": None}
    ]
    answer = managed_snapshot(world, ident, left, name="back", metadata={"a": "b"})
    assert answer.status_code == 202, answer.content
    made = answer.json()["snapshot"]
    assert (made["status"], made["size"], made["name"], made["metadata"]) == ("creating", 2, "back", {"a": "b"})
    world.agent.work()
    shown = world.alice.get(f"{V3}/snapshots/{made['id']}", **NEWEST).json()["snapshot"]
    assert (shown["status"], shown["volume_id"]) == ("available", ident)
    assert contents.snapshots[made["id"]] == ident
    assert [str(each) for each in drift.find()] == []


def test_a_snapshot_that_is_not_in_the_pool_is_not_managed(world: World, contents: ScriptedPool) -> None:
    ident, other = stored(world, contents), stored(world, contents)
    contents.snapshots |= {"x": ident}
    for answer, status in (
        (managed_snapshot(world, ident, "y"), 400),
        (managed_snapshot(world, other, "x"), 400),
        (managed_snapshot(world, str(uuid.uuid4()), "x"), 404),
        (managed_snapshot(world, "x", "x"), 400),
        (managed_snapshot(world, ident, "x", ref={"source-id": "x"}), 400),
        (managed_snapshot(world, ident, "x", ref={}), 400),
        (managed_snapshot(world, ident, "x", bogus=1), 400),
        (managed_snapshot(world, ident, "x", metadata={"a": 1}), 400),
        (world.alice.post(f"{V3}/manageable_snapshots", {}, **NEWEST), 403),
        (world.operator.get(f"{V3}/manageable_snapshots", **NEWEST), 400),
        (world.operator.get(f"{V3}/manageable_snapshots?host=moon", **NEWEST), 400),
        (world.operator.get(f"{V3}/manageable_snapshots?host=kelvin@fake", **at("3.7")), 404),
    ):
        assert answer.status_code == status, answer.content
    Volume.objects.filter(id=ident).update(status="error")
    assert managed_snapshot(world, ident, "x").status_code == 400, "its volume has failed"
    assert Snapshot.objects.count() == 0
    assert [str(each) for each in drift.find()] == []


def test_a_host_that_fails_leaves_the_snapshot_with_a_message(world: World, contents: ScriptedPool) -> None:
    ident = stored(world, contents)
    contents.snapshots |= {"x": ident}
    world.agent.failing |= {"manage_snapshot_request": "gone", "unmanage_snapshot_request": "broken"}
    lost = managed_snapshot(world, ident, "x", path="os-snapshot-manage").json()["snapshot"]["id"]
    taken = world.alice.post(f"{V3}/snapshots", {"snapshot": {"volume_id": ident}}, **NEWEST).json()["snapshot"]["id"]
    world.agent.work()
    action = {"os-unmanage": {}}
    assert world.operator.post(f"{V3}/snapshots/{taken}/action", action, **NEWEST).status_code == 202
    world.agent.work()
    for snapshot, status, reason in ((lost, "error", "manage snapshot: gone"), (taken, "error_deleting", "broken")):
        assert Snapshot.objects.get(id=snapshot).status == status
        answer = world.alice.get(f"{V3}/messages?resource_uuid={snapshot}", **NEWEST).json()
        assert [each["user_message"].endswith(reason) for each in answer["messages"]] == [True]
    world.agent.failing.clear()
    assert world.operator.post(f"{V3}/snapshots/{taken}/action", action, **NEWEST).status_code == 202, "a retry"
    world.agent.work()
    assert not Snapshot.objects.filter(id=taken).exists()
