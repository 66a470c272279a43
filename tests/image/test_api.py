"""The Image API, by Glance's reference."""

from __future__ import annotations

import hashlib
import io
import json
import uuid
from pathlib import Path
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from portal.api.common.requests import validate
from provisioning.images import services
from provisioning.images.models import Image
from provisioning.images.records.properties import NULLABLE, text_of
from tests.image import pictures
from tests.image.conftest import MakeImage, files
from tests.support.cast import Api, People, Person
from tests.support.tables import each_row

V2 = "/image/v2"
PATCH_TYPE = "application/openstack-images-v2.1-json-patch"
OCTETS = "application/octet-stream"
FIELDS = {
    "id",
    "name",
    "status",
    "visibility",
    "owner",
    "disk_format",
    "container_format",
    "size",
    "virtual_size",
    "checksum",
    "os_hash_algo",
    "os_hash_value",
    "os_hidden",
    "protected",
    "min_disk",
    "min_ram",
    "tags",
    "created_at",
    "updated_at",
    "self",
    "file",
    "schema",
}


def create(person: Person, **body: Any) -> Any:
    body = {"name": "picture", "disk_format": "raw", "container_format": "bare", **body}
    return Api(person).post(f"{V2}/images", body)


def created(person: Person, **body: Any) -> str:
    answer = create(person, **body)
    assert answer.status_code == 201, answer.content
    return str(answer.json()["id"])


def put_file(person: Person, image_id: str, data: bytes, content_type: str = OCTETS, **headers: str) -> Any:
    api = Api(person)
    return api.client.put(
        f"{V2}/images/{image_id}/file", data=data, content_type=content_type, headers=api.headers | headers
    )


def patch(person: Person, image_id: str, *operations: dict[str, Any], content_type: str = PATCH_TYPE) -> Any:
    api = Api(person)
    return api.client.patch(
        f"{V2}/images/{image_id}", data=json.dumps(operations), content_type=content_type, headers=api.headers
    )


def replace(path: str, value: Any) -> dict[str, Any]:
    return {"op": "replace", "path": path, "value": value}


def body_of(answer: Any) -> bytes:
    return b"".join(answer.streaming_content)


def test_versions(db: None) -> None:
    for path, status in (("/image", 300), ("/image/", 300), ("/image/v2", 300), ("/image/versions", 200)):
        answer = Api(None).get(path)
        assert answer.status_code == status
        versions = answer.json()["versions"]
        assert [version["id"] for version in versions if version["status"] == "CURRENT"] == ["v2.17"]
        assert versions[0]["links"][0]["href"].endswith("/image/v2/")


def test_create_show_upload_download_delete(alice: Person, store: Path) -> None:
    answer = create(alice, os_distro="novella", min_disk=1, min_ram=64, tags=["b", "a"])
    assert answer.status_code == 201
    shown = answer.json()
    assert set(shown) == FIELDS | {"os_distro"}
    assert answer["Location"].endswith(f"/image/v2/images/{shown['id']}")
    assert (shown["status"], shown["visibility"], shown["owner"]) == ("queued", "shared", alice.project_id.hex)
    assert (shown["size"], shown["checksum"], shown["tags"], shown["protected"]) == (None, None, ["a", "b"], False)
    path = f"{V2}/images/{shown['id']}"
    api = Api(alice)
    assert api.get(path).json() == shown
    assert api.get(f"{path}/file").status_code == 204

    data = pictures.raw()
    assert put_file(alice, shown["id"], data).status_code == 204
    active = api.get(path).json()
    assert (active["status"], active["size"], active["virtual_size"]) == ("active", len(data), len(data))
    assert active["os_hash_value"] == hashlib.sha512(data).hexdigest()

    down = api.get(f"{path}/file")
    assert down.status_code == 200
    assert (down["Content-Type"], down["Content-Length"]) == (OCTETS, str(len(data)))
    assert down["Content-MD5"] == active["checksum"] == hashlib.md5(data, usedforsecurity=False).hexdigest()
    assert body_of(down) == data
    assert api.delete(path).status_code == 204
    assert api.get(path).status_code == api.delete(path).status_code == api.get(f"{path}/file").status_code == 404


@pytest.fixture
def image(make: MakeImage) -> Image:
    return make(data=pictures.raw())


