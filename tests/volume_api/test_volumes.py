"""Volumes over the Block Storage API: made, listed, changed, snapshotted, attached, handed on, and what is refused."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from django.utils import timezone

from provisioning.common.values.numbers import MAX_INTEGER
from provisioning.hosts.models import HostCommand
from provisioning.images.models import Image
from provisioning.quotas.recounts import drift
from provisioning.quotas.selectors import usage_of
from provisioning.quotas.services.limits import set_limit
from provisioning.volumes.models import Attachment, Snapshot
from tests.support.cast import Api
from tests.support.jobs import drain
from tests.support.tables import each_row
from tests.volume_api.conftest import V3, World, at

pytestmark = pytest.mark.django_db
NEWEST = at("3.70")


def _ids(answer: Any, name: str = "volumes") -> list[str]:
    assert answer.status_code == 200, answer.content
    return [each["id"] for each in answer.json()[name]]


def test_a_volume_lives_through_the_api(world: World) -> None:
    made = world.alice.post(
        f"{V3}/{world.people.alice.project_id.hex}/volumes",
        {"volume": {"size": "2", "name": " data ", "description": "d", "metadata": {"a": "b"}}},
    )
    assert made.status_code == 202
    shape = made.json()["volume"]
    assert (shape["status"], shape["size"], shape["name"], shape["bootable"]) == ("creating", 2, "data", "false")
    ident, project = shape["id"], world.people.alice.project_id.hex
    self_link, bookmark = (link["href"] for link in shape["links"])
    assert self_link.endswith(f"/volume/v3/{project}/volumes/{ident}")
    assert bookmark.endswith(f"/volume/{project}/volumes/{ident}")
    assert made["X-Compute-Request-Id"] == made["X-Openstack-Request-Id"]
    world.agent.work()
    shown = world.show(ident)
    assert shown["status"] == "available"
    assert shown["os-vol-host-attr:host"].startswith("kelvin@")
    assert shown["os-vol-tenant-attr:tenant_id"] == project
    changed = world.alice.put(f"{V3}/volumes/{ident}", {"volume": {"name": "other", "metadata": {"c": "d"}}})
    assert (changed.json()["volume"]["name"], changed.json()["volume"]["metadata"]) == ("other", {"c": "d"})
    assert changed.json()["volume"]["description"] == "d"
    assert world.alice.delete(f"{V3}/volumes/{ident}").status_code == 202
    world.agent.work()
    assert world.alice.get(f"{V3}/volumes/{ident}").json()["itemNotFound"]["code"] == 404
    assert [str(each) for each in drift.find()] == []


def test_fields_come_with_their_versions(world: World) -> None:
    ident = world.make()
    before = set(world.show(ident, "3.0"))
    for version, fields in {
        "3.13": {"group_id"},
        "3.21": {"provider_id"},
        "3.48": {"shared_targets", "service_uuid"},
        "3.61": {"cluster_name"},
        "3.63": {"volume_type_id"},
        "3.65": {"consumes_quota"},
    }.items():
        after = set(world.show(ident, version))
        assert after - before == fields, version
        before = after
    own = world.alice.get(f"{V3}/volumes/{ident}", **NEWEST).json()["volume"]
    assert not {"os-vol-host-attr:host", "migration_status", "provider_id"} & own.keys()
    assert world.alice.get(f"{V3}/volumes/{ident}", **at("3.72")).status_code == 406
    assert world.alice.get(f"{V3}/volumes/summary", **at("3.12")).json() == {
        "volume-summary": {"total_count": 1, "total_size": 1}
    }


@each_row(
    "wrong",
    [
        {},
        {"size": 0},
        {"size": -1},
        {"size": "x"},
        {"size": 1.5},
        {"size": 2**40},
        {"size": 1, "name": "a\x00b"},
        {"size": 1, "name": "x" * 256},
        {"size": 1, "metadata": {"a": 1}},
        {"size": 1, "metadata": {"": "x"}},
        {"size": 1, "availability_zone": "moon"},
        {"size": 1, "unknown": "x"},
        {"size": 1, "snapshot_id": str(uuid.uuid4()), "source_volid": str(uuid.uuid4())},
    ],
)
def test_nonsense_is_refused(world: World, wrong: dict[str, Any]) -> None:
    answer = world.alice.post(f"{V3}/volumes", {"volume": wrong}, **NEWEST)
    assert (answer.status_code, set(answer.json())) == (400, {"badRequest"})
    assert _ids(world.alice.get(f"{V3}/volumes")) == []


def test_a_number_that_no_column_holds_is_shown_in_digits(world: World) -> None:
    answer = world.alice.post(f"{V3}/volumes", {"volume": {"size": 10**20}})
    message = answer.json()["badRequest"]["message"]
    assert answer.status_code == 400
    assert message.count("1" + 20 * "0") == 2, message
    assert str(MAX_INTEGER) in message


def test_unknown_names_are_refused_from_3_53_on(world: World) -> None:
    body = {"volume": {"size": 1, "status": "error"}}
    assert world.alice.post(f"{V3}/volumes", body, **at("3.52")).status_code == 202
    assert world.alice.post(f"{V3}/volumes", body, **at("3.53")).status_code == 400


@pytest.mark.slow
def test_another_project_s_things_are_not_found(world: World) -> None:
    ident = world.make()
    snapshot = world.alice.post(f"{V3}/snapshots", {"snapshot": {"volume_id": ident}}).json()["snapshot"]["id"]
    world.agent.work()
    other = world.charlie
    for method, path, body in (
        ("get", f"volumes/{ident}", None),
        ("put", f"volumes/{ident}", {"volume": {"name": "x"}}),
        ("delete", f"volumes/{ident}", None),
        ("get", f"volumes/{ident}/metadata", None),
        ("get", f"volumes/{ident}/encryption", None),
        ("get", f"snapshots/{snapshot}", None),
        ("delete", f"snapshots/{snapshot}", None),
        ("post", "snapshots", {"snapshot": {"volume_id": ident}}),
        ("post", "volumes", {"volume": {"size": 1, "snapshot_id": snapshot}}),
        ("post", "volumes", {"volume": {"size": 1, "source_volid": ident}}),
        ("post", "os-volume-transfer", {"transfer": {"volume_id": ident}}),
        ("post", "attachments", {"attachment": {"volume_uuid": ident}}),
        ("post", f"volumes/{ident}/action", {"os-extend": {"new_size": 5}}),
        ("post", f"volumes/{ident}/action", {"os-reserve": None}),
    ):
        arguments = (f"{V3}/{path}",) if body is None else (f"{V3}/{path}", body)
        assert getattr(other, method)(*arguments, **NEWEST).status_code == 404, path
    assert _ids(other.get(f"{V3}/volumes?all_tenants=1")) == []
    assert _ids(world.operator.get(f"{V3}/volumes?all_tenants=1")) == [ident]
    wrong_url = other.get(f"{V3}/{world.people.alice.project_id.hex}/volumes")
    assert (wrong_url.status_code, wrong_url.json()["badRequest"]["message"]) == (400, "Malformed request url")


@pytest.mark.slow
def test_lists_are_filtered_sorted_and_cut(world: World) -> None:
    red, green, blue = (
        world.make(name=name, size=size, metadata={"shade": name})
        for name, size in (("red", 3), ("green", 1), ("blue", 2))
    )
    ask = world.alice.get
    assert _ids(ask(f"{V3}/volumes?name=red")) == [red]
    assert _ids(ask(f"{V3}/volumes?name~=re", **at("3.34"))) == [green, red]
    assert _ids(ask(f"{V3}/volumes?metadata=%7B'shade':'blue'%7D")) == [blue]
    assert _ids(ask(f"{V3}/volumes?sort=size:asc")) == [green, blue, red]
    assert _ids(ask(f"{V3}/volumes?sort_key=name&sort_dir=asc")) == [blue, green, red]
    assert _ids(ask(f"{V3}/volumes?created_at=gt:2100-01-01T00:00:00", **at("3.60"))) == []
    first = ask(f"{V3}/volumes/detail?limit=2&sort=name:asc&with_count=True", **at("3.45"))
    assert (_ids(first), first.json()["count"]) == ([blue, green], 3)
    more = first.json()["volumes_links"][0]["href"]
    assert "/volumes/detail?" in more
    assert _ids(ask(more[more.index("/volume/") :], **at("3.45"))) == [red]
    assert _ids(ask(f"{V3}/volumes?sort=name:asc&offset=1&limit=1")) == [green]
    assert ask(f"{V3}/volumes?limit=0&offset=1").json() == {"volumes": []}
    summary = ask(f"{V3}/volumes/summary", **at("3.36")).json()["volume-summary"]
    assert summary == {"total_count": 3, "total_size": 6, "metadata": {"shade": ["blue", "green", "red"]}}
    assert ask(f"{V3}/volumes?nonsense=1", **at("3.30")).status_code == 200
    for wrong in ("nonsense=1", "sort=nonsense", "sort=name:up", "limit=-1", "offset=x", "bootable=maybe"):
        assert ask(f"{V3}/volumes?{wrong}", **at("3.31")).status_code == 400, wrong


@pytest.mark.slow
def test_metadata_and_what_is_reported_of_a_volume(world: World) -> None:
    ident = world.make(metadata={"a": "1"})
    where = f"{V3}/volumes/{ident}/metadata"
    assert world.alice.post(where, {"metadata": {"b": "2"}}).json() == {"metadata": {"a": "1", "b": "2"}}
    assert world.alice.put(f"{where}/b", {"meta": {"b": "3"}}).json() == {"meta": {"b": "3"}}
    assert world.alice.get(f"{where}/b").json() == {"meta": {"b": "3"}}
    assert world.alice.delete(f"{where}/a").status_code == 200
    assert world.alice.delete(f"{where}/a").status_code == 404
    assert world.alice.put(where, {"metadata": {"c": "4"}}, **at("3.15"))["ETag"]
    assert world.act(ident, "os-set_bootable", {"bootable": True}) == 200
    assert world.act(ident, "os-update_readonly_flag", {"readonly": True}) == 202
    assert world.act(ident, "os-set_image_metadata", {"metadata": {"os": "x"}}) == 200
    shown = world.show(ident)
    assert (shown["bootable"], shown["metadata"], shown["volume_image_metadata"]) == (
        "true",
        {"c": "4", "readonly": "True"},
        {"os": "x"},
    )
    assert world.act(ident, "os-update_readonly_flag", {"readonly": False}) == 202
    assert world.show(ident)["metadata"]["readonly"] == "False", "since somebody has said so"
    assert world.act(ident, "os-unset_image_metadata", {"key": "os"}) == 200
    assert world.act(ident, "os-unset_image_metadata", {"key": "os"}) == 404
    assert world.act(ident, "os-reset_status", {"status": "error"}) == 403
    assert world.act(ident, "os-reset_status", {"status": "error"}, api=world.operator) == 202
    assert world.act(ident, "os-reset_status", {"status": "nonsense"}, api=world.operator) == 400
    assert world.act(ident, "os-nonsense") == 404
    assert world.show(ident)["status"] == "error"


def test_metadata_is_written_only_where_it_is_as_the_caller_saw_it(world: World) -> None:
    ident = world.make(metadata={"a": "1"})
    where = f"{V3}/volumes/{ident}/metadata"
    seen = world.alice.get(where, **NEWEST)["ETag"]
    stale = {"If_Match": '"0123456789abcdef0123456789abcdef"'}
    for path, body in ((where, {"metadata": {"b": "2"}}), (f"{where}/a", {"meta": {"a": "2"}})):
        assert world.alice.put(path, body, **NEWEST, **stale).status_code == 412
    assert world.show(ident)["metadata"] == {"a": "1"}
    assert world.alice.put(where, {"metadata": {"b": "2"}}, **NEWEST, If_Match=f'"x", W/{seen}').status_code == 200
    assert world.alice.put(f"{where}/b", {"meta": {"b": "3"}}, **NEWEST, If_Match=seen).status_code == 412
    assert world.alice.put(f"{where}/b", {"meta": {"b": "3"}}, **at("3.14"), **stale).status_code == 200
    assert world.show(ident)["metadata"] == {"b": "3"}


@pytest.mark.slow
def test_a_snapshot_is_available_when_it_exists(world: World) -> None:
    ident = world.make()
    taken = world.alice.post(f"{V3}/snapshots", {"snapshot": {"volume_id": ident}}, **NEWEST).json()["snapshot"]
    assert (taken["consumes_quota"], taken["group_snapshot_id"]) == (True, None)
    where = f"{V3}/snapshots/{taken['id']}"

    def say(status: str, api: Api = world.operator, **more: str) -> int:
        body = {"os-update_snapshot_status": {"status": status, **more}}
        return int(api.post(f"{where}/action", body, **NEWEST).status_code)

    assert say("creating", progress="40%") == 202
    shown = world.alice.get(where, **NEWEST).json()["snapshot"]
    assert (shown["status"], shown["os-extended-snapshot-attributes:progress"]) == ("creating", "40%")
    assert (say("deleting"), say("available", world.charlie)) == (400, 404)
    for api in (world.operator, world.alice):
        assert say("available", api, progress="100%") == 400, "its host has not made it yet"
    assert say("creating", world.alice, progress="41%") == 202
    assert say("error", world.alice) == 202
    Snapshot.objects.update(status="creating")
    HostCommand.objects.filter(finished_at=None).update(finished_at=timezone.now())
    assert say("available", world.alice) == 400, "no host has reported that it exists"
    assert say("available", progress="100%") == 202, "operators know more"
    assert (world.alice.get(where).json()["snapshot"]["status"], say("error")) == ("available", 400)


def test_every_list_says_what_it_is_filtered_by(world: World) -> None:
    filters = world.alice.get(f"{V3}/resource_filters", **NEWEST).json()["resource_filters"]
    assert {each["resource"] for each in filters} >= {"volume", "snapshot", "backup", "group", "attachment", "message"}
    [one] = world.alice.get(f"{V3}/resource_filters?resource=backup", **NEWEST).json()["resource_filters"]
    assert {"name", "status", "volume_id"} <= set(one["filters"])


@pytest.mark.slow
def test_extend_snapshot_and_copy(world: World) -> None:
    ident = world.make(size=1)
    assert world.act(ident, "os-extend", {"new_size": 1}) == 400
    assert world.act(ident, "os-extend", {"new_size": 3}) == 202
    assert world.show(ident)["size"] == 3
    image = str(Image.objects.get().id)
    assert world.act(ident, "os-reimage", {"image_id": image, "reimage_reserved": True}) == 202
    assert world.show(ident)["volume_image_metadata"]["image_id"] == image
    taken = world.alice.post(f"{V3}/snapshots", {"snapshot": {"volume_id": ident, "name": "s", "metadata": {"a": "b"}}})
    assert taken.status_code == 202
    snapshot = taken.json()["snapshot"]["id"]
    world.agent.work()
    shown = world.alice.get(f"{V3}/snapshots/{snapshot}", **NEWEST).json()["snapshot"]
    assert (shown["status"], shown["size"], shown["metadata"]) == ("available", 3, {"a": "b"})
    assert shown["os-extended-snapshot-attributes:progress"] == "100%"
    assert "user_id" not in world.alice.get(f"{V3}/snapshots/{snapshot}", **at("3.40")).json()["snapshot"]
    assert _ids(world.alice.get(f"{V3}/snapshots?volume_id={ident}"), "snapshots") == [snapshot]
    assert _ids(world.alice.get(f"{V3}/snapshots/detail?name=x"), "snapshots") == []
    small = world.alice.post(f"{V3}/volumes", {"volume": {"size": 1, "snapshot_id": snapshot}})
    assert small.status_code == 400
    copy = world.make(size=4, snapshot_id=snapshot)
    assert (world.show(copy)["snapshot_id"], world.show(copy)["size"]) == (snapshot, 4)
    assert world.alice.delete(f"{V3}/volumes/{ident}").status_code == 400
    assert world.act(ident, "revert", {"snapshot_id": snapshot}) == 202
    assert world.show(ident)["status"] == "available"
    renamed = world.alice.put(f"{V3}/snapshots/{snapshot}", {"snapshot": {"name": "t"}})
    assert renamed.json()["snapshot"]["name"] == "t"
    assert world.alice.delete(f"{V3}/volumes/{ident}?cascade=True").status_code == 202
    world.agent.work()
    assert world.alice.get(f"{V3}/snapshots/{snapshot}").status_code == 404


def test_quotas_are_kept_and_shown(world: World) -> None:
    project = world.people.alice.project_id
    set_limit(project, "volumes", 1)
    world.make(size=2)
    full = world.alice.post(f"{V3}/volumes", {"volume": {"size": 1}})
    assert (full.status_code, set(full.json())) == (413, {"overLimit"})
    absolute = world.alice.get(f"{V3}/limits").json()["limits"]["absolute"]
    assert (absolute["maxTotalVolumes"], absolute["totalVolumesUsed"], absolute["totalGigabytesUsed"]) == (1, 1, 2)
    usage = world.alice.get(f"{V3}/os-quota-sets/{project.hex}?usage=True").json()["quota_set"]
    assert usage["gigabytes"] == {"limit": 1000, "in_use": 2, "reserved": 0, "allocated": 0}
    assert world.charlie.get(f"{V3}/os-quota-sets/{project.hex}").status_code == 403
    low = world.operator.put(f"{V3}/os-quota-sets/{project.hex}", {"quota_set": {"gigabytes": 1}})
    assert low.status_code == 400
    assert world.operator.delete(f"{V3}/os-quota-sets/{project.hex}").status_code == 200
    world.make(size=1)


@pytest.mark.slow
def test_who_has_the_key_takes_a_volume_over(world: World) -> None:
    ident = world.make(size=2)
    world.alice.post(f"{V3}/snapshots", {"snapshot": {"volume_id": ident}})
    world.agent.work()
    made = world.alice.post(f"{V3}/volume-transfers", {"transfer": {"volume_id": ident, "name": "t"}}, **NEWEST)
    assert made.status_code == 202
    transfer = made.json()["transfer"]
    assert world.show(ident)["status"] == "awaiting-transfer"
    where = f"{V3}/volume-transfers/{transfer['id']}"
    assert "auth_key" not in world.alice.get(where, **NEWEST).json()["transfer"]
    assert world.charlie.get(where, **NEWEST).status_code == 404
    assert world.charlie.post(f"{where}/accept", {"accept": {"auth_key": "wrong"}}, **NEWEST).status_code == 400
    set_limit(world.people.charlie.project_id, "gigabytes", 3)
    accept = {"accept": {"auth_key": transfer["auth_key"]}}
    assert world.charlie.post(f"{where}/accept", accept, **NEWEST).status_code == 413
    set_limit(world.people.charlie.project_id, "gigabytes", 4)
    assert world.charlie.post(f"{where}/accept", accept, **NEWEST).status_code == 202
    assert world.charlie.post(f"{where}/accept", accept, **NEWEST).status_code == 404
    assert world.alice.get(f"{V3}/volumes/{ident}").status_code == 404
    assert _ids(world.charlie.get(f"{V3}/volumes")) == [ident]
    assert len(world.charlie.get(f"{V3}/snapshots").json()["snapshots"]) == 1
    result = usage_of(world.people.charlie.project_id)
    assert (result["volumes"], result["gigabytes"], result["snapshots"]) == (1, 4, 1)
    assert usage_of(world.people.alice.project_id)["volumes"] == 0
    assert [str(each) for each in drift.find()] == []


def test_an_offer_is_withdrawn(world: World) -> None:
    ident = world.make()
    transfer = world.alice.post(f"{V3}/os-volume-transfer", {"transfer": {"volume_id": ident}}).json()["transfer"]
    assert _ids(world.alice.get(f"{V3}/os-volume-transfer/detail"), "transfers") == [transfer["id"]]
    assert world.alice.delete(f"{V3}/os-volume-transfer/{transfer['id']}").status_code == 202
    assert world.show(ident)["status"] == "available"


@pytest.mark.slow
def test_attachments_of_somebody_outside(world: World) -> None:
    ident, server = world.make(), str(uuid.uuid4())
    body = {"attachment": {"volume_uuid": ident, "instance_uuid": server}}
    assert world.alice.post(f"{V3}/attachments", body, **at("3.26")).status_code == 404
    made = world.alice.post(f"{V3}/attachments", body, **NEWEST).json()["attachment"]
    assert (made["status"], made["instance"]) == ("reserved", server)
    assert world.alice.post(f"{V3}/attachments", body, **NEWEST).status_code == 400
    assert world.show(ident)["status"] == "reserved"
    where = f"{V3}/attachments/{made['id']}"
    elsewhere = world.alice.put(where, {"attachment": {"connector": {"host": "moon"}}}, **NEWEST)
    assert elsewhere.status_code == 400
    let_in = world.alice.put(where, {"attachment": {"connector": {"host": "kelvin"}}}, **NEWEST)
    assert let_in.json()["attachment"]["status"] == "attaching"
    world.agent.work()
    done = world.alice.post(f"{where}/action", {"os-complete": None}, **at("3.44"))
    assert done.status_code == 204
    shown = world.show(ident)
    assert (shown["status"], shown["attachments"][0]["server_id"]) == ("in-use", server)
    assert _ids(world.alice.get(f"{V3}/attachments?volume_id={ident}", **NEWEST), "attachments") == [made["id"]]
    assert world.charlie.get(where, **NEWEST).status_code == 404
    assert world.act(ident, "os-extend", {"new_size": 2}) == 202
    drain()
    assert (world.show(ident)["status"], world.show(ident)["size"]) == ("in-use", 2), "there is no guest"
    for version, force, code in (
        *(("3.64", {}, 400), ("3.64", {"force": True}, 202), ("3.65", {"force": False}, 400), ("3.65", {}, 202)),
        *(("3.66", {"force": False}, 400), ("3.66", {}, 202)),
    ):
        requested = {"snapshot": {"volume_id": ident, **force}}
        assert world.alice.post(f"{V3}/snapshots", requested, **at(version)).status_code == code, (version, force)
        drain()
    world.agent.work()
    assert world.alice.delete(where, **NEWEST).status_code == 200, "there is no such server"
    assert world.show(ident)["status"] == "available"


@pytest.mark.slow
def test_attach_and_detach_in_the_old_form(world: World) -> None:
    ident = world.make()
    assert world.act(ident, "os-reserve") == 202
    assert world.show(ident)["status"] == "attaching"
    assert world.act(ident, "os-unreserve") == 202
    assert world.show(ident)["status"] == "available"
    assert world.act(ident, "os-attach", {"instance_uuid": "kelvin", "mountpoint": "/dev/vdb"}) == 400
    attach = {"instance_uuid": str(uuid.uuid4()), "mountpoint": "/dev/vdb"}
    assert world.act(ident, "os-attach", attach) == 202
    assert world.show(ident)["attachments"][0]["device"] == "/dev/vdb"
    assert world.act(ident, "os-begin_detaching") == 202
    assert world.act(ident, "os-roll_detaching") == 202
    assert world.show(ident)["status"] == "in-use"
    assert world.act(ident, "os-detach", {}) == 202
    assert world.show(ident)["status"] == "available"
    assert world.act(ident, "os-detach", {}) == 202, "of nothing"
    assert [str(each) for each in drift.find()] == []


def test_a_volume_in_error_is_detached_by_force(world: World) -> None:
    ident = world.make()
    assert world.act(ident, "os-attach", {"instance_uuid": str(uuid.uuid4()), "mountpoint": "/dev/vdb"}) == 202
    [attachment] = world.show(ident)["attachments"]
    assert world.act(ident, "os-reset_status", {"status": "error"}, api=world.operator) == 202
    requested = {"attachment_id": attachment["attachment_id"], "connector": None}
    assert world.act(ident, "os-force_detach", requested, api=world.operator) == 202
    shown = world.show(ident)
    assert (shown["status"], shown["attachments"]) == ("available", [])


OLD_FORMS = [
    ("os-initialize_connection", "os-attach"),
    ("os-reserve", "os-initialize_connection", "os-attach"),
    ("os-attach", "os-initialize_connection"),
]


@pytest.mark.slow
@pytest.mark.parametrize("quick", [True, False])
@pytest.mark.parametrize("steps", OLD_FORMS)
def test_a_host_of_the_cloud_has_a_volume_in_the_old_form(world: World, steps: tuple[str, ...], quick: bool) -> None:
    ident, who = world.make(), {"connector": {"host": "kelvin"}}
    requested = {"os-attach": {"host_name": "kelvin", "mountpoint": "/dev/vdb"}, "os-initialize_connection": who}
    for step in steps:
        answer = world.alice.post(f"{V3}/volumes/{ident}/action", {step: requested.get(step)}, **NEWEST)
        assert answer.status_code == (200 if "connection" in step else 202), answer.content
        if not quick:
            world.agent.work()
    world.agent.work()
    shown = world.show(ident)
    assert (shown["status"], shown["attachments"][0]["host_name"]) == ("in-use", "kelvin")
    assert Attachment.objects.get().connection
    assert world.act(ident, "os-initialize_connection", who) == 200, "once more is the same"
    assert world.act(ident, "os-attach", requested["os-attach"]) == 400, "one at a time"
    assert world.act(ident, "os-terminate_connection", who) == 202
    shown = world.show(ident)
    assert (shown["status"], shown["attachments"][0]["host_name"]) == ("in-use", None)
    detach = {"attachment_id": shown["attachments"][0]["attachment_id"]}
    assert world.act(ident, "os-detach", detach) == 202
    assert (world.show(ident)["status"], world.show(ident)["attachments"]) == ("available", [])


@pytest.mark.slow
def test_who_only_connects_in_the_old_form_gives_the_volume_back(world: World) -> None:
    ident, who = world.make(), {"connector": {"host": "kelvin"}}
    assert world.act(ident, "os-initialize_connection", {"connector": {"host": "moon"}}) == 400
    assert world.show(ident)["status"] == "available"
    assert world.act(ident, "os-initialize_connection", who) == 200
    assert world.act(ident, "os-terminate_connection", who) == 202
    assert world.show(ident)["status"] == "available"


def test_a_read_only_volume_is_attached_read_only_in_the_old_form(world: World) -> None:
    ident = world.make()
    assert world.act(ident, "os-update_readonly_flag", {"readonly": True}) == 202
    assert world.act(ident, "os-reserve") == 202
    assert world.act(ident, "os-attach", {"host_name": "kelvin", "mountpoint": "/dev/vdb"}) == 202
    assert Attachment.objects.get().mode == "ro"


@pytest.mark.slow
def test_groups_are_snapshotted_and_copied_together(world: World) -> None:
    kind = world.operator.post(f"{V3}/types", {"volume_type": {"name": "fast"}}).json()["volume_type"]["id"]
    group_type = world.operator.post(f"{V3}/group_types", {"group_type": {"name": "kind"}}, **NEWEST)
    requested = {"group": {"name": "g", "group_type": group_type.json()["group_type"]["id"], "volume_types": [kind]}}
    assert world.alice.post(f"{V3}/groups", requested, **at("3.12")).status_code == 404
    group = world.alice.post(f"{V3}/groups", requested, **NEWEST).json()["group"]["id"]
    Image.objects.update(properties={"cinder_img_volume_type": "fast"})
    of_image = str(Image.objects.get().id)
    one, two = world.make(imageRef=of_image), world.make(volume_type="fast", group_id=group)
    assert world.show(one)["volume_type"] == "fast"
    where = f"{V3}/groups/{group}"
    assert world.alice.put(where, {"group": {"add_volumes": one}}, **NEWEST).status_code == 202
    assert world.charlie.get(where, **NEWEST).status_code == 404
    shown = world.alice.get(f"{where}?list_volume=True", **NEWEST).json()["group"]
    assert (set(shown["volumes"]), shown["status"]) == ({one, two}, "available")
    body = {"group_snapshot": {"group_id": group, "name": "gs"}}
    taken = world.alice.post(f"{V3}/group_snapshots", body, **NEWEST)
    assert taken.status_code == 202, taken.content
    snapshot = taken.json()["group_snapshot"]["id"]
    world.agent.work()
    at_it = f"{V3}/group_snapshots/{snapshot}"
    assert world.alice.get(at_it, **NEWEST).json()["group_snapshot"]["status"] == "available"
    source = {"create-from-src": {"name": "copy", "group_snapshot_id": snapshot}}
    copy = world.alice.post(f"{V3}/groups/action", source, **NEWEST)
    assert copy.status_code == 202, copy.content
    world.agent.work()
    copied = world.alice.get(f"{V3}/groups/{copy.json()['group']['id']}?list_volume=1", **NEWEST).json()["group"]
    assert (len(copied["volumes"]), copied["group_snapshot_id"]) == (2, snapshot)
    assert world.alice.post(f"{where}/action", {"delete": {"delete-volumes": True}}, **NEWEST).status_code == 400
    assert world.alice.delete(at_it, **NEWEST).status_code == 202
    world.agent.work()
    assert world.alice.get(at_it, **NEWEST).status_code == 404
    assert world.alice.post(f"{where}/action", {"delete": {}}, **NEWEST).status_code == 400
    assert world.alice.post(f"{where}/action", {"delete": {"delete-volumes": True}}, **NEWEST).status_code == 202
    world.agent.work()
    assert world.alice.get(f"{V3}/volumes/{one}").status_code == 404
    assert [str(each) for each in drift.find()] == []


@pytest.mark.slow
def test_without_a_pool_the_volume_is_in_error_and_a_message_says_why(world: World) -> None:
    host = world.operator.get(f"{V3}/scheduler-stats/get_pools").json()["pools"][0]["name"]
    off = {"host": host.partition("#")[0], "binary": "cinder-volume", "disabled_reason": "new disks"}
    disabled = world.operator.put(f"{V3}/os-services/disable-log-reason", off)
    assert (disabled.status_code, disabled.json()["disabled_reason"]) == (200, "new disks")
    ident = world.make()
    assert world.show(ident)["status"] == "error"
    [message] = world.alice.get(f"{V3}/messages", **at("3.5")).json()["messages"]
    assert (message["resource_uuid"], message["message_level"]) == (ident, "ERROR")
    assert message["user_message"].startswith("schedule allocate volume")
    assert world.alice.get(f"{V3}/messages", **at("3.2")).status_code == 404
    assert world.charlie.get(f"{V3}/messages/{message['id']}", **NEWEST).status_code == 404
    assert world.alice.delete(f"{V3}/messages/{message['id']}", **NEWEST).status_code == 204
    services = world.operator.get(f"{V3}/os-services?binary=cinder-volume").json()["services"]
    assert [(each["status"], each["disabled_reason"]) for each in services] == [("disabled", "new disks")]
    assert world.operator.put(f"{V3}/os-services/enable", off).status_code == 200
    world.make()
    [total, own] = world.operator.get(f"{V3}/os-hosts/{host.replace('#', '%23')}").json()["host"]
    assert (total["resource"]["volume_count"], own["resource"]["project"]) == (
        "1",
        world.people.alice.project_id.hex,
    )


def test_versions_are_reported_without_a_token(client: Any) -> None:
    assert client.get("/volume/").status_code == 300
    [version] = client.get("/volume/v3/").json()["versions"]
    assert (version["id"], version["min_version"], version["version"]) == ("v3.0", "3.0", "3.71")
    assert Api(None).get(f"{V3}/volumes").status_code == 401
