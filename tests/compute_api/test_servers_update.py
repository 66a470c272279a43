"""Changing servers: names, addresses, metadata, tags."""

from __future__ import annotations

from typing import Any

import pytest

from provisioning.compute import selectors
from provisioning.compute.models import Instance, InstanceTag
from provisioning.compute.services.tags import add_tag
from provisioning.events.models import Event
from provisioning.quotas.services.limits import set_limit
from tests.compute_api.conftest import V21, put_server
from tests.support.cast import Api, People
from tests.support.standing import standing
from tests.support.tables import each_row

pytestmark = pytest.mark.django_db


@pytest.fixture
@standing
def server(people: People) -> Instance:
    return put_server(people.alice, metadata={"a": "1"})


def put(api: Api, server: Instance, version: str = "2.96", **fields: Any) -> Any:
    return api.put(f"{V21}/servers/{server.id}", {"server": fields}, OpenStack_API_Version=f"compute {version}")


def test_everything_that_may_change(api: Api, server: Instance) -> None:
    fields = {
        "name": "db",
        "description": "the database",
        "accessIPv4": "192.0.2.1",
        "accessIPv6": "2001:db8::1",
        "OS-DCF:diskConfig": "AUTO",
    }
    answer = put(api, server, **fields, hostname="db.example.org")
    assert answer.status_code == 200
    shown = answer.json()["server"]
    assert {name: shown[name] for name in fields} == fields
    assert shown["OS-EXT-SRV-ATTR:hostname"] == "db.example.org"
    assert put(api, server, description=None).json()["server"]["description"] is None
    assert put(api, server).json()["server"]["name"] == "db", "nothing to change is no fault"


@pytest.mark.parametrize(
    ("field", "since", "value"), [("description", 19, "x"), ("hostname", 90, "x"), ("hostname", 94, "x.example.org")]
)
def test_fields_change_from_their_microversion(api: Api, server: Instance, field: str, since: int, value: str) -> None:
    assert put(api, server, f"2.{since - 1}", **{field: value}).status_code == 400
    assert put(api, server, f"2.{since}", **{field: value}).status_code == 200


@each_row(
    "fields",
    [
        {"name": ""},
        {"name": " x"},
        {"name": "x\n"},
        {"name": 5},
        {"name": "x" * 256},
        {"description": "x" * 256},
        {"accessIPv4": "2001:db8::1"},
        {"accessIPv6": "192.0.2.1"},
        {"accessIPv6": "fe80::1%eth0"},
        {"OS-DCF:diskConfig": "NO"},
        {"status": "ACTIVE"},
    ],
)
def test_wrong_changes_are_400(api: Api, server: Instance, fields: dict[str, Any]) -> None:
    answer = put(api, server, **fields)
    assert answer.status_code == 400
    assert next(iter(fields)) in answer.json()["badRequest"]["message"]
    assert Instance.objects.get(id=server.id).version == server.version


def test_a_locked_server_may_still_be_renamed(api: Api, people: People) -> None:
    assert put(api, put_server(people.alice, locked=True), name="new").status_code == 200


def test_each_change_is_announced(api: Api, server: Instance, people: People) -> None:
    topic = f"project:{people.alice.project_id}"
    put(api, server, name="db")
    api.put(f"{V21}/servers/{server.id}/tags/red", OpenStack_API_Version="compute 2.26")
    api.put(f"{V21}/servers/{server.id}/tags/red", OpenStack_API_Version="compute 2.26")
    versions = [event.payload["version"] for event in Event.objects.filter(topic=topic).order_by("id")]
    assert versions == [2, 3], "the tag it had is no change"


# ----- metadata -------------------------------------------------------------------------------------------------------


def test_metadata_items(api: Api, server: Instance) -> None:
    path = f"{V21}/servers/{server.id}/metadata"
    assert api.get(path).json() == {"metadata": {"a": "1"}}
    assert api.post(path, {"metadata": {"b": "2"}}).json() == {"metadata": {"a": "1", "b": "2"}}
    assert api.get(f"{path}/b").json() == {"meta": {"b": "2"}}
    assert api.put(f"{path}/b", {"meta": {"b": "3"}}).json() == {"meta": {"b": "3"}}
    assert api.delete(f"{path}/a").status_code == 204
    assert api.get(path).json() == {"metadata": {"b": "3"}}
    assert api.put(path, {"metadata": {"c": "4"}}).json() == {"metadata": {"c": "4"}}
    for method in ("get", "delete"):
        answer = getattr(api, method)(f"{path}/a")
        assert answer.status_code == 404
        assert answer.json()["itemNotFound"]["message"] == "Metadata item was not found"


@each_row(
    "body",
    [
        {"meta": {"other": "1"}},
        {"meta": {"a": "1", "b": "2"}},
        {"meta": {}},
        {"meta": {"a": 1}},
        {"meta": {"a": "x" * 256}},
        {"metadata": {"a": "1"}},
        {},
    ],
)
def test_a_wrong_item_is_400(api: Api, server: Instance, body: Any) -> None:
    assert api.put(f"{V21}/servers/{server.id}/metadata/a", body).status_code == 400


def test_too_much_metadata_is_403(api: Api, server: Instance, people: People) -> None:
    set_limit(people.alice.project_id, "metadata_items", 2)
    path = f"{V21}/servers/{server.id}/metadata"
    assert api.post(path, {"metadata": {"b": "2"}}).status_code == 200
    assert api.post(path, {"metadata": {"c": "3"}}).status_code == 403
    assert api.put(f"{path}/c", {"meta": {"c": "3"}}).status_code == 403
    assert api.get(path).json() == {"metadata": {"a": "1", "b": "2"}}