@each_row(
    ("asked", "status", "start", "end"),
    [
        ("bytes=0-9", 206, 0, 10),
        ("bytes=1000000-", 206, 1_000_000, pictures.MIB),
        ("bytes=-5", 206, pictures.MIB - 5, pictures.MIB),
        ("bytes=5-99999999", 206, 5, pictures.MIB),
        ("bytes=99999999-", 416, 0, 0),
        ("bytes=9-5", 416, 0, 0),
        ("lines=1-2", 416, 0, 0),
        ("bytes=-", 416, 0, 0),
        ("bytes=0-1,5-6", 400, 0, 0),
    ],
)
def test_ranges(alice: Person, image: Image, asked: str, status: int, start: int, end: int) -> None:
    answer = Api(alice, Range=asked).get(f"{V2}/images/{image.id}/file")
    assert answer.status_code == status
    if status >= 400:
        assert status == 400 or answer["Content-Range"] == f"bytes */{pictures.MIB}"
        return
    assert body_of(answer) == pictures.raw()[start:end]
    if status == 206:
        assert answer["Content-Range"] == f"bytes {start}-{end - 1}/{pictures.MIB}"


@each_row(
    ("body", "status"),
    [
        ({"disk_format": "floppy"}, 400),
        ({"container_format": "docker"}, 400),
        ({"name": "x" * 256}, 400),
        ({"name": 5}, 400),
        ({"visibility": "secret"}, 400),
        ({"min_disk": -1}, 400),
        ({"min_ram": "64"}, 400),
        ({"min_ram": 1 << 40}, 400),
        ({"protected": "yes"}, 400),
        ({"tags": "one"}, 400),
        ({"tags": [1]}, 400),
        ({"tags": ["x" * 256]}, 400),
        ({"tags": [str(number) for number in range(129)]}, 413),
        ({"os_distro": 5}, 400),
        ({"n" * 256: "x"}, 400),
        ({"": "x"}, 400),
        ({f"p{number}": "x" for number in range(129)}, 413),
        ({"os_glance_job": "x"}, 403),
        ({"deleted": "x"}, 403),
        ({"owner": "nobody"}, 403),
        ({"id": "nonsense"}, 400),
        ({"status": "active"}, 403),
        ({"checksum": "x"}, 403),
        ({"locations": "file:///etc/passwd"}, 403),
        ({"owner": "11111111222233334444555555555555"}, 403),
        ({"visibility": "public"}, 403),
    ],
)
def test_a_wrong_record_is_refused(alice: Person, body: dict[str, Any], status: int) -> None:
    answer = create(alice, **body)
    assert answer.status_code == status, answer.content
    fault = answer.json()
    assert set(fault) == {"code", "title", "message"}
    assert fault["code"] == status
    assert not Image.objects.exists()


def test_malformed_bodies_are_refused(alice: Person) -> None:
    api = Api(alice)
    for body in (b"{", b"[]", b'"text"', b"null"):
        answer = api.client.post(f"{V2}/images", body, content_type="application/json", headers=api.headers)
        assert answer.status_code == 400
    assert api.client.post(f"{V2}/images", b"x=1", content_type="text/plain", headers=api.headers).status_code == 415


def test_the_client_may_choose_the_id_once(alice: Person, charlie: Person) -> None:
    chosen = str(uuid.uuid4())
    assert created(alice, id=chosen) == chosen
    assert create(charlie, id=chosen).status_code == 409


def test_uploads_that_are_refused(alice: Person, bob: Person, store: Path) -> None:
    image_id = created(alice, disk_format="qcow2")
    refusal = put_file(alice, image_id, b"x", content_type="application/json")
    assert refusal.status_code == 415
    assert "application/octet-stream" in refusal.json()["message"]
    assert put_file(bob, image_id, pictures.qcow2()).status_code == 403
    refused = put_file(alice, image_id, pictures.qcow2(backing=b"/etc/shadow"))
    assert refused.status_code == 400
    assert "backing file" in refused.json()["message"]
    wrong = put_file(alice, image_id, pictures.qcow2(), **{"X-Openstack-Image-Size": "5"})
    assert wrong.status_code == 400
    assert put_file(alice, image_id, b"x", **{"X-Openstack-Image-Size": "five"}).status_code == 400
    assert put_file(alice, image_id, b"x", **{"X-Openstack-Image-Size": "9" * 16}).status_code == 413
    gone = {"wsgi.input": io.BytesIO(pictures.qcow2()), "CONTENT_LENGTH": "999999"}
    api = Api(alice)
    short = api.client.put(f"{V2}/images/{image_id}/file", b"x", content_type=OCTETS, headers=api.headers, **gone)
    assert short.status_code == 400
    assert "interrupted" in short.json()["message"]
    assert files(store) == []
    assert Api(alice).get(f"{V2}/images/{image_id}").json()["status"] == "queued"
    assert put_file(alice, image_id, pictures.qcow2()).status_code == 204
    assert put_file(alice, image_id, pictures.qcow2()).status_code == 409


def test_other_projects_images_do_not_exist(people: People, make: MakeImage) -> None:
    image = make(data=pictures.raw())
    path = f"{V2}/images/{image.id}"
    charlie, operator = Api(people.charlie), Api(people.operator)
    for answer in (
        *(charlie.get(path + tail) for tail in ("", "/file", "/members")),
        charlie.delete(path),
        charlie.put(f"{path}/tags/x"),
        patch(people.charlie, str(image.id), replace("/name", "mine")),
        put_file(people.charlie, str(image.id), b"x"),
        charlie.get(f"{V2}/images/nonsense"),
    ):
        assert answer.status_code == 404
        assert answer.json()["code"] == 404
    assert charlie.get(f"{V2}/images").json()["images"] == []
    assert charlie.get(f"{V2}/images?marker={image.id}").status_code == 400
    assert operator.get(path).status_code == 200
    assert Api(people.bob).get(path).status_code == 200
    assert Api(people.bob).delete(path).status_code == 403


def test_public_images_are_read_by_all_and_changed_by_none(people: People, make: MakeImage) -> None:
    image = make(person=people.operator, data=pictures.raw(), visibility="public")
    path = f"{V2}/images/{image.id}"
    assert Api(people.charlie).get(path).status_code == 200
    assert body_of(Api(people.charlie).get(f"{path}/file")) == pictures.raw()
    assert patch(people.charlie, str(image.id), replace("/name", "mine")).status_code == 403
    assert Api(people.charlie).delete(path).status_code == 403


def test_patch(alice: Person, make: MakeImage) -> None:
    image_id = str(make(data=pictures.raw(), properties={"os_distro": "novella", "gone": "soon"}).id)
    answer = patch(
        alice,
        image_id,
        replace("/name", "new"),
        replace("/min_disk", 2),
        replace("/os_hidden", True),
        replace("/os_distro", "debian"),
        {"op": "add", "path": "/a~1b", "value": "slash"},
        {"op": "remove", "path": "/gone"},
        replace("/tags", ["x"]),
        {"op": "add", "path": "/tags/y", "value": ""},
        replace("/visibility", "community"),
    )
    assert answer.status_code == 400  # one tag has no path of its own
    answer = patch(
        alice,
        image_id,
        replace("/name", "new"),
        replace("/min_disk", 2),
        replace("/os_hidden", True),
        replace("/os_distro", "debian"),
        {"op": "add", "path": "/os_version", "value": "12"},
        {"op": "remove", "path": "/gone"},
        replace("/tags", ["x"]),
        replace("/visibility", "community"),
    )
    assert answer.status_code == 200, answer.content
    shown = answer.json()
    assert set(shown) == FIELDS | {"os_distro", "os_version", "stores"}
    assert (shown["name"], shown["min_disk"], shown["os_hidden"], shown["os_distro"]) == ("new", 2, True, "debian")
    assert (shown["tags"], shown["visibility"], shown["status"]) == (["x"], "community", "active")


def test_the_older_patch(alice: Person, make: MakeImage) -> None:
    answer = patch(
        alice,
        str(make().id),
        {"replace": "/name", "value": "new"},
        content_type="application/openstack-images-v2.0-json-patch",
    )
    assert answer.json()["name"] == "new"


@each_row(
    ("operation", "status"),
    [
        (replace("/status", "active"), 403),
        (replace("/checksum", "0"), 403),
        (replace("/owner", "x"), 403),
        (replace("/locations", []), 403),
        (replace("/visibility", "public"), 403),
        (replace("/disk_format", "qcow2"), 403),
        ({"op": "remove", "path": "/name"}, 403),
        (replace("/absent", "x"), 409),
        ({"op": "remove", "path": "/absent"}, 409),
        ({"op": "test", "path": "/name", "value": "x"}, 400),
        ({"op": "replace", "path": "name", "value": "x"}, 400),
        ({"op": "replace", "path": "/name/first", "value": "x"}, 400),
        ({"op": "replace", "path": "/name"}, 400),
        ({"op": "add", "path": "/os_distro", "value": 5}, 400),
        (replace("/min_ram", -1), 400),
        (replace("/tags", {}), 400),
    ],
)
def test_a_wrong_patch_changes_nothing(alice: Person, image: Image, operation: dict[str, Any], status: int) -> None:
    before = Api(alice).get(f"{V2}/images/{image.id}").json()
    answer = patch(alice, str(image.id), replace("/name", "changed"), operation)
    assert answer.status_code == status, answer.content
    assert Api(alice).get(f"{V2}/images/{image.id}").json() == before