@each_row(
    ("vm_state", "task_state", "locked", "status"),
    [
        ("active", None, False, 200),
        ("stopped", None, False, 200),
        ("paused", None, False, 200),
        ("suspended", None, False, 200),
        ("building", "spawning", False, 409),
        ("active", "rebooting", False, 409),
        ("error", None, False, 409),
        ("active", None, True, 409),
    ],
)
def test_metadata_changes_at_rest(
    api: Api, people: People, vm_state: str, task_state: str | None, locked: bool, status: int
) -> None:
    server = put_server(people.alice, vm_state=vm_state, task_state=task_state, locked=locked, metadata={"a": "1"})
    path = f"{V21}/servers/{server.id}/metadata"
    assert api.post(path, {"metadata": {"b": "2"}}).status_code == status
    assert api.put(path, {"metadata": {"a": "2"}}).status_code == status
    assert api.put(f"{path}/a", {"meta": {"a": "2"}}).status_code == status
    answer = api.delete(f"{path}/a")
    assert answer.status_code == {200: 204, 409: 409}[status]
    if status == 409 and not locked:
        state = f"task_state {task_state}" if task_state else f"vm_state {vm_state}"
        message = f"Cannot 'delete metadata' instance {server.id} while it is in {state}"
        assert answer.json()["conflictingRequest"]["message"] == message
    if locked:
        assert Api(people.operator).delete(f"{path}/a").status_code == 204


# ----- tags -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def tag_api(people: People) -> Api:
    return Api(people.alice, **{"OpenStack-API-Version": "compute 2.26"})


def rows(server: Instance) -> list[str]:
    return sorted(InstanceTag.objects.filter(instance=server).values_list("tag", flat=True))


@pytest.mark.both_databases("constraints")
def test_tags_and_their_rows_change_together(tag_api: Api, server: Instance) -> None:
    path = f"{V21}/servers/{server.id}/tags"
    added = tag_api.put(f"{path}/red")
    assert added.status_code == 201
    assert added["Location"].endswith(f"/servers/{server.id}/tags/red")
    assert tag_api.put(f"{path}/red").status_code == 204
    assert tag_api.get(f"{path}/red").status_code == 204
    assert tag_api.get(f"{path}/blue").status_code == 404
    assert tag_api.put(path, {"tags": ["blue", "green", "blue"]}).json() == {"tags": ["blue", "green"]}
    assert rows(server) == ["blue", "green"]
    assert tag_api.delete(f"{path}/blue").status_code == 204
    assert tag_api.delete(f"{path}/blue").status_code == 404
    assert tag_api.get(path).json() == {"tags": ["green"]}
    assert rows(server) == ["green"]
    assert tag_api.delete(path).status_code == 204
    assert rows(server) == tag_api.get(path).json()["tags"] == []


def test_there_are_no_tags_before_2_26(api: Api, server: Instance) -> None:
    path = f"{V21}/servers/{server.id}/tags"
    for method, where in (("get", path), ("put", path), ("delete", path), ("get", f"{path}/a"), ("put", f"{path}/a")):
        assert getattr(api, method)(where, OpenStack_API_Version="compute 2.25").status_code == 404


def test_wrong_tags_are_400(tag_api: Api, server: Instance) -> None:
    path = f"{V21}/servers/{server.id}/tags"
    for tags in (["a/b"], ["a,b"], [""], [5], ["x" * 61], [str(number) for number in range(51)], "a", {"a": 1}):
        assert tag_api.put(path, {"tags": tags}).status_code == 400
    for tag in ("a,b", "x" * 61, "a%0Ab"):
        assert tag_api.put(f"{path}/{tag}").status_code == 400
    assert tag_api.put(path, {"tags": [str(number) for number in range(50)]}).status_code == 200
    full = tag_api.put(f"{path}/more")
    assert full.status_code == 400
    assert full.json()["badRequest"]["message"] == "The number of tags exceeded the per-server limit 50"
    assert len(rows(server)) == 50


@each_row(
    ("vm_state", "task_state", "allowed"),
    [("active", "rebooting", True), ("stopped", None, True), ("building", None, False), ("error", None, False)],
)
def test_tags_change_in_quiet_states(
    tag_api: Api, people: People, vm_state: str, task_state: str | None, allowed: bool
) -> None:
    server = put_server(people.alice, vm_state=vm_state, task_state=task_state, tags=["a"], locked=True)
    path = f"{V21}/servers/{server.id}/tags"
    for method, where, body, words in (
        ("put", path, {"tags": ["a", "b"]}, "update tags"),
        ("put", f"{path}/c", None, "update tag"),
        ("delete", f"{path}/a", None, "delete tag"),
        ("delete", path, None, "delete tags"),
    ):
        answer = getattr(tag_api, method)(where, *([body] if body else []))
        if allowed:
            assert answer.status_code in {200, 201, 204}, "a lock does not matter"
        else:
            assert answer.status_code == 409
            message = answer.json()["conflictingRequest"]["message"]
            assert message == f"Cannot '{words}' instance {server.id} while it is in vm_state {vm_state}"
    assert rows(server) == ([] if allowed else ["a"])


def test_a_tag_it_has_undoes_nobodys_change(people: People, server: Instance, monkeypatch: pytest.MonkeyPatch) -> None:
    add_tag(people.alice.context, server.id, "a")
    read = selectors.instance_for

    def overtaken(*asked: Any) -> Instance:
        """Somebody else adds a tag once the server has been read."""
        result = read(*asked)
        monkeypatch.setattr(selectors, "instance_for", read)
        add_tag(people.alice.context, server.id, "b")
        return result

    monkeypatch.setattr(selectors, "instance_for", overtaken)
    assert add_tag(people.alice.context, server.id, "a") is False
    assert rows(server) == Instance.objects.get(id=server.id).tags == ["a", "b"]