def test_a_patch_of_the_wrong_type_or_form(alice: Person, make: MakeImage) -> None:
    image_id = str(make().id)
    api = Api(alice)
    assert patch(alice, image_id, replace("/name", "x"), content_type="text/plain").status_code == 415
    answer = api.client.patch(f"{V2}/images/{image_id}", b"{}", content_type=PATCH_TYPE, headers=api.headers)
    assert answer.status_code == 400


def test_protected_images_stay(alice: Person, make: MakeImage) -> None:
    image_id = str(make().id)
    assert patch(alice, image_id, replace("/protected", True)).status_code == 200
    refused = Api(alice).delete(f"{V2}/images/{image_id}")
    assert refused.status_code == 403
    assert "protected" in refused.json()["message"]
    assert patch(alice, image_id, replace("/protected", False)).status_code == 200
    assert Api(alice).delete(f"{V2}/images/{image_id}").status_code == 204


def test_tags(alice: Person, make: MakeImage) -> None:
    path = f"{V2}/images/{make().id}"
    api = Api(alice)
    assert api.put(f"{path}/tags/red").status_code == api.put(f"{path}/tags/red").status_code == 204
    assert api.get(path).json()["tags"] == ["red"]
    assert [image["name"] for image in api.get(f"{V2}/images?tag=red").json()["images"]] == ["picture"]
    assert api.get(f"{V2}/images?tag=red&tag=blue").json()["images"] == []
    assert api.delete(f"{path}/tags/red").status_code == 204
    assert api.delete(f"{path}/tags/red").status_code == 404


@pytest.mark.slow
def test_filters(alice: Person, operator: Person, make: MakeImage) -> None:
    make(name="a", data=pictures.raw())
    make(name="b, c", disk_format="qcow2", data=pictures.qcow2(), properties={"os_distro": "novella"})
    make(name="d", visibility="private", protected=True)
    make(name="hidden", hidden=True)
    make(name="public", person=operator, visibility="public")
    make(name="community", person=operator, visibility="community")

    def names(query: str = "") -> list[str]:
        answer = Api(alice).get(f"{V2}/images?{query}")
        assert answer.status_code == 200, answer.content
        return [image["name"] for image in answer.json()["images"]]

    assert names() == ["public", "d", "b, c", "a"]
    assert names("name=a") == ["a"]
    assert names('name=in:"b, c",d') == ["d", "b, c"]
    assert names("status=active") == ["b, c", "a"]
    assert names("status=in:active,queued&disk_format=qcow2") == ["b, c"]
    assert names("visibility=public") == ["public"]
    assert names("visibility=community") == ["community"]
    assert names("visibility=all") == ["community", "public", "d", "b, c", "a"]
    assert names(f"owner={alice.project_id.hex}") == ["d", "b, c", "a"]
    assert names("protected=true") == ["d"]
    assert names("os_hidden=true") == ["hidden"]
    assert names("os_distro=novella") == ["b, c"]
    assert names(f"size_min={pictures.MIB}") == ["a"]
    assert names(f"size_max={pictures.MIB - 1}") == ["b, c"]
    assert names("created_at=gte:2020-01-01T00:00:00Z&name=a") == ["a"]
    assert names("created_at=lt:2020-01-01T00:00:00Z") == []
    assert names("sort=name:asc") == ["a", "b, c", "d", "public"]
    assert names("sort_key=status&sort_key=name&sort_dir=asc") == ["a", "b, c", "d", "public"]
    assert names("sort=size:asc,name:asc")[:2] == ["b, c", "a"]
    assert names("id=nonsense") == []


@each_row(
    "query",
    [
        "visibility=secret",
        "protected=perhaps",
        "size_min=-1",
        "limit=x",
        "marker=nonsense",
        "sort=colour",
        "sort_key=name&sort_dir=up",
        "sort=name&sort_key=name",
        'name=in:"open',
        "created_at=yesterday",
    ],
)
def test_a_wrong_query_is_refused(alice: Person, query: str) -> None:
    assert Api(alice).get(f"{V2}/images?{query}").status_code == 400


@pytest.mark.parametrize("sort", ["", "&sort=name:asc", "&sort=size:desc", "&sort=size:asc,name:desc"])
def test_pages_neither_skip_nor_repeat(alice: Person, make: MakeImage, sort: str) -> None:
    for number in range(7):
        make(name=f"n{number % 3}", data=pictures.raw(100 * (number % 2 + 1)) if number < 5 else None)
    api, seen, path = Api(alice), [], f"/v2/images?limit=2{sort}"
    for _ in range(10):
        body = api.get(f"/image{path}").json()
        seen += [image["id"] for image in body["images"]]
        assert "limit=2" in body["first"]
        if "next" not in body:
            break
        path = body["next"]
    whole = [image["id"] for image in api.get(f"{V2}/images?limit=100{sort}").json()["images"]]
    assert seen == whole
    assert len(set(seen)) == 7


def test_schemas(alice: Person) -> None:
    api = Api(alice)
    assert set(api.get(f"{V2}/schemas/image").json()["properties"]) == FIELDS | NULLABLE | {"stores"}
    for name, plural in (("image", "images"), ("member", "members"), ("task", "tasks")):
        assert api.get(f"{V2}/schemas/{name}").json()["name"] == name
        listed = api.get(f"{V2}/schemas/{plural}").json()
        assert listed["properties"][plural]["items"]["name"] == name
    assert api.get(f"{V2}/schemas/nothing").status_code == api.get(f"{V2}/schemas/metadefs").status_code == 404
    assert api.get("/image/v1").status_code == 300


def test_shown_images_fit_the_published_schemas(people: People, make: MakeImage) -> None:
    api = Api(people.alice)
    schema = api.get(f"{V2}/schemas/images").json()
    image = make(data=pictures.raw(512), properties={"os_distro": "novella"}, tags=["x"])
    make(name="")
    validate(api.get(f"{V2}/images").json(), {**schema, "type": "object", "additionalProperties": False})
    services.add_member(people.alice.context, image.id, people.charlie.project_id)
    validate(api.get(f"{V2}/images/{image.id}/members").json(), api.get(f"{V2}/schemas/members").json())


def test_without_a_token_nothing_happens(make: MakeImage, store: Path) -> None:
    path = f"{V2}/images/{make().id}"
    api = Api(None)
    for answer in (api.get(f"{V2}/images"), api.get(path), api.delete(path), api.get(f"{path}/file")):
        assert answer.status_code == 401
    assert api.client.put(f"{path}/file", b"x", content_type=OCTETS).status_code == 401
    assert files(store) == []


def test_readers_do_not_write(bob: Person, make: MakeImage) -> None:
    assert create(bob).status_code == 403
    assert Api(bob).get(f"{V2}/images/{make().id}").status_code == 200


def test_queries_do_not_grow_with_the_list(alice: Person, make: MakeImage) -> None:
    api, counts = Api(alice), []
    api.get(f"{V2}/images")
    for _ in range(2):
        make()
        make()
        with CaptureQueriesContext(connection) as queries:
            assert api.get(f"{V2}/images").status_code == 200
        counts.append(len(queries))
    assert counts == [2, 2]


@each_row("name", ["", None, "né 🙂", "  two  blanks  "])
def test_a_name_is_returned_as_sent(alice: Person, name: str | None) -> None:
    image = created(alice, name=name)
    assert Api(alice).get(f"{V2}/images/{image}").json()["name"] == name


def test_an_empty_name_and_none_replace_each_other(alice: Person) -> None:
    image = created(alice)
    for name in ("", None, "named", ""):
        assert patch(alice, image, {"op": "replace", "path": "/name", "value": name}).json()["name"] == name


def test_a_kernel_and_a_ramdisk_may_be_null(alice: Person) -> None:
    image = created(alice, kernel_id=None, ramdisk_id=None, os_distro="debian")
    shown = Api(alice).get(f"{V2}/images/{image}").json()
    assert (shown["kernel_id"], shown["ramdisk_id"], shown["os_distro"]) == (None, None, "debian")
    assert text_of(Image.objects.get(id=image).properties) == {"os_distro": "debian"}
    validate(shown, {**Api(alice).get(f"{V2}/schemas/image").json(), "type": "object"})
    kernel = str(uuid.uuid4())
    for value in (kernel, None):
        assert patch(alice, image, {"op": "replace", "path": "/kernel_id", "value": value}).json()["kernel_id"] == value
        listed = Api(alice).get(f"{V2}/images?kernel_id={kernel}").json()["images"]
        assert len(listed) == (value is not None)
    assert create(alice, os_distro=None).status_code == 400
